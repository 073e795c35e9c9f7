"""BERT's preprocessor: raw text to WordPiece ids, segments and a mask."""

import json
import pathlib

import keras

from keras_transfer.text.normalizer import normalize
from keras_transfer.text.preprocessor import DEFAULT_LENGTH, as_text_tensors, checked_length
from keras_transfer.text.word_rows import OfWords
from keras_transfer.text.wordpiece import (
    CONFIG_FILE,
    VOCABULARY_FILE,
    WordPiece,
    looks_cased,
    read_folder,
)


@keras.saving.register_keras_serializable(package="keras_transfer")
class BertPreprocessor(OfWords):
    """Turns texts, or pairs of texts, into the inputs of BERT: WordPiece ids, segments and a mask.

    One text becomes `[CLS] a [SEP]`, a pair `[CLS] a [SEP] b [SEP]` with segments 0 and 1. What is
    too long is cut at the end, of a pair the longer text first; what is short is padded at the end.
    The ids are those of Hugging Face `tokenizers`. What a user types is text: "[MASK]" becomes
    the three tokens `[`, `mask`, `]`, never the special token.

    Args:
        vocabulary: list of str, the token of each id; or the path of a `vocab.txt` with a token a
            line. Empty last tokens do not count. It needs `[PAD]`, `[UNK]`, `[CLS]` and `[SEP]`;
            `[MASK]` only for masked language models. None leaves it to `load_assets`.
        sequence_length: int, at least 3, number of ids a text is padded and cut to, with `[CLS]`
            and `[SEP]`.
        lowercase: bool, True for uncased vocabularies.
        strip_accents: bool, or None for as `lowercase`, as in BERT.
        split: for tasks that label words, how texts are split into them: `"punctuation"`: at white space, and each
            punctuation character is a word of its own; `"whitespace"`: there only. The ids are the same.
        name: str.

    Call arguments:
        texts: a str, or a list, array, column of a table or tensor of them; or a tuple of two such,
            for pairs.
        sequence_length: int instead of the constructor's; or `"longest"` to pad only to the longest
            text of the batch (still cut to the constructor's).

    Returns:
        dict of `token_ids`, `segment_ids` and `padding_mask` (1 is a real token), TensorFlow
        tensors int32 [batch, sequence_length]; of a single str, [sequence_length].

    Raises:
        ValueError: the vocabulary lacks special tokens or has duplicates; texts are no strings; a
            length is too small.
        ImportError: TensorFlow Text is not installed.

    Example:
    ```python
    preprocessor = keras_transfer.text.BertPreprocessor(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "##s"], sequence_length=8
    )
    preprocessor(["The films"])["token_ids"]  # [[2, 4, 5, 6, 3, 0, 0, 0]]
    ```

    Source: Devlin et al. 2019, "BERT", section 3; https://github.com/google-research/bert.
    """

    specials = 2

    def __init__(
        self,
        vocabulary=None,
        sequence_length=DEFAULT_LENGTH,
        lowercase=True,
        strip_accents=None,
        split="punctuation",
        name=None,
    ):
        super().__init__(sequence_length, split, name)
        self._wordpiece = None if vocabulary is None else WordPiece(vocabulary)
        self.lowercase = bool(lowercase)
        self.strip_accents = strip_accents

    @property
    def _loaded(self):
        if self._wordpiece is None:
            raise ValueError(
                f"{self.name} has no vocabulary: pass `vocabulary`, or call `load_assets`. Received: vocabulary=None"
            )
        return self._wordpiece

    @property
    def vocabulary(self):
        """list of str, the token of each id."""
        return self._loaded.tokens

    @property
    def vocabulary_size(self):
        """int, number of ids."""
        return len(self.vocabulary)

    def token_to_id(self, token):
        """Returns the id of a token (a str); None if the vocabulary does not have it."""
        return self._loaded.ids.get(token)

    @property
    def pad_id(self):
        """int, the id of `[PAD]`."""
        return self.token_to_id("[PAD]")

    @property
    def unk_id(self):
        """int, the id of `[UNK]`."""
        return self.token_to_id("[UNK]")

    @property
    def cls_id(self):
        """int, the id of `[CLS]`."""
        return self.token_to_id("[CLS]")

    @property
    def sep_id(self):
        """int, the id of `[SEP]`."""
        return self.token_to_id("[SEP]")

    @property
    def mask_id(self):
        """int, the id of `[MASK]`; None if the vocabulary has none."""
        return self.token_to_id("[MASK]")

    def tokenize(self, texts):
        """Returns the ids of texts without special tokens, neither cut nor padded.

        Args:
            texts: a str, or a list, array, column of a table or tensor of them.

        Returns:
            An int32 `tf.RaggedTensor` [batch, None]; of a single str an int32 tensor.

        Raises:
            ValueError: `texts` is a pair, or no text.

        Example:
        ```python
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "##s"]
        keras_transfer.text.BertPreprocessor(vocabulary).tokenize(["The films", "films"])
        ```
        """
        import tensorflow as tf

        if isinstance(texts, tuple):
            raise ValueError(f"`tokenize` takes no pairs; several texts are a list. Received: {texts!r:.100}")
        with tf.device("CPU:0"):
            texts = as_text_tensors(texts)
            ids = self._tokenize(tf.reshape(texts, [-1]))
            return ids.values if texts.shape.rank == 0 else ids

    def _tokenize(self, texts):
        lowercase = self.lowercase
        strip_accents = lowercase if self.strip_accents is None else self.strip_accents
        return self._loaded(normalize(texts, lowercase, strip_accents))

    def _pieces(self, words):
        """A word of which nothing is left, such as a control character, is `[UNK]`."""
        import tensorflow as tf

        ids = self._tokenize(words)
        empty = ids.row_lengths() == 0
        unknown = tf.fill([tf.math.count_nonzero(empty)], self.unk_id)
        ids = tf.concat([ids, tf.RaggedTensor.from_row_lengths(unknown, tf.cast(empty, tf.int64))], 1)
        return ids.values, ids.row_lengths()

    def _rows(self, pieces, width):
        return self._pack([pieces], width)

    def call(self, texts, sequence_length=None):
        import tensorflow as tf

        parts = texts if isinstance(texts, tuple) else (texts,)
        segments = [self._tokenize(tf.reshape(part, [-1])) for part in parts]
        inputs = self._pack(segments, self._length_of(sequence_length))
        if parts[0].shape.rank == 0:
            return {key: value[0] for key, value in inputs.items()}
        return inputs

    def compute_output_spec(self, texts, sequence_length=None):
        batch = (texts[0] if isinstance(texts, tuple) else texts).shape
        if len(batch) > 1:
            raise ValueError(
                f'texts in a functional model are `keras.Input(shape=(), dtype="string")`. Received: the shape {batch}'
            )
        length = self._length_of(sequence_length)
        return {
            key: keras.KerasTensor((*batch, length), dtype="int32", name=key)
            for key in ("token_ids", "segment_ids", "padding_mask")
        }

    def _checked_length(self, sequence_length):
        return checked_length(sequence_length, 3, "[CLS], a [SEP] for each text")

    def _pack(self, segments, sequence_length):
        """Puts one or two ragged segments with `[CLS]` and `[SEP]` into rows of one length, with None the longest's."""
        import tensorflow as tf

        specials = len(segments) + 1
        lengths = [tf.cast(ids.row_lengths(), tf.int32) for ids in segments]
        longest = self.sequence_length if sequence_length is None else sequence_length
        lengths = _longest_first(lengths, longest - specials)
        if sequence_length is None:
            sequence_length = tf.reduce_max(tf.concat([[0], sum(lengths)], 0)) + specials

        position = tf.range(sequence_length)[None, :]
        token_ids = tf.where(position == 0, self.cls_id, self.pad_id)
        segment_ids = tf.zeros_like(position)
        start = tf.ones_like(lengths[0])[:, None]
        for segment, (ids, length) in enumerate(zip(segments, lengths, strict=True)):
            end = start + length[:, None]
            # Where the token at each position lies among the segment's values; there are none
            # outside of it, and the last one, [PAD], is there for a batch of empty texts.
            values = tf.concat([ids.values, [self.pad_id]], 0)
            index = tf.cast(ids.row_starts(), tf.int32)[:, None] + position - start
            inside = (position >= start) & (position < end)
            index = tf.where(inside, index, tf.size(values) - 1)
            token_ids = tf.where(inside, tf.gather(values, index), token_ids)
            token_ids = tf.where(position == end, self.sep_id, token_ids)
            segment_ids = tf.where((position >= start) & (position <= end), segment, segment_ids)
            start = end + 1
        return {
            "token_ids": token_ids,
            "segment_ids": segment_ids,
            "padding_mask": tf.cast(position < start, tf.int32),
        }

    def get_config(self):
        return {
            "sequence_length": self.sequence_length,
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split": self.split,
            "name": self.name,
        }

    def save_assets(self, dir_path):
        path = pathlib.Path(dir_path) / VOCABULARY_FILE
        path.write_text("".join(f"{token}\n" for token in self.vocabulary), "utf-8", newline="\n")

    def load_assets(self, dir_path):
        self._wordpiece = WordPiece(pathlib.Path(dir_path) / VOCABULARY_FILE)

    def save(self, folder):
        """Writes `vocab.txt` and `tokenizer_config.json`, which `load` and Transformers can read.

        Args:
            folder: path; made if it does not exist. `sequence_length` is written as
                `model_max_length`.

        Example:
        ```python
        preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
        preprocessor.save("my_preprocessor")
        ```
        """
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.save_assets(folder)
        config = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lowercase,
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": True,
            "model_max_length": self.sequence_length,
        }
        (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", "utf-8")

    @classmethod
    def load(cls, folder, sequence_length=None, lowercase=None, split="punctuation", name=None):
        """Returns the preprocessor of a folder that `save`, Transformers or Google's BERT wrote.

        Args:
            folder: path of a folder with `vocab.txt` or `tokenizer.json`.
            sequence_length: int; None for the folder's: `max_seq_length` of
                `sentence_bert_config.json`, else `model_max_length` of `tokenizer_config.json`,
                else 128.
            lowercase: bool; None for the folder's: `do_lower_case` of `tokenizer_config.json`, else
                the normalizer's in `tokenizer.json`. Where neither says so (Google's folders),
                False if a token of the vocabulary has an upper-case letter, special tokens aside.
            split: as in the constructor.
            name: str.

        Raises:
            FileNotFoundError: the folder has no vocabulary.
            ValueError: its tokenizer is no WordPiece, or splits words in a way that this does not.

        Example:
        ```python
        preprocessor = keras_transfer.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
        preprocessor.save("my_preprocessor")
        keras_transfer.text.BertPreprocessor.load("my_preprocessor", sequence_length=64)
        ```
        """
        found = read_folder(folder)
        if sequence_length is None:
            sequence_length = found["sequence_length"] or DEFAULT_LENGTH
        if lowercase is None:
            lowercase = found["lowercase"]
        if lowercase is None:
            lowercase = not looks_cased(found["vocabulary"])
        return cls(found["vocabulary"], sequence_length, lowercase, found["strip_accents"], split, name)


def _longest_first(lengths, room):
    """Cuts the lengths of one or two segments, int32 [batch], so that their sum fits into `room`.

    Of two, the longer is cut until both are equal, then both. Of an odd room the longer keeps one
    more, the second if they are equally long: as in Hugging Face `tokenizers`.
    """
    import tensorflow as tf

    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    shorter = tf.minimum(tf.minimum(first, second), room // 2)
    longer = tf.minimum(tf.maximum(first, second), room - shorter)
    ordered = first <= second
    return [tf.where(ordered, shorter, longer), tf.where(ordered, longer, shorter)]
