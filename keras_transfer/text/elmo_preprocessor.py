"""ELMo's preprocessor: raw text to the bytes of its words."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras

from keras_transfer.core.expect import expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.text.predicted_words import PredictedWords
from keras_transfer.text.preprocessor import DEFAULT_LENGTH, WordLevelPreprocessor, pad_words

# The ids of a word's characters are its bytes plus one, and the special ids below. The id 0 pads texts.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD_CHARACTER = range(257, 262)
NUM_CHARACTERS = 262


@keras.saving.register_keras_serializable(package="keras_transfer")
class ElmoPreprocessor(SavedByArguments, WordLevelPreprocessor):
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
        vocabulary: List of strings, or the path of a file with one word per line: the words that a `BidirectionalLM`
            predicts, as `text.word_vocabulary` returns them. Defaults to `None`. ELMo itself needs none.
        name: String. Name of the layer.

    Call arguments:
        - `texts`: A string, or a list, array, table column or tensor of strings.
        - `sequence_length`: Integer. Overrides the constructor's. `"longest"` pads to the longest text of the batch,
          and still truncates to the constructor's length. Defaults to `None`.

    Returns:
        Dict of `character_ids` [batch, sequence_length, max_characters] and `padding_mask` [batch, sequence_length] (1
        is a real word), TensorFlow int32 tensors. With `vocabulary` also `word_ids` [batch, sequence_length], the
        places of the words in it, or of `<UNK>`. For a single string, without the first axis.

    Raises:
        ValueError: If texts are pairs or not strings, if a length is too small, or if the vocabulary has duplicates or
            lacks `<S>`, `</S>` or `<UNK>`.

    Example:
    ```python
    preprocessor = keras_transfer.text.ElmoPreprocessor(sequence_length=4)
    preprocessor(["A fine film ."])["character_ids"][0, 0, :4]  # [259, 66, 260, 261]
    ```

    Source: https://github.com/allenai/bilm-tf, `UnicodeCharsVocabulary`.
    """

    assets = ("vocabulary",)

    @expects(max_characters=integer(3))
    def __init__(
        self,
        sequence_length: int = DEFAULT_LENGTH,
        *,
        max_characters: int = 50,
        split: str = "whitespace",
        vocabulary: Sequence[str] | None = None,
        name: str | None = None,
    ):
        super().__init__(sequence_length, split, name)
        self.max_characters = max_characters
        self.predicted_words = PredictedWords(vocabulary, split)

    @property
    def has_vocabulary(self) -> bool:
        """Boolean. Whether the preprocessor has the words that a language model predicts."""
        return self.predicted_words.is_loaded

    @property
    def vocabulary(self) -> list[str]:
        """List of strings, the words that a language model predicts, in the order of their ids."""
        return self.predicted_words.vocabulary

    def token_to_id(self, token: str) -> int | None:
        """Returns the id of a word.

        Args:
            token: String.

        Returns:
            An integer, or `None` if the vocabulary lacks the word.
        """
        return self.predicted_words.token_to_id(token)

    def _features(self):
        axes = {"character_ids": (self.max_characters,), "padding_mask": ()}
        return {**axes, "word_ids": ()} if self.has_vocabulary else axes

    def _word_pieces(self, words):
        pieces = self.characters(words)
        if self.has_vocabulary:
            pieces = tf.concat([pieces, self.predicted_words.look_up(words)[:, None]], axis=1)
        return pieces, tf.ones_like(words, tf.int32)

    def _pack_words(self, pieces, sequence_length):
        inputs = pad_words("character_ids", pieces, sequence_length)
        if self.has_vocabulary:
            ids = inputs["character_ids"]
            inputs |= {"character_ids": ids[..., :-1], "word_ids": ids[..., -1]}
        return inputs

    def characters(self, words: Any) -> Any:
        """Returns the character ids of words.

        Args:
            words: String tensor of shape `[words]`.

        Returns:
            An int32 tensor of shape `[words, max_characters]`.
        """
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

    def save_assets(self, dir_path: str | os.PathLike) -> None:
        """Writes the vocabulary, if there is one, into a folder.

        Args:
            dir_path: String or path.
        """
        if self.has_vocabulary:
            self.predicted_words.save_assets(dir_path)

    def load_assets(self, dir_path: str | os.PathLike) -> None:
        """Reads the vocabulary, if `save_assets` wrote one.

        Args:
            dir_path: String or path.
        """
        file = pathlib.Path(dir_path) / self.predicted_words.vocabulary_file
        if os.fspath(dir_path) and file.exists():  # Keras passes "" if there are no assets.
            self.predicted_words.load_assets(dir_path)
