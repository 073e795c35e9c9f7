"""Adapters in small files: their weights and the head, without the encoder's weights."""

import hashlib
import json
import pathlib
from typing import Any

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters import peft_files
from keras_transfer.adaptation.adapters.adapters import (
    NAME,
    adapted_encoder,
    adapter_weights,
    add,
    check_names,
    head_for,
    head_weights,
)
from keras_transfer.adaptation.adapters.kind import kind_of
from keras_transfer.adaptation.adapters.settings import (
    check_encoder_settings,
    check_head_settings,
    encoder_settings,
    head_settings,
)
from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.core.files import atomic_file, check_folder
from keras_transfer.distribute import in_first_process

FORMAT = "keras_transfer adapters 1"


@expects(format=one_of("keras_transfer", "peft"))
def save_adapters(
    model: Any,
    path: str | pathlib.Path,
    *,
    name: str | None = None,
    format: str = "keras_transfer",
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes adapters and the head of a model to a safetensors file.

    The file contains no encoder weights, only their fingerprint and the encoder's settings, and the settings of the
    task that its head depends on, such as `label_names`. `load_adapters` rejects a different encoder or head.

    Args:
        model: Model with adapters.
        path: String or path. File to write, or folder with `format="peft"`.
        name: String. Name of the adapters. Defaults to `None`, the active ones.
        format: String. `"keras_transfer"`, or `"peft"` for a folder with LoRA or IA3 that PEFT loads into the same
            Transformers model. For a task, this is the class with the head, such as
            `AutoModelForSequenceClassification` or `AutoModelForSeq2SeqLM`, and the folder contains the head, if it
            trains, and `label_names`. For `model.encoder`, it is `AutoModel`. Defaults to `"keras_transfer"`.
        overwrite: Boolean. Whether to replace an existing file or folder. Defaults to `False`.

    Returns:
        `path` as a `pathlib.Path`.

    Raises:
        ValueError: If the model has no adapters or no head with this name; if several are active and no name is given;
            if another task has changed the adapters and no name is given; or if PEFT cannot load the adapters or
            Transformers does not have the head.
        FileExistsError: If `path` exists and `overwrite=False`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, "lora:r=4")
    keras_transfer.adaptation.save_adapters(model, "sentiment.safetensors")
    ```
    """
    from safetensors.numpy import save

    encoder, path = adapted_encoder(model), pathlib.Path(path)
    if name is None and model is not encoder:
        model.head_adapters.check()
    name = the_name(encoder, name)
    arrays = {key: _array(weight) for key, weight in adapter_weights(encoder, name).items()}
    in_first_process(lambda: check_folder(path, overwrite), model)
    if format == "peft":
        head = {} if model is encoder else {id(weight): value for weight, value in head_for(model, name)}
        kinds = encoder.adapters[name]
        in_first_process(lambda: peft_files.write(model, encoder, path, kinds, arrays, head, overwrite), model)
        return path
    tensors = {f"adapter/{key}": array for key, array in arrays.items()}
    settings = {"encoder": json.dumps(encoder_settings(encoder))}
    if model is not encoder:
        tensors |= {f"head/{weight.path}": np.array(value, "float32") for weight, value in head_for(model, name)}
        settings["task"] = json.dumps(head_settings(model))
    kinds = [[type(kind).__name__, kind.get_config()] for kind in encoder.adapters[name]]
    metadata = {"format": FORMAT, "name": name, "kinds": json.dumps(kinds), "base": fingerprint(encoder), **settings}

    def write():
        with atomic_file(path) as file:
            file.write(save(tensors, metadata))

    in_first_process(write, model)
    return path


@expects(name=NAME)
def load_adapters(model: Any, path: str | pathlib.Path, *, name: str | None = None) -> Any:
    """Loads adapters and a head from a file into a model.

    Args:
        model: Task with the pretrained encoder with which the adapters were saved, or that encoder itself, which has no
            head.
        path: String or path. File that `save_adapters` wrote, or a PEFT folder with LoRA or IA3 (`adapter_config.json`
            and `adapter_model.safetensors`). If the folder contains a head (such as with the task types `SEQ_CLS` and
            `TOKEN_CLS`), it is loaded, too, and the task must have the same one. Other layers that PEFT saved as a
            whole become `LayerCopies`. A PEFT folder contains no fingerprint of its encoder, and no label names unless
            `save_adapters` wrote it.
        name: String. Name of the adapters in this model. Defaults to `None`, the name in the file, or `"default"`.

    Returns:
        The model. The loaded adapters are active. Compile the model to train it further.

    Raises:
        ValueError: If the file cannot be read; if it belongs to an encoder with other weights or settings, or to a task
            whose head gives different answers (such as `label_names` in a different order); if its tensors do not
            match; or if the adapters cannot be added. The model is then unchanged.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, "lora:r=4")
    keras_transfer.adaptation.save_adapters(model, "sentiment.safetensors")
    again = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.load_adapters(again, "sentiment.safetensors")
    ```
    """
    encoder = adapted_encoder(model)
    if pathlib.Path(path).is_dir():
        kinds, tensors = peft_files.read(model, encoder, pathlib.Path(path))
    else:
        metadata, tensors = _read(path)
        name = metadata["name"] if name is None else name
        own = fingerprint(encoder)
        rule = "The adapters belong to an encoder with different weights. Load the encoder that they were saved with."
        expect(own == metadata["base"], rule, path=str(path), made_for=metadata["base"][:12], encoder=own[:12])
        check_encoder_settings(json.loads(metadata.get("encoder", "{}")), encoder, path)  # Older files have none.
        if model is not encoder:
            check_head_settings(json.loads(metadata.get("task", "{}")), model, path)
        kinds = [kind_of(*found) for found in json.loads(metadata["kinds"])]
    name, wanted = "default" if name is None else name, {}
    if model is encoder:
        tensors = {key: value for key, value in tensors.items() if not key.startswith("head/")}
    elif any(key.startswith("head/") for key in tensors):
        wanted |= {f"head/{weight.path}": weight for weight in head_weights(model)}

    def check(encoder):
        wanted.update({f"adapter/{key}": weight for key, weight in adapter_weights(encoder, name).items()})
        if problems := _problems(wanted, tensors):
            raise ValueError(f"The tensors of the file do not match the model. Received: {'; '.join(problems[:5])}")

    add(model, kinds, name, check)
    for key, weight in wanted.items():
        weight.assign(tensors[key])
    return model


def fingerprint(encoder):
    """Returns a hash of an encoder's class and weights as a string. Adapter weights are excluded."""
    added = {id(weight) for name in encoder.adapters for weight in adapter_weights(encoder, name).values()}
    found = hashlib.sha256(type(encoder).__name__.encode())
    for weight in encoder.weights:
        if id(weight) not in added:
            array = _array(weight)
            found.update(str(array.shape).encode())
            found.update(np.ascontiguousarray(array))
    return found.hexdigest()


