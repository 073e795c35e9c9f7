"""The preprocessor of word vectors: raw text to one id per word."""

from collections.abc import Sequence

import keras

from keras_transfer.core.expect import expect, expects
from keras_transfer.core.lazy import tf
from keras_transfer.text.preprocessor import DEFAULT_LENGTH, HasTokenizer, WordLevelPreprocessor, pad_words
from keras_transfer.text.strings.splitting import split_words
from keras_transfer.text.strings.string_table import look_up, make_table
from keras_transfer.text.tokenizers.tokenizer import Tokenizer

PAD_ID, UNK_ID, FIRST_ID = 0, 1, 2


@keras.saving.register_keras_serializable(package="keras_transfer")
class WordTokenizer(Tokenizer):
    """Splits texts into words and looks up their ids; the tokenizer of `WordPreprocessor`."""

    vocabulary_file = "vocabulary.txt"
    first_id = FIRST_ID
    unk_id = UNK_ID

    def __init__(self, vocabulary=None, lowercase=False, split="punctuation", case_folding=True):
        super().__init__(vocabulary)
        self.lowercase = bool(lowercase)
        self.split = split
        self.case_folding = bool(case_folding)

    def _set_vocabulary(self, tokens):
        rule = "A vocabulary must contain at least one word and no empty strings."
        expect(tokens and "" not in tokens, rule, tokens=tokens[:3])
        super()._set_vocabulary(tokens)
        self._exact = self._folded = None

    def _tokenize(self, texts):
        words = split_words(texts, self.split)
        return words.with_values(self.look_up(words.values))

    def look_up(self, words):
        """Returns the ids of words [words] as an int32 tensor."""
        self._check_loaded()
        if self._exact is None:
            # A function that is being traced would keep the tables in its own graph.
            with tf.init_scope(), tf.device("CPU:0"):
                keys = tf.constant(self.vocabulary, tf.string, [len(self.vocabulary)])
                ids = tf.range(self.first_id, self.vocabulary_size)
                self._exact = make_table(keys, ids)
                self._folded = make_table(_fold(keys), ids) if self.case_folding else None
        words = tf.strings.lower(words, encoding="utf-8") if self.lowercase else words
        ids = look_up(self._exact, words, self.unk_id)
        if self.case_folding:
            # Most words are found at once, and folding is slow.
            rare = tf.where(ids == self.unk_id)
            folded = look_up(self._folded, _fold(tf.gather_nd(words, rare)), self.unk_id)
            ids = tf.tensor_scatter_nd_update(ids, rare, folded)
        return ids


@keras.saving.register_keras_serializable(package="keras_transfer")
class WordPreprocessor(HasTokenizer, WordLevelPreprocessor):
    """Turns texts into the ids of their words: 0 is padding, 1 an unknown word, 2 the first word of the vocabulary.

    Args:
        vocabulary: List of strings, the words, such as `WordVectors.words`, or the path of a file with one word per
            line. If `None`, call `load_assets` before ids are needed; `words` works without. Defaults to `None`.
        sequence_length: Integer. Number of words that a text is truncated and padded to. Defaults to `128`.
        lowercase: Boolean. Whether words are lowercased before they are looked up. Defaults to `False`.
        split: String. How texts are split into words. `"punctuation"`: at white space, and each punctuation character
            is a word. `"whitespace"`: at white space only, for tokenized text. Defaults to `"punctuation"`.
        case_folding: Boolean. Whether a word that the vocabulary lacks gets the id of the first word that differs only
            in case, as in `WordVectors.load`. Defaults to `True`.
        name: String. Name of the layer.

    Call arguments:
        - `texts`: A string, or a list, array, table column or tensor of strings.
        - `sequence_length`: Integer. Overrides the constructor's. `"longest"` pads to the longest text of the batch,
          and still truncates to the constructor's length. Defaults to `None`.

    Returns:
        Dict of `token_ids` and `padding_mask` (1 is a real word), TensorFlow int32 tensors [batch, sequence_length].
        For a single string, [sequence_length].

    Raises:
        ValueError: If the vocabulary has duplicates, if texts are pairs or not strings, or if a length is too small.

    Example:
    ```python
    preprocessor = keras_transfer.text.WordPreprocessor(["the", "film", "."], sequence_length=6)
    preprocessor(["The film was long."])["token_ids"]  # [[2, 3, 1, 1, 4, 0]]
    ```
    """

    @expects()
    def __init__(
        self,
        vocabulary: Sequence[str] | None = None,
        sequence_length: int = DEFAULT_LENGTH,
        *,
        lowercase: bool = False,
        split: str = "punctuation",
        case_folding: bool = True,
        name: str | None = None,
    ):
        super().__init__(sequence_length, split, name)
        self.tokenizer = WordTokenizer(vocabulary, lowercase, split, case_folding)

    def _features(self):
        return {"token_ids": (), "padding_mask": ()}

    def _word_pieces(self, words):
        return self.tokenizer.look_up(words), tf.ones_like(words, tf.int32)

    def _pack_words(self, pieces, sequence_length):
        return pad_words("token_ids", pieces, sequence_length)

    def get_config(self):
        return {"sequence_length": self.sequence_length, **self.tokenizer.get_config(), "name": self.name}


def _fold(words):
    """Folds the case of words, so that words that differ only in case become equal, as with Python's `casefold`.

    TF Text's `case_fold_utf8` equates more: fractions, ligatures, superscripts.
    """
    words = tf.strings.regex_replace(words, "\u0131", "\x01")  # the capital of the dotless i is that of i
    for change in (tf.strings.lower, tf.strings.upper, tf.strings.lower):
        words = change(words, encoding="utf-8")
    return words
