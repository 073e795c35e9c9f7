"""ELMo's preprocessor: raw text to the bytes of its words."""

import keras

from keras_transfer.text.preprocessor import DEFAULT_LENGTH
from keras_transfer.text.word_rows import WholeWords, pad_words

# Ids of a word's characters: bytes from 1, then these; 0 is padding of texts.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD_CHARACTER = range(257, 262)
NUM_CHARACTERS = 262


@keras.saving.register_keras_serializable(package="keras_transfer")
class ElmoPreprocessor(WholeWords):
    """Turns texts into the inputs of ELMo: for each word the ids of its characters, just as the original does.

    A word's ids are its beginning, its bytes in UTF-8 (cut to two less than `max_characters`, where need be in the
    middle of a letter, as the original does), its end, and padding. As in the original the words `<S>` and `</S>` are a
    sentence's boundaries; those around each text are put there by the encoder.

    Args:
        sequence_length: int, at least 1, number of words a text is padded and cut to.
        max_characters: int, at least 3, number of ids of a word.
        split: as for `WordPreprocessor`: `"whitespace"` as the original, which was trained on text whose punctuation
            stands by itself, or `"punctuation"` for text as people type it.
        name: str.

    Call arguments:
        texts: a str, or a list, array, column of a table or tensor of them.
        sequence_length: int instead of the constructor's; or `"longest"` to pad only to the longest text of the batch.

    Returns:
        dict of `character_ids` [batch, sequence_length, max_characters] and `padding_mask` [batch, sequence_length] (1
        is a real word), TensorFlow tensors int32; of a single str without the first axis.

    Raises:
        ValueError: texts are no strings, or pairs; a length is too small.

    Example:
    ```python
    preprocessor = keras_transfer.text.ElmoPreprocessor(sequence_length=4)
    preprocessor(["A fine film ."])["character_ids"][0, 0, :4]  # [259, 66, 260, 261]
    ```

    Source: https://github.com/allenai/bilm-tf, `UnicodeCharsVocabulary`.
    """

    single = "ELMo takes single texts"

    def __init__(self, sequence_length=DEFAULT_LENGTH, max_characters=50, split="whitespace", name=None):
        super().__init__(sequence_length, split, name)
        if max_characters < 3:
            raise ValueError(f"`max_characters` must be at least 3. Received: {max_characters!r}")
        self.max_characters = max_characters

    def _pieces(self, words):
        import tensorflow as tf

        return self._characters(words), tf.ones_like(words, tf.int32)

    def _rows(self, pieces, width):
        return pad_words({"character_ids": pieces}, width)

    def _characters(self, words):
        """The ids [words, max_characters] of words [words]."""
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
        shape = (*texts.shape, self._length_of(sequence_length))
        return {
            "character_ids": keras.KerasTensor((*shape, self.max_characters), "int32", name="character_ids"),
            "padding_mask": keras.KerasTensor(shape, "int32", name="padding_mask"),
        }

    def get_config(self):
        names = ("sequence_length", "max_characters", "split", "name")
        return {name: getattr(self, name) for name in names}
