"""ELMo's own files: `options.json` and `weights.hdf5`, read and written as the original has them."""

import dataclasses
import json
from collections.abc import Callable

import keras
import numpy as np

from keras_transfer.checkpoints.build import CheckpointReport
from keras_transfer.checkpoints.tensors import CheckpointError, log, read_json, to_float32
from keras_transfer.encoders.elmo import ElmoEncoder
from keras_transfer.files import atomic_folder
from keras_transfer.text.elmo import NUM_CHARACTERS, ElmoPreprocessor

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"


@dataclasses.dataclass
class Tensor:
    """A tensor of the file, and the variables that hold the same numbers.

    Attributes:
        name: its path in the file.
        variables: list of `keras.Variable`.
        join: from the variables' values to the tensor.
        split: from the tensor to the list of the variables' values.
    """

    name: str
    variables: list
    join: Callable = lambda value: value
    split: Callable = lambda tensor: [tensor]

    def value(self):
        return self.join(*(to_float32(keras.ops.convert_to_numpy(variable)) for variable in self.variables))


def recognises(folder):
    """Returns whether the folder is one of this format."""
    return (folder / OPTIONS).exists()


def load(folder, cls, overrides):
    """Returns the encoder in a folder with ELMo's two files; see `Encoder.from_pretrained`."""
    if not issubclass(ElmoEncoder, cls):
        raise CheckpointError(f"{folder} is a checkpoint for ElmoEncoder. Received: {cls.__name__}")
    options = read_json(folder / OPTIONS)
    encoder = ElmoEncoder(**{**_arguments(options, folder / OPTIONS), **overrides})
    file = _weights_file(folder)
    stored = _read(file)
    tensors = {tensor.name: tensor for tensor in _tensors(encoder)}
    wrong = [
        f"{name} is {stored[name].shape if name in stored else 'not there'}, where the options want {wanted}"
        for name, wanted in ((name, tensor.value().shape) for name, tensor in tensors.items())
        if name not in stored or stored[name].shape != wanted
    ]
    if wrong:
        raise CheckpointError(f"{file} must hold the weights of {folder / OPTIONS}. Received: {'; '.join(wrong[:5])}")
    for name, tensor in tensors.items():
        for variable, value in zip(tensor.variables, tensor.split(stored[name])):
            variable.assign(value)
    unused = sorted(stored.keys() - tensors.keys())
    encoder.checkpoint_report = CheckpointReport(str(folder), len(tensors), unused, [])
    if unused:
        log.warning("%s", encoder.checkpoint_report)
    return encoder


def save(encoder, folder, overwrite=False):
    """Writes an encoder as a folder with ELMo's two files; see `Encoder.save_pretrained`."""
    import h5py

    with atomic_folder(folder, overwrite) as temporary:
        (temporary / OPTIONS).write_text(json.dumps(_options(encoder), indent=2) + "\n")
        with h5py.File(temporary / WEIGHTS, "w") as file:
            for tensor in _tensors(encoder):
                file[tensor.name] = tensor.value()


def load_preprocessor(folder, **overrides):
    """Returns the preprocessor of a folder with ELMo's two files."""
    settings = _arguments(read_json(folder / OPTIONS), folder / OPTIONS)
    return ElmoPreprocessor(**{"max_characters": settings["max_characters"], **overrides})


def _arguments(options, file):
    """The arguments of `ElmoEncoder` for the original's options."""
    try:
        lstm, cnn = options["lstm"], options["char_cnn"]
        if cnn["n_characters"] != NUM_CHARACTERS:
            raise CheckpointError(
                f"{file} must say `n_characters` {NUM_CHARACTERS}, as that of a trained model does (while the original "
                f"trains it has one less). Received: {cnn['n_characters']}"
            )
        return {
            "embedding_dim": cnn["embedding"]["dim"],
            "filters": cnn["filters"],
            "num_highways": cnn.get("n_highway") or 0,
            "projection_dim": lstm["projection_dim"],
            "units": lstm["dim"],
            "num_layers": lstm["n_layers"],
            "cell_clip": lstm.get("cell_clip"),
            "projection_clip": lstm.get("proj_clip"),
            "residual": bool(lstm.get("use_skip_connections")),
            "activation": cnn["activation"],
            "max_characters": cnn["max_characters_per_token"],
        }
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file} must have ELMo's options, of `lstm` and `char_cnn`. Received: {error!r}"
        ) from error


