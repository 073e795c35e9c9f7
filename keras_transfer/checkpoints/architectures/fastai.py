"""fastai's AWD-LSTMs: weights that torch has pickled, and the vocabulary in a pickle, which are only read."""

import dataclasses
import functools
import re

import numpy as np

from keras_transfer.checkpoints.architectures.awd_lstm import AWD_LSTM
from keras_transfer.checkpoints.building import Format
from keras_transfer.checkpoints.tensors import expect, files_in, read_strings, read_torch, reading
from keras_transfer.text import BEGIN_TEXT, DEFAULT_LENGTH, FastaiTokenizer, LengthError, Packing, TokenPreprocessor

_ADVICE = "save the tensors elsewhere as a folder of `AWDLSTMEncoder.save_pretrained`"
# The files have no rates. These are the rates of fastai's language models with `drop_mult=1.0`.
_RATES = {"embedding": 0.02, "input": 0.25, "hidden": 0.15, "output": 0.1, "weight": 0.2}
# Where an encoder is in a language model, in a classifier (`0.module.`), and alone.
_ENCODER = re.compile(r"(?:0\.)?(?:module\.)?(encoder|encoder_dp|encoder_with_dropout|rnns)\.(.*)")
_LSTM = re.compile(r"rnns\.(\d+)\.(?:module\.)?(weight_ih|weight_hh|bias_ih|bias_hh)_l0(_raw)?")
_TABLES = ("encoder_dp.emb.weight", "encoder_with_dropout.embed.weight")  # the embeddings once more

FASTAI = dataclasses.replace(
    AWD_LSTM,
    format="fastai",
    tied={"decoder.weight": "encoder.weight", **dict.fromkeys(_TABLES, "encoder.weight")},
    heads={**AWD_LSTM.heads, "classifier": "1.layers."},
)


class FastaiFolder(Format):
    """A folder with the weights of a model of fastai, and perhaps its vocabulary."""

    architecture = FASTAI

    @staticmethod
    def recognises(folder):
        """Returns whether the folder is one of this format. In 2018, the files of weights were called *.h5."""
        return any(folder.glob("*.pth")) or (any(folder.glob("*.h5")) and any(folder.glob("*.pkl")))

    @functools.cached_property
    def words(self):
        """The tokens in the order of their ids, or None if the folder has none."""
        path = _only(self.folder, "*.pkl")
        return None if path is None else read_strings(path)

    @functools.cached_property
    def tensors(self):
        return _tensors(self.folder)

    @property
    def config(self):
        config = _configuration(self.tensors, self.folder)
        fits = self.words is None or len(self.words) == config["vocab_size"]
        rule = f"The vocabulary of {self.folder} must have a token for each of the {config['vocab_size']} embeddings."
        expect(fits, rule, received=f"{len(self.words or ())} tokens")
        return config

    def readers(self):
        return {name: lambda tensor=tensor: tensor for name, tensor in self.tensors.items()}

    def preprocessor(self, word_level=False, *, sequence_length=None, split="whitespace", name=None):
        """Returns the preprocessor, for texts that `fastai_texts` has prepared."""
        rule = f"{self.folder} must have a *.pkl with the vocabulary (itos). Pass `preprocessor=None` for prepared ids."
        expect(self.words is not None, rule, received=files_in(self.folder))
        missing = [token for token in ("xxunk", "xxpad", BEGIN_TEXT, "xxmaj", "xxup") if token not in self.words]
        rule = (
            f"The vocabulary of {self.folder} must have the tokens of fastai 1. Others belong to other rules for "
            "texts. Pass `preprocessor=None` for prepared ids."
        )
        expect(not missing, rule, received=f"no {', '.join(missing)}")
        others = () if sequence_length is None else (LengthError,)  # the user's, not the folder's
        with reading(f"The vocabulary of {self.folder}", *others):
            length = DEFAULT_LENGTH if sequence_length is None else sequence_length
            return TokenPreprocessor(FastaiTokenizer(self.words), Packing(pad="xxpad"), length, split=split, name=name)


def _only(folder, *patterns):
    """Returns the path of the only file of the first pattern that any file matches, or None."""
    found = next(filter(None, (sorted(folder.glob(pattern)) for pattern in patterns)), [])
    expect(len(found) < 2, f"{folder} must have one file of a kind.", received=", ".join(path.name for path in found))
    return found[0] if found else None


def _tensors(folder):
    """Returns the arrays of a folder by the names of `AWD_LSTM`. Names that are unknown stay as they are."""
    path = _only(folder, "*.pth", "*.h5")
    found = read_torch(path, _ADVICE)
    found = found["model"] if isinstance(found, dict) and isinstance(found.get("model"), dict) else found
    with reading(path):
        found = {name: tensor.float().numpy() for name, tensor in found.items()}
    found = {_plain_name(name): tensor for name, tensor in found.items()}
    lstms = {name: match for name in found if (match := _LSTM.fullmatch(name))}
    tensors = {name: tensor for name, tensor in found.items() if name not in lstms}
    raw = {match.groups()[:2] for match in lstms.values() if match[3]}
    for name, match in lstms.items():
        index, kind = match.groups()[:2]
        if match[3] or (index, kind) not in raw:  # Otherwise, it is what dropout once left of the weight.
            if kind.startswith("bias"):  # the sum of both
                plain = f"rnns.{index}.bias"
                tensors[plain] = tensors.get(plain, 0) + found[name]
            else:
                tensors[f"rnns.{index}.{kind}"] = found[name]
    return tensors


def _plain_name(name):
    if match := _ENCODER.fullmatch(name):
        return f"{match[1]}.{match[2]}"
    return name.removeprefix("1.") if name.startswith("1.decoder.") else name


def _configuration(tensors, folder):
    """Returns the configuration that the shapes of tensors tell."""
    table, first = tensors.get("encoder.weight", np.zeros(())), tensors.get("rnns.0.weight_hh", np.zeros(()))
    rule = (
        f"{folder} must have the weights of fastai's AWD_LSTM, without QRNNs: encoder.weight and "
        "rnns.0.weight_hh_l0_raw."
    )
    expect(table.ndim == first.ndim == 2, rule, received=sorted(tensors)[:10])
    return {
        "architectures": [
            "AWDLSTMLMHeadModel" if any(name.startswith("decoder.") for name in tensors) else "AWDLSTMModel"
        ],
        "vocab_size": table.shape[0],
        "embedding_size": table.shape[1],
        "hidden_size": first.shape[1],
        "num_hidden_layers": sum(name.startswith("rnns.") and name.endswith(".weight_hh") for name in tensors),
        "decoder_bias": "decoder.bias" in tensors,
        **{f"{name}_dropout": rate for name, rate in _RATES.items()},
    }
