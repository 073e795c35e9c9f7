"""A WordPiece vocabulary: reading it from a folder, checking it, finding its pieces in words."""

import json
import os
import pathlib

from keras_transfer.text.normalizer import MAX_WORD_LENGTH, UNKNOWN
from keras_transfer.text.preprocessor import import_tensorflow_text

VOCABULARY_FILE = "vocab.txt"
CONFIG_FILE = "tokenizer_config.json"
REQUIRED = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")

# What a tokenizer may be told that this one cannot do, and the only value that it takes.
_FIXED = {"do_basic_tokenize": True, "tokenize_chinese_chars": True, "never_split": None}


class WordPiece:
    """The tokens of a vocabulary, and the operation that splits normalised texts into them.

    A plain object, so that neither Keras nor TensorFlow tracks its 30,000 strings.
    """

    def __init__(self, vocabulary):
        if isinstance(vocabulary, (str, os.PathLike)):
            vocabulary = read_vocabulary(vocabulary)
        self.tokens = list(vocabulary)
        wrong = [token for token in self.tokens if not isinstance(token, str) or "\n" in token]
        if wrong:
            raise ValueError(f"a vocabulary is a list of str without line ends. Received: {wrong[:3]} in it")
        while self.tokens and not self.tokens[-1]:
            self.tokens.pop()
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        self._tokenizer = None
        self._check()

    def _check(self):
        if len(self.ids) < len(self.tokens):
            twice = [token for index, token in enumerate(self.tokens) if self.ids[token] != index]
            raise ValueError(
                f"a token can stand only once in a vocabulary. Received: {len(twice)} duplicates, the first {twice[:3]}"
            )
        missing = [token for token in REQUIRED if token not in self.ids]
        if missing:
            raise ValueError(
                f"the vocabulary lacks the special tokens {', '.join(missing)}. "
                f"Received: {len(self.tokens)} tokens, the first {self.tokens[:5]}"
            )

    def __call__(self, texts):
        """Returns the ids of normalised texts [batch] as an int32 ragged tensor [batch, None]."""
        if self._tokenizer is None:
            self._tokenizer = self._make_tokenizer()
        return self._tokenizer.tokenize(texts)

    def _make_tokenizer(self):
        import tensorflow as tf

        # The operation would find tokens with a space in them, and words that must be unknown hold
        # U+FFFD. No text can contain either of them, with Hugging Face's tokenizers too.
        tokens = [
            f"[unreachable{index}]" if token.split() != [token] or UNKNOWN in token else token
            for index, token in enumerate(self.tokens)
        ]
        # Outside of any function that is being traced, which would keep it to itself.
        with tf.init_scope(), tf.device("CPU:0"):
            return import_tensorflow_text().FastWordpieceTokenizer(
                tokens,
                max_bytes_per_word=4 * MAX_WORD_LENGTH,  # longer words have been replaced before
                token_out_type=tf.int32,
            )


def read_vocabulary(path):
    """Returns the lines of a `vocab.txt`: the number of a token's line is its id."""
    return pathlib.Path(path).read_text("utf-8").split("\n")


def read_folder(folder):
    """Returns what a tokenizer's folder says, None for what it does not say.

    Args:
        folder: path of a folder with `vocab.txt` or `tokenizer.json`.

    Returns:
        dict of `vocabulary`, `sequence_length`, `lowercase` and `strip_accents`.

    Raises:
        FileNotFoundError: the folder has no vocabulary.
        ValueError: the tokenizer is no WordPiece, or splits words in another way.
    """
    folder = pathlib.Path(folder)
    config = _read_json(folder / CONFIG_FILE)
    fast = _read_json(folder / "tokenizer.json")
    normalizer = fast.get("normalizer") or {}
    for key, only in _FIXED.items():
        received = config.get(key, only)
        if received != only and received != []:
            raise ValueError(
                f"only tokenizers with {key}={only} can be read. Received: {received} in {folder / CONFIG_FILE}"
            )

    limit = config.get("model_max_length")
    limit = _read_json(folder / "sentence_bert_config.json").get("max_seq_length") or limit
    lowercase = config.get("do_lower_case", normalizer.get("lowercase"))
    return {
        "vocabulary": _folder_vocabulary(folder, fast),
        # Transformers writes 1e30 where it does not know.
        "sequence_length": limit if limit and limit < 1e6 else None,
        "lowercase": lowercase,
        "strip_accents": config.get("strip_accents", normalizer.get("strip_accents")),
    }


def looks_cased(vocabulary):
    """Returns whether lower-casing changes a token; `[CLS]` and the like do not count."""
    words = (token for token in vocabulary if not (token.startswith("[") and token.endswith("]")))
    return any(token != token.lower() for token in words)


def _folder_vocabulary(folder, fast):
    if (folder / VOCABULARY_FILE).is_file():
        return read_vocabulary(folder / VOCABULARY_FILE)
    if not fast:
        found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else "no folder"
        raise FileNotFoundError(f"{folder} needs {VOCABULARY_FILE} or tokenizer.json. Received: {found}")
    model = fast["model"]
    if model.get("type") != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise ValueError(
            f"{folder / 'tokenizer.json'} must be a WordPiece model with the prefix '##'. "
            f"Received: {model.get('type')}, {model.get('continuing_subword_prefix')}"
        )
    ids = dict(model["vocab"])
    # Added tokens are ids like others; that a text cannot contain them is a matter of tokenizing.
    ids.update((token["content"], token["id"]) for token in fast.get("added_tokens", ()))
    tokens = sorted(ids, key=ids.get)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError(
            "the ids of a vocabulary count from 0 without gaps. "
            f"Received: {len(tokens)} tokens up to the id {ids[tokens[-1]]} in {folder}"
        )
    return tokens


def _read_json(path):
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}