def _options(encoder):
    settings = encoder.get_config()
    return {
        "lstm": {
            "use_skip_connections": settings["residual"],
            "projection_dim": settings["projection_dim"],
            "cell_clip": settings["cell_clip"],
            "proj_clip": settings["projection_clip"],
            "dim": settings["units"],
            "n_layers": settings["num_layers"],
        },
        "char_cnn": {
            "activation": settings["activation"],
            "filters": settings["filters"],
            "n_highway": settings["num_highways"],
            "embedding": {"dim": settings["embedding_dim"]},
            "n_characters": NUM_CHARACTERS,
            "max_characters_per_token": settings["max_characters"],
        },
    }


def _weights_file(folder):
    found = [folder / WEIGHTS] if (folder / WEIGHTS).exists() else sorted(folder.glob("*weights*.hdf5"))
    if len(found) != 1:
        names = [path.name for path in folder.iterdir()]
        raise CheckpointError(f"{folder} must have one {WEIGHTS}. Received: {', '.join(sorted(names))}")
    return found[0]


def _read(file):
    """A dict from paths to the arrays of an HDF5 file."""
    import h5py

    found = {}

    def take(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[...]

    try:
        with h5py.File(file, "r") as opened:
            opened.visititems(take)
    except OSError as error:
        raise CheckpointError(f"{file} must be an HDF5 file. Received: {error}") from error
    return found


def _tensors(encoder):
    """Which tensors of the file are which variables."""
    words = encoder.get_layer("words")
    # The original has no row for padding, whose vector is 0.
    yield Tensor(
        "char_embed",
        [words.embedding.embeddings],
        lambda value: value[1:],
        lambda tensor: [np.concatenate([np.zeros_like(tensor[:1]), tensor])],
    )
    for i, convolution in enumerate(words.convolutions):
        kernel = [convolution.kernel]
        yield Tensor(f"CNN/W_cnn_{i}", kernel, lambda value: value[None], lambda tensor: [tensor[0]])
        yield Tensor(f"CNN/b_cnn_{i}", [convolution.bias])
    for i, (gate, transform) in enumerate(words.highways):
        for layer, name in ((gate, "carry"), (transform, "transform")):
            yield Tensor(f"CNN_high_{i}/W_{name}", [layer.kernel])
            yield Tensor(f"CNN_high_{i}/b_{name}", [layer.bias])
    if words.projection is not None:
        yield Tensor("CNN_proj/W_proj", [words.projection.kernel])
        yield Tensor("CNN_proj/b_proj", [words.projection.bias])
    for place, direction in enumerate(("forward", "backward")):
        for i in range(encoder.get_config()["num_layers"]):
            lstm = encoder.get_layer(f"{direction}_{i}")
            name, dim = f"RNN_{place}/RNN/MultiRNNCell/Cell{i}/LSTMCell", lstm.kernel.shape[0]
            yield Tensor(
                f"{name}/W_0",
                [lstm.kernel, lstm.cell.recurrent_kernel],
                lambda kernel, recurrent: _gates(np.concatenate([kernel, recurrent])),
                lambda tensor, dim=dim: np.split(_gates(tensor), [dim]),
            )
            yield Tensor(f"{name}/B", [lstm.bias], _gates, lambda tensor: [_gates(tensor)])
            yield Tensor(f"{name}/W_P_0", [lstm.cell.projection])


def _gates(values):
    """Keras's order of the gates from TensorFlow's and the other way round: the second and third change places."""
    i, second, third, o = np.split(values, 4, axis=-1)
    return np.concatenate([i, third, second, o], axis=-1)
