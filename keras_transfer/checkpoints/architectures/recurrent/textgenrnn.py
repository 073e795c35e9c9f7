"""textgenrnn's own files: weights in Keras's HDF5, and a vocabulary and a configuration in JSON, read and written."""

import json
import re

import numpy as np

from keras_transfer.checkpoints.base import (
    Architecture,
    CheckpointError,
    Head,
    build,
    read_json,
    reading,
    register_architecture,
)
from keras_transfer.encoders.recurrent import TextGenRNNEncoder
from keras_transfer.files import atomic_folder
from keras_transfer.text.base import DEFAULT_LENGTH, LengthError, Packing
from keras_transfer.text.preprocessors import TokenPreprocessor
from keras_transfer.text.tokenizers import CharacterTokenizer

_FILES = {"weights": "*.hdf5", "vocab": "*_vocab.json", "config": "*_config.json"}
_PAD, _META = "<pad>", "<s>"  # The id 0, which the vocabulary does not contain, and what begins and ends a text.
_MAX_LENGTH = 300  # Number of characters at which the original stops, with the one that begins a text.
_LAYER = re.compile(r"rnn_(\d+)")

TEXTGENRNN = register_architecture(
    Architecture(
        model_type="textgenrnn",
        encoder_class=TextGenRNNEncoder,
        format="textgenrnn",
        # The defaults are the configuration of the published weights, which have no file with it.
        settings=(
            ("vocabulary_size", "num_classes", int),
            ("embedding_dim", "dim_embeddings", 100),
            ("units", "rnn_size", 128),
            ("num_layers", "rnn_layers", 2),
            ("window", "max_length", 40),
            ("dropout", "dropout", 0.0),
        ),
        tensors={
            "token_embedding.embeddings": "embedding.embeddings",
            "blocks.*.kernel": "rnn.*.kernel",
            "blocks.*.cell.recurrent_kernel": "rnn.*.recurrent_kernel",
            "blocks.*.bias": "rnn.*.bias",
            "attention.kernel": "attention.attention_W",
        },
        preprocessor_class=TokenPreprocessor,
        heads={
            "causal_lm": Head(
                "output.",
                ("LMHeadModel",),
                tensors={"logits.kernel": "output.kernel", "logits.bias": "output.bias"},
                arguments={"tied": False, "use_bias": True},
                by_tensors=True,
            ),
            "with_labels": "context_output.",  # Predicts from labels of texts too.
        },
        fixed={"rnn_bidirectional": False},
    )
)


def recognises(folder):
    """Returns whether the folder is one of this format."""
    return any(folder.glob(_FILES["weights"])) and any(any(folder.glob(_FILES[name])) for name in ("vocab", "config"))


def load(folder, cls, overrides, head=None):
    """Returns the encoder in a folder of textgenrnn, and the `FoundHead` of a language model or None."""
    config, vocabulary = _configuration(folder), _vocabulary(folder)
    if vocabulary is not None:
        config["num_classes"] = len(vocabulary) + 1
    encoder, found = build(TEXTGENRNN, config, lambda: _readers(folder), folder, cls, overrides, head=head)
    # The original never chooses the id 0.
    generation = {"max_length": _MAX_LENGTH, "suppress_tokens": [0]}
    if vocabulary is not None and _META in vocabulary and not config.get("single_text"):
        generation["eos_token_id"] = vocabulary[_META]
    encoder.checkpoint_settings["generation_config.json"] = generation
    return encoder, found


def load_preprocessor(folder, word_level=False, *, sequence_length=None, split="punctuation", name=None):
    """Returns the preprocessor of a folder of textgenrnn, which reads characters.

    Raises:
        CheckpointError: If the model reads words, or if the folder has no vocabulary.
    """
    config, vocabulary = _configuration(folder), _vocabulary(folder)
    advice = "Pass `preprocessor=None` for prepared ids."
    if config.get("word_level", False):
        raise CheckpointError(
            "The vocabulary of textgenrnn can be read only if it consists of characters, because no tokenizer here "
            f"splits texts into words as textgenrnn does. {advice} Received: word_level=True in {folder}"
        )
    if vocabulary is None:
        raise CheckpointError(f"{folder} must have a *_vocab.json. {advice} Received: {_names(folder)}")
    tokenizer = CharacterTokenizer({_PAD: 0, **vocabulary}, unk_token=_PAD)
    around = () if config.get("single_text", False) else (_META,)
    length = config.get("sequence_length", DEFAULT_LENGTH) if sequence_length is None else sequence_length
    others = () if sequence_length is None else (LengthError,)  # the user's, not the folder's
    with reading(f"The vocabulary of {folder}", *others):
        return TokenPreprocessor(tokenizer, Packing(around, (), around, _PAD), length, split=split, name=name)