def the_name(encoder, name):
    """Checks and returns the name of adapters. `None` stands for the active adapters."""
    if name is None:
        expect(encoder.adapters, "The model has no adapters. Call `add_adapters` first.", name=None)
        rule = f"Pass `name`, one of {list(encoder.adapters)}."
        expect(len(encoder.active_adapters) == 1, rule, active_adapters=list(encoder.active_adapters))
        [name] = encoder.active_adapters
    check_names(encoder, [name])
    return name


def _array(weight):
    return np.array(ops.convert_to_numpy(ops.cast(weight, "float32")))


def _read(path):
    from safetensors import safe_open

    try:
        with safe_open(str(path), "np") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in list(file.keys())}
    except FileNotFoundError:
        raise
    except Exception as error:  # The class of this error depends on the version of safetensors.
        raise ValueError(f"{path} cannot be read. Received: {type(error).__name__}: {error}") from error
    rule = f"{path} must be a file that `save_adapters` wrote, with format={FORMAT!r}."
    expect(metadata.get("format") == FORMAT, rule, format=metadata.get("format"))
    return metadata, tensors


def _problems(wanted, tensors):
    missing = [f"no tensor {key!r}" for key in wanted if key not in tensors]
    unknown = [f"unknown tensor {key!r}" for key in tensors if key not in wanted]
    shapes = [
        f"{key!r} of shape {tensors[key].shape} instead of {tuple(weight.shape)}"
        for key, weight in wanted.items()
        if key in tensors and tuple(tensors[key].shape) != tuple(weight.shape)
    ]
    return missing + unknown + shapes
