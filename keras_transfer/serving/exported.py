"""Exports of all formats as one kind of object, which maps a dict of texts to a dict of arrays."""

import dataclasses
import json
import pathlib
import re
import threading
from collections.abc import Callable

import numpy as np

from keras_transfer.core.expect import expect, one_of
from keras_transfer.core.files import read_json
from keras_transfer.core.lazy import tf
from keras_transfer.serving.portable.predict import Model

SAVED_MODEL, PORTABLE = "saved_model.pb", "export.json"  # The file that identifies the format of a folder.
# A SavedModel stores files in this folder that belong to it but are not loaded with it.
LABELS_FILE, FACTS_FILE = "assets.extra/labels.json", "assets.extra/export.json"
# The files that determine the answers of a folder. The index of a SavedModel's variables has their checksums.
MODELS = ("model.tflite", "model.onnx")  # `FILE` of each subclass of `Portable`.
FILES = (SAVED_MODEL, "variables/variables.index", PORTABLE, "labels.json", "tokenizer.json", *MODELS)

# The sentence of a failed check of an export, and what it received, inside TensorFlow's message.
ASSERTION = re.compile(r"assertion failed: \[(.+?:)\] (\[.*?\])\n", re.DOTALL)

# The models of this process by folder and time of their file, so that all `Predictor`s of a folder share one.
_LOADED, _LOCK = {}, threading.Lock()


@dataclasses.dataclass(frozen=True)
class Exported:
    """A signature of an export.

    Args:
        inputs: List of the names of the inputs, each of which expects one text for each row.
        answer: Function from a dict of lists of strings, by input, and a batch size, to a dict of arrays `[rows, ...]`.
            Strings are arrays of objects.
    """

    inputs: list
    outputs: list
    answer: Callable


def is_exported(folder):
    """Returns whether a folder contains an export of any format."""
    return any((pathlib.Path(folder) / name).is_file() for name in (SAVED_MODEL, PORTABLE))


def read_facts(folder):
    """Returns a dict of the `task`, `adapters` and `signatures` of a SavedModel, empty for one of an old version."""
    file = pathlib.Path(folder) / FACTS_FILE
    if not file.is_file():
        return {}
    try:
        facts = read_json(file)
        return {name: facts[name] for name in ("task", "adapters", "signatures")}
    except (ValueError, KeyError) as error:
        raise ValueError(f"{file} is damaged. Export the model again. Received: {error}") from None


def labels_of_export(folder):
    """Returns the list of the label names of an export, empty for a model without labels."""
    files = [pathlib.Path(folder) / name for name in ("labels.json", LABELS_FILE)]
    return next((read_json(path, list) for path in files if path.is_file()), [])


def open_exported(folder, signature):
    """Returns a signature of an export as an `Exported`. A process loads the model of a folder once."""
    portable = "://" not in folder and not (pathlib.Path(folder) / SAVED_MODEL).is_file()
    file = pathlib.Path(folder) / (PORTABLE if portable else SAVED_MODEL)
    key = folder, file.stat().st_mtime_ns if "://" not in folder else None
    with _LOCK:
        if key not in _LOADED:
            _LOADED[key] = _load_portable(folder) if portable else _load_saved_model(folder)
    model = _LOADED[key]
    signatures = ["serving_default"] if portable else model.signatures
    one_of(*sorted(signatures)).check("signature", signature)
    return _of_portable(model) if portable else _of_saved_model(model.signatures[signature], signature)


def _load_portable(folder):
    format = json.loads((pathlib.Path(folder) / PORTABLE).read_text("utf-8"))["format"]
    try:
        return Model(folder)
    except ImportError as error:
        raise ImportError(
            f"This export requires the runtime of the format {format!r}. Run `pip install keras_transfer[{format}]`. "
            f"Received: {error}"
        ) from None


def _of_portable(model):
    rows = model.facts["rows"]
    rule = "A `Predictor` requires a model that expects one string for each row and input. Call"
    advice = f"`predict.Model(folder).predict(...)` with {rows}."
    expect(rows in ("texts", "pairs of texts"), f"{rule} {advice}", task=model.facts["task"])
    inputs = ["question", "context"] if model.facts["answers"] == "spans" else ["text", "text_pair"]
    inputs = inputs[: 1 if rows == "texts" else 2]

    def answer(texts, batch_size):
        columns = [texts[name] for name in inputs]
        found = model.predict(columns[0] if len(columns) == 1 else list(zip(*columns)), batch_size)
        if "labels" in found:  # As in a SavedModel, whose answers are arrays.
            chosen = [[name in names for name in model.labels] for names in found.pop("labels")]
            found["chosen"] = np.array(chosen, "int32").reshape(len(chosen), len(model.labels))
        return {name: _as_array(name, values) for name, values in sorted(found.items())}

    return Exported(inputs, sorted(answer({name: [] for name in inputs}, 1)), answer)


def _as_array(name, values):
    """Returns an answer as an array of the same type as in a SavedModel."""
    types = {"label": object, "answer": object, "label_id": "int32", "start": "int32", "end": "int32"}
    return np.asarray(values, types.get(name, "float32" if name != "chosen" else "int32"))


def _load_saved_model(folder):
    import tensorflow_text  # noqa: F401  Its operations are in the graph.

    return tf.saved_model.load(folder)


def _of_saved_model(function, signature):
    inputs = function.structured_input_signature[1]
    unusual = {name: spec for name, spec in inputs.items() if spec.shape.rank != 1 or spec.dtype != "string"}
    rule = "A `Predictor` requires a signature that expects one string for each row and input."
    expect(not unusual, rule, signature=signature, inputs=unusual)

    def answer(texts, batch_size):
        return _in_batches(function, texts, batch_size)

    return Exported(list(inputs), list(function.structured_outputs), answer)


def _in_batches(function, texts, batch_size):
    """Returns the outputs for all rows as arrays, from batches of rows of similar length."""
    texts = {name: np.array([text.encode("utf-8") for text in column], object) for name, column in texts.items()}
    lengths = sum(np.array([len(text) for text in column], "int64") for column in texts.values())
    order = np.argsort(-lengths, kind="stable")
    parts = []
    for start in range(0, max(len(order), 1), batch_size):  # Without rows, an empty batch determines the types.
        rows = order[start : start + batch_size]
        inputs = {name: tf.constant(column[rows], tf.string) for name, column in texts.items()}
        try:
            outputs = function(**inputs)
        except tf.errors.InvalidArgumentError as error:
            if found := ASSERTION.search(str(error)):  # Such as an unknown adapter.
                raise ValueError(" ".join(found.groups()).replace("\\'", "'")) from None
            raise
        parts.append({name: value.numpy() for name, value in outputs.items()})
    places = np.argsort(order)
    return {name: _decode(_together([part[name] for part in parts])[places]) for name in sorted(parts[0])}


def _together(parts):
    """Concatenates arrays. Arrays of words are first padded to the longest text, as the export pads a request."""
    shape = np.max([part.shape[1:] for part in parts], axis=0).astype(int)
    padding = {"O": b"", "i": -1}.get(parts[0].dtype.kind, 0)
    padded = []
    for part in parts:
        missing = [(0, 0), *((0, most - size) for most, size in zip(shape, part.shape[1:]))]
        padded.append(np.pad(part, missing, constant_values=padding) if np.any(missing) else part)
    return np.concatenate(padded)


def _decode(values):
    """Returns strings as `str` and other arrays unchanged."""
    if values.dtype != object:
        return values
    found = np.empty(values.shape, object)
    found.ravel()[:] = [text.decode("utf-8") for text in values.ravel()]
    return found