def save(architecture, encoder, preprocessor, folder, overwrite, head=None):
    """Writes an encoder, and the head of a language model, as textgenrnn's files, which the original can load."""
    import h5py

    config = architecture.configuration(encoder) | {"word_level": False}
    if preprocessor is not None:
        config |= _settings_of(preprocessor)
    tensors = {} if head is None else dict(head.tensors)
    for entry in architecture.entries(encoder):
        tensors |= entry.tensors()
    layers = {}
    for name, tensor in tensors.items():
        layer, _, weight = name.rpartition(".")
        layers.setdefault(_their_layer(layer), {})[f"{weight}:0"] = tensor
    with atomic_folder(folder, overwrite) as temporary:
        (temporary / "textgenrnn_config.json").write_text(json.dumps(config, indent=2) + "\n")
        if preprocessor is not None:
            ids = {token: preprocessor.token_to_id(token) for token in preprocessor.vocabulary[1:]}
            text = json.dumps(ids, ensure_ascii=False) + "\n"
            (temporary / "textgenrnn_vocab.json").write_text(text, "utf-8", newline="\n")
        with h5py.File(temporary / "textgenrnn_weights.hdf5", "w") as file:
            file.attrs["layer_names"] = [name.encode() for name in layers]
            file.attrs["backend"], file.attrs["keras_version"] = b"tensorflow", b"2.4.0"
            for layer, weights in layers.items():
                group = file.create_group(layer)
                group.attrs["weight_names"] = [f"{layer}/{name}".encode() for name in weights]
                for name, tensor in weights.items():
                    group[f"{layer}/{name}"] = tensor


def _settings_of(preprocessor):
    """Returns the settings of a preprocessor, or raises a `CheckpointError` if textgenrnn reads texts differently."""
    tokenizer, packing = preprocessor.tokenizer, preprocessor.packing
    around = {(): True, (_META,): False}  # Whether all texts are a single one.
    if (
        type(tokenizer) is not CharacterTokenizer
        or (packing.pad, tokenizer.unk_token, tokenizer.token_to_id(_PAD)) != (_PAD, _PAD, 0)
        or packing.start != packing.end
        or packing.start not in around
    ):
        raise CheckpointError(
            "Files of textgenrnn can contain a `TokenPreprocessor` of a `CharacterTokenizer` with the first token "
            f"{_PAD!r}, which is also its `unk_token`, and `Packing(start=[{_META!r}], end=[{_META!r}], "
            f"pad={_PAD!r})`. Write the encoder alone, or the whole model with `model.save('model.keras')`. "
            f"Received: {type(tokenizer).__name__} and {packing}"
        )
    return {"single_text": around[packing.start], "sequence_length": preprocessor.sequence_length}


def _names(folder):
    return ", ".join(sorted(path.name for path in folder.iterdir()))


def _only(folder, kind):
    """Returns the path of the only file of a kind, or None if there is none."""
    found = sorted(folder.glob(_FILES[kind]))
    if len(found) > 1:
        raise CheckpointError(f"{folder} must have one {_FILES[kind]}. Received: {', '.join(p.name for p in found)}")
    return found[0] if found else None


def _configuration(folder):
    path = _only(folder, "config")
    return {} if path is None else read_json(path)


def _vocabulary(folder):
    """Returns the dict from tokens to ids, from 1 on, or None if the folder has none."""
    path = _only(folder, "vocab")
    if path is None:
        return None
    found = read_json(path)
    if sorted(found.values(), key=repr) != sorted(range(1, len(found) + 1), key=repr):
        raise CheckpointError(
            f"The ids of {path} must be the numbers from 1 to that of its tokens. "
            f"Received: {len(found)} tokens with ids such as {[*found.values()][:5]}"
        )
    return found


def _readers(folder):
    """Returns a dict from our names of the tensors to functions that return them."""
    import h5py

    path, arrays = _only(folder, "weights"), {}

    def take(name, item):
        if isinstance(item, h5py.Dataset):
            layer, *_, weight = name.split("/")
            arrays[f"{_our_layer(layer)}.{weight.removesuffix(':0')}"] = item[...]

    with reading(f"{path} must be an HDF5 file, but it"), h5py.File(path, "r") as file:
        file.visititems(take)
    for name in [name for name in arrays if name.startswith("rnn.") and name.endswith(".bias")]:
        kernel, recurrent = (f"{name.removesuffix('bias')}{part}" for part in ("kernel", "recurrent_kernel"))
        units = arrays[recurrent].shape[0] if recurrent in arrays else 0
        if kernel in arrays and arrays[name].shape == (8 * units,):  # a CuDNNLSTM of Keras 2
            arrays[name] = arrays[name].reshape(2, -1).sum(axis=0)  # The biases of the inputs and of the state.
            arrays |= {part: _transposed_gates(arrays[part]) for part in (kernel, recurrent)}
    return {name: lambda array=array: array for name, array in arrays.items()}


def _our_layer(name):
    match = _LAYER.fullmatch(name)
    return f"rnn.{int(match[1]) - 1}" if match else name


def _their_layer(name):
    return f"rnn_{int(name.removeprefix('rnn.')) + 1}" if name.startswith("rnn.") else name


def _transposed_gates(kernel):
    """Returns the kernel of an LSTM, from cuDNN's layout: the rows of each gate's part are the gate's units."""
    return np.concatenate([part.reshape(part.shape[::-1]).T for part in np.split(kernel, 4, axis=1)], axis=1)
