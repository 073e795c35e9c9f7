"""The preprocessor of word vectors: raw text to one id a word."""

import pathlib

import keras

from keras_transfer.text.preprocessor import DEFAULT_LENGTH
from keras_transfer.text.word_rows import WholeWords, pad_words

VOCABULARY_FILE = "vocabulary.txt"
PAD_ID, UNK_ID, FIRST_ID = 0, 1, 2


class WordTable:
    """The ids of words, in the graph: by a search among hashes, and the words found are compared.

    A plain object without a resource: neither Keras nor TensorFlow needs to track it, and a SavedModel holds it as
    constants.
    """

    def __init__(self, words, case_folding):
        self.words = list(words)
        wrong = [word for word in self.words if not isinstance(word, str) or not word or "\n" in word]
        if wrong:
            raise ValueError(f"a vocabulary is a list of words without line ends. Received: {wrong[:3]} in it")
        if not self.words:
            raise ValueError("a vocabulary has at least one word. Received: an empty one")
        self.ids = {word: index for index, word in enumerate(self.words, FIRST_ID)}
        if len(self.ids) < len(self.words):
            twice = [word for index, word in enumerate(self.words, FIRST_ID) if self.ids[word] != index]
            raise ValueError(
                f"a word can stand only once in a vocabulary. Received: {len(twice)} duplicates, the first {twice[:3]}"
            )
        self.case_folding = case_folding
        self._exact = self._folded = None

    def __call__(self, words):
        """Returns the ids of words [words], int32."""
        import tensorflow as tf

        if self._exact is None:
            # Outside of any function that is being traced, which would keep them to itself.
            with tf.init_scope(), tf.device("CPU:0"):
                keys = tf.constant(self.words, tf.string, [len(self.words)])
                self._exact = _sorted(keys)
                self._folded = _sorted(_fold(keys)) if self.case_folding else None
        ids = _look_up(self._exact, words)
        if self.case_folding:
            # Most words are found at once; folding the others is the dearer part.
            rare = tf.where(ids == UNK_ID)
            ids = tf.tensor_scatter_nd_update(ids, rare, _look_up(self._folded, _fold(tf.gather_nd(words, rare))))
        return ids


