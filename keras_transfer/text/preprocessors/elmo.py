"""ELMo's preprocessor: raw text to the bytes of its words."""

import keras

from keras_transfer.text.base import DEFAULT_LENGTH, batch_shape
from keras_transfer.text.preprocessors.word_level import WholeWordPreprocessor, pad_words

# The ids of a word's characters are its bytes plus one, and the special ids below. The id 0 pads texts.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD_CHARACTER = range(257, 262)
NUM_CHARACTERS = 262


@keras.saving.register_keras_serializable(package="keras_transfer")
class ElmoPreprocessor(WholeWordPreprocessor):
    """Turns texts into the inputs of ELMo: the ids of the characters of each word, as in the original.

    The ids of a word are the beginning of a word, its bytes in UTF-8, the end of a word, and padding. As in the
    original, the bytes are truncated to `max_characters - 2`, possibly in the middle of a letter, and the words `<S>`
    and `</S>` are the boundaries of a sentence. The encoder adds the boundaries of each text.

    Args:
        sequence_length: Integer, at least 1. Number of words that a text is truncated and padded to. Defaults to `128`.
        max_characters: Integer, at least 3. Number of ids of a word. Defaults to `50`.
        split: String. How texts are split into words. `"whitespace"`: at white space only, as in the original, which
            was trained on tokenized text. `"punctuation"`: at white space, and each punctuation character is a word.
            Defaults to `"whitespace"`.
        name: String. Name of the layer.

    Call arguments:
        texts: A string, or a list, array, table column or tensor of strings.
        sequence_length: Integer. Overrides the constructor's. `"longest"` pads to the longest text of the batch, and
            still truncates to the constructor's length. Defaults to `None`.

    Returns:
        Dict of `character_ids` [batch, sequence_length, max_characters] and `padding_mask` [batch, sequence_length] (1
        is a real word), TensorFlow int32 tensors. For a single string, without the first axis.

    Raises:
        ValueError: If texts are pairs or not strings, or if a length is too small.

    Example:
    ```python
    preprocessor = keras_transfer.text.ElmoPreprocessor(sequence_length=4)
    preprocessor(["A fine film ."])["character_ids"][0, 0, :4]  # [259, 66, 260, 261]
    ```

    Source: https://github.com/allenai/bilm-tf, `UnicodeCharsVocabulary`.
    """

    def __init__(self, sequence_length=DEFAULT_LENGTH, *, max_characters=50, split="whitespace", name=None):
        super().__init__(sequence_length, split, name)
        if max_characters < 3:
            raise ValueError(f"`max_characters` must be at least 3. Received: max_characters={max_characters!r}")
        self.max_characters = max_characters

    def _word_pieces(self, words):
        import tensorflow as tf

        return self._characters(words), tf.ones_like(words, tf.int32)

    def _pack_words(self, pieces, sequence_length):
        return pad_words("character_ids", pieces, sequence_length)

    def _characters(self, words):
        """Returns the ids [words, max_characters] of words [words]."""
        import tensorflow as tf

        room = self.max_characters - 2
        letters = tf.cast(tf.io.decode_raw(words, tf.uint8, fixed_length=room), tf.int32) + 1
        lengths = tf.minimum(tf.strings.length(words), room)[:, None]
        for word, marker in (("<S>", BEGIN_SENTENCE), ("</S>", END_SENTENCE)):
            is_marker = (words == word)[:, None]
            letters = tf.where(is_marker, marker, letters)
            lengths = tf.where(is_marker, 1, lengths)
        place = tf.range(self.max_characters)[None] - 1
        ids = tf.pad(letters, [[0, 0], [1, 1]])
        ids = tf.where(place < lengths, ids, tf.where(place == lengths, END_WORD, PAD_CHARACTER))
        return tf.where(place < 0, BEGIN_WORD, ids)

    def compute_output_spec(self, texts, sequence_length=None):
        self._check_single(texts)
        shape = (*batch_shape(texts), self._length_of(sequence_length))
        return {
            "character_ids": keras.KerasTensor((*shape, self.max_characters), "int32", name="character_ids"),
            "padding_mask": keras.KerasTensor(shape, "int32", name="padding_mask"),
        }

    def get_config(self):
        names = ("sequence_length", "max_characters", "split", "name")
        return {name: getattr(self, name) for name in names}
