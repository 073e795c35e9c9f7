"""The unigram tokenizer of SentencePiece, for ALBERT, XLNet, XLM-R, CamemBERT, DeBERTa v2 and v3, and T5."""

import functools
import os
import pathlib

import keras
import numpy as np

from keras_transfer.text.normalizer import checked_utf8
from keras_transfer.text.preprocessor import import_tensorflow_text
from keras_transfer.text.sentencepiece_model import SPACE, UNIGRAM, PieceType, SentencePieceModel
from keras_transfer.text.splitting import split_at
from keras_transfer.text.text_steps import STEPS, read_steps, write_steps
from keras_transfer.text.tokenizer import Tokenizer

# Without U+000B, which SentencePiece's normalization removes.
_WHITESPACE = r"[\s\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"


@keras.saving.register_keras_serializable(package="keras_transfer")
class UnigramTokenizer(Tokenizer):
    """Splits texts into the most probable pieces of a SentencePiece unigram model.

    Texts are split at white space, and each word into the pieces whose scores have the largest sum. The ids are those
    of Hugging Face `tokenizers`, except for a word with two splits of the same sum, and for several accents on a letter
    that the model's normalization composes. Text never becomes a control symbol of the model, even if it is spelled
    like one.

    Args:
        model: Bytes, the contents of a `.model` file of SentencePiece, or its path. If `None`, call `load_assets`
            before the tokenizer is used. Defaults to `None`.
        vocabulary: List of strings, the tokens in the order of their ids, if they differ from the model's: XLM-R and
            CamemBERT have other special tokens in front of the pieces. It must contain the pieces. Defaults to the
            model's pieces.
        normalization: List of strings, the steps that are applied to texts, in order, before the model's own
            normalization: `"quotes"` (two quotes become one double quote), `"NFC"`, `"NFD"`, `"NFKC"`, `"NFKD"`,
            `"strip_accents"`, `"lowercase"`. Defaults to none.
        unk_token: String. Token of characters that no piece contains. Defaults to the model's.
        mask_token: String. Token that masked language models predict. Defaults to `None`.
        eos_token: String. Token that ends a generated text. Defaults to `None`.

    Raises:
        ValueError: If the file is not a SentencePiece unigram model, or if the vocabulary lacks pieces.
        ImportError: If TensorFlow Text is not installed.

    Example:
    ```python
    questions = keras_transfer.datasets.load_questions().train.texts
    tokenizer = keras_transfer.text.train_vocabulary(questions, "unigram", 200)
    tokenizer.save_assets(".")  # writes spiece.model
    tokenizer = keras_transfer.text.UnigramTokenizer("spiece.model", normalization=["lowercase"])
    ids = tokenizer.tokenize(["What is this?"])
    tokenizer.detokenize(ids)  # ["what is this?"]
    ```

    Source: Kudo 2018, "Subword Regularization"; https://github.com/google/sentencepiece.
    """

    model_file = "spiece.model"
    vocabulary_file = "pieces.txt"
    outer_space = "^ "

    def __init__(
        self,
        model=None,
        vocabulary=None,
        normalization=(),
        unk_token=None,
        mask_token=None,
        eos_token=None,
    ):
        if unknown := [step for step in normalization if step not in STEPS]:
            raise ValueError(
                f"Invalid value for argument `normalization`. Expected a list of {sorted(STEPS)}. Received: {unknown}"
            )
        self.normalization = list(normalization)
        self._model = None
        if model is None and vocabulary is not None:
            raise ValueError("A `vocabulary` requires a `model`. Received: model=None")
        super().__init__(None, unk_token, mask_token, eos_token)
        if model is not None:
            self._set_model(pathlib.Path(model).read_bytes() if isinstance(model, str | os.PathLike) else model)
            self._set_vocabulary([piece for piece, _, _ in self._model.pieces] if vocabulary is None else vocabulary)

    def _set_model(self, serialized):
        self._serialized = serialized
        self._model = SentencePieceModel.from_bytes(serialized)
        if self._model.model_type != UNIGRAM or not self._model.add_dummy_prefix:
            raise ValueError(
                "The SentencePiece model must be a unigram model (model_type 1) with add_dummy_prefix=True. For BPE "
                "models, see `SentencePieceBPETokenizer.from_model`. Received: "
                f"model_type={self._model.model_type}, add_dummy_prefix={self._model.add_dummy_prefix}"
            )
        self._splitter = None

    def _set_vocabulary(self, tokens):
        super()._set_vocabulary(list(tokens))
        unknown = [piece for piece, _, type in self._model.pieces if type == PieceType.UNKNOWN]
        self.unk_token = self.unk_token or unknown[0]
        if missing := sorted(self._normal_pieces() - self._ids.keys()):
            raise ValueError(
                "The vocabulary must contain all pieces of the model. "
                f"Received: {len(missing)} are missing, starting with {missing[:3]}"
            )

    @property
    def special_tokens(self):
        """List of strings, the tokens that text never becomes: control symbols, and tokens that the model lacks."""
        normal = self._normal_pieces()
        return [token for token in self.vocabulary if token not in normal]

    def _normal_pieces(self):
        kinds = (PieceType.NORMAL, PieceType.USER_DEFINED)
        return {piece for piece, _, type in self._model.pieces if type in kinds}

    def _tokenize(self, texts):
        import tensorflow as tf

        self._check_loaded()
        if self._splitter is None:
            self.require([self.unk_token])
            ids = [
                self.unk_id if type == PieceType.UNKNOWN else self._ids.get(piece, self.unk_id)
                for piece, _, type in self._model.pieces
            ]
            self._splitter = _make_splitter(self._serialized), np.array(ids, "int32")
        splitter, ids = self._splitter
        texts = checked_utf8(texts)
        for step in self.normalization:
            texts = STEPS[step](texts)
        words = split_at(" ", tf.strings.regex_replace(texts, _WHITESPACE, " "))
        distinct, index = tf.unique(words.values)
        pieces = splitter.tokenize(distinct)
        first, last = pieces.row_splits[:-1], pieces.row_splits[1:]
        places = tf.ragged.range(tf.gather(first, index), tf.gather(last, index), row_splits_dtype=tf.int64)
        values = tf.gather(tf.gather(ids, pieces.values), places.values)
        return tf.RaggedTensor.from_row_splits(values, tf.gather(places.row_splits, words.row_splits), validate=False)

    def token_bytes(self):
        """Returns what each token adds to a text, with a space in front of a word."""
        return [token.replace(SPACE, " ").encode("utf-8") for token in self.vocabulary]

    def get_config(self):
        return {
            "normalization": self.normalization,
            "unk_token": self.unk_token,
            "mask_token": self.mask_token,
            "eos_token": self.eos_token,
        }

    def save_assets(self, folder):
        """Writes the model and the tokens into a folder."""
        super().save_assets(folder)
        (pathlib.Path(folder) / self.model_file).write_bytes(self._serialized)

    def load_assets(self, folder):
        self._set_model((pathlib.Path(folder) / self.model_file).read_bytes())
        super().load_assets(folder)

    def to_json(self):
        """Returns the normalizer, pre-tokenizer, decoder and model of this tokenizer in a `tokenizer.json`."""
        scores = {piece: score for piece, score, _ in self._model.pieces}
        metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
        return {
            "normalizer": write_steps(self.normalization, self._model.charsmap),
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
            "decoder": metaspace,
            "model": {
                "type": "Unigram",
                "unk_id": self.unk_id,
                "vocab": [[token, scores.get(token, 0.0)] for token in self.vocabulary],
                "byte_fallback": False,
            },
        }

    @classmethod
    def from_json(cls, fast, tokens, text_tokens, **special):
        """Returns the tokenizer of a `tokenizer.json`, like `ByteBPETokenizer.from_json`."""
        if text_tokens:
            raise ValueError(f"Added tokens must be special. Received: {text_tokens}")
        model = fast["model"]
        if model.get("byte_fallback") or model.get("unk_id") is None:
            received = ", ".join(f"{name}={model.get(name)}" for name in ("unk_id", "byte_fallback"))
            raise ValueError(f"The unigram model must have an `unk_id` and no `byte_fallback`. Received: {received}")
        steps, charsmap = read_steps(fast.get("normalizer"))
        _check_pre_tokenizer(fast.get("pre_tokenizer"))
        control = {token["content"] for token in fast.get("added_tokens") or []}
        pieces = []
        for index, (piece, score) in enumerate(model["vocab"]):
            type = PieceType.CONTROL if piece in control else PieceType.NORMAL
            pieces.append((piece, score, PieceType.UNKNOWN if index == model["unk_id"] else type))
        serialized = SentencePieceModel(pieces, charsmap).to_bytes()
        special["unk_token"] = model["vocab"][model["unk_id"]][0]
        return cls(serialized, tokens, steps, **special)


def _check_pre_tokenizer(settings):
    parts = [settings or {}]
    if parts[0].get("type") == "Sequence":
        parts = parts[0]["pretokenizers"]
    kinds = [part.get("type") for part in parts]
    last = parts[-1]
    prefix = last.get("prepend_scheme", "always" if last.get("add_prefix_space", True) else "never")
    if (
        kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"])
        or last["replacement"] != SPACE
        or prefix == "never"
    ):
        raise ValueError(
            "The pre-tokenizer must be 'Metaspace' with a prefix, with or without 'WhitespaceSplit'. "
            f"Received: {settings}"
        )


@functools.lru_cache(maxsize=4)
def _make_splitter(serialized):
    import tensorflow as tf

    # A function that is being traced would keep the tokenizer in its own graph.
    with tf.init_scope(), tf.device("CPU:0"):
        return import_tensorflow_text().FastSentencepieceTokenizer(serialized)