@keras.saving.register_keras_serializable(package="keras_transfer")
class WordPreprocessor(WholeWords):
    """Turns texts into the ids of their words: 0 is padding, 1 a word that the vocabulary lacks, 2 its first word.

    Args:
        vocabulary: list of str, the words, such as `WordVectors.words`; or the path of a file with a word a line. None
            leaves it to `load_assets`; then only `words` works.
        sequence_length: int, number of words a text is padded and cut to.
        lowercase: bool, whether words are looked up in lower case.
        split: `"punctuation"`: at white space, and each punctuation character is a word of its own; `"whitespace"`:
            there only, for texts whose words stand apart already.
        case_folding: bool, whether a word that the vocabulary lacks has the id of its first word that differs only in
            case, as in `WordVectors.load`.
        name: str.

    Call arguments:
        texts: a str, or a list, array, column of a table or tensor of them.
        sequence_length: int instead of the constructor's; or `"longest"` to pad only to the longest text of the batch
            (still cut to the constructor's).

    Returns:
        dict of `token_ids` and `padding_mask` (1 is a real word), TensorFlow tensors int32 [batch, sequence_length];
        of a single str, [sequence_length].

    Raises:
        ValueError: the vocabulary has duplicates; texts are no strings, or pairs; a length is too small.

    Example:
    ```python
    preprocessor = keras_transfer.text.WordPreprocessor(["the", "film", "."], sequence_length=6)
    preprocessor(["The film was long."])["token_ids"]  # [[2, 3, 1, 1, 4, 0]]
    ```
    """

    single = "word vectors are of single texts"

    def __init__(
        self,
        vocabulary=None,
        sequence_length=DEFAULT_LENGTH,
        lowercase=False,
        split="punctuation",
        case_folding=True,
        name=None,
    ):
        super().__init__(sequence_length, split, name)
        self.lowercase = bool(lowercase)
        self.case_folding = bool(case_folding)
        if isinstance(vocabulary, str | pathlib.Path):
            vocabulary = _read(vocabulary)
        self._table = None if vocabulary is None else WordTable(vocabulary, self.case_folding)

    @property
    def _loaded(self):
        if self._table is None:
            raise ValueError(
                f"{self.name} has no vocabulary: pass `vocabulary`, or call `load_assets`. Received: vocabulary=None"
            )
        return self._table

    @property
    def vocabulary(self):
        """list of str, the words; the first one's id is 2."""
        return self._loaded.words

    @property
    def vocabulary_size(self):
        """int, number of ids: of the words, padding and the unknown word."""
        return FIRST_ID + len(self.vocabulary)

    def token_to_id(self, token):
        """Returns the id of a word as it is written (a str); None if the vocabulary does not have it."""
        return self._loaded.ids.get(token)

    def _pieces(self, words):
        import tensorflow as tf

        ids = self._loaded(tf.strings.lower(words, encoding="utf-8") if self.lowercase else words)
        return ids, tf.ones_like(words, tf.int32)

    def _rows(self, pieces, width):
        return pad_words({"token_ids": pieces}, width)

    def compute_output_spec(self, texts, sequence_length=None):
        self._check_single(texts)
        if len(texts.shape) > 1:
            raise ValueError(
                'texts in a functional model are `keras.Input(shape=(), dtype="string")`. '
                f"Received: the shape {texts.shape}"
            )
        length = self._length_of(sequence_length)
        return {
            key: keras.KerasTensor((*texts.shape, length), dtype="int32", name=key)
            for key in ("token_ids", "padding_mask")
        }

    def get_config(self):
        return {
            "sequence_length": self.sequence_length,
            "lowercase": self.lowercase,
            "split": self.split,
            "case_folding": self.case_folding,
            "name": self.name,
        }

    def save_assets(self, dir_path):
        path = pathlib.Path(dir_path) / VOCABULARY_FILE
        path.write_text("".join(f"{word}\n" for word in self.vocabulary), "utf-8", newline="\n")

    def load_assets(self, dir_path):
        self._table = WordTable(_read(pathlib.Path(dir_path) / VOCABULARY_FILE), self.case_folding)


def _read(path):
    # Not by lines: a word may hold what else Python takes for a line's end.
    return pathlib.Path(path).read_bytes().decode("utf-8").removesuffix("\n").split("\n")


def _fold(words):
    """Words by which those that differ only in case are one, as by Python's `casefold`.

    TF Text's `case_fold_utf8` takes more for the same: fractions, ligatures, superscripts.
    """
    import tensorflow as tf

    words = tf.strings.regex_replace(words, "\u0131", "\x01")  # the dotless i: its capital is that of i
    for change in (tf.strings.lower, tf.strings.upper, tf.strings.lower):
        words = change(words, encoding="utf-8")
    return words


def _hash(words):
    import tensorflow as tf

    return tf.strings.to_hash_bucket_fast(words, 2**63 - 1)


def _sorted(keys):
    """Hashes in order, their words, and these words' ids; of equal words the first one's."""
    import tensorflow as tf

    hashes = _hash(keys)
    order = tf.argsort(hashes, stable=True)
    ids = tf.range(FIRST_ID, FIRST_ID + tf.size(keys))
    return tf.gather(hashes, order), tf.gather(keys, order), tf.gather(ids, order)


def _look_up(table, words):
    import tensorflow as tf

    hashes, keys, ids = table
    at = tf.searchsorted(hashes, _hash(words))  # the first of equal ones
    at = tf.minimum(at, tf.size(hashes) - 1)
    return tf.where(tf.gather(keys, at) == words, tf.gather(ids, at), UNK_ID)
