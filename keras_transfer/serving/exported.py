"""The formats of exports, and the folders that they have written."""

import pathlib
import threading
from typing import Any

from keras_transfer.core.expect import one_of
from keras_transfer.core.files import read_json
from keras_transfer.serving.formats.litert import LiteRT
from keras_transfer.serving.formats.onnx import ONNX
from keras_transfer.serving.formats.savedmodel import FACTS_FILE, SavedModel

FORMATS: dict[str, Any] = {each.NAME: each for each in (SavedModel, LiteRT, ONNX)}
MARKS = list(dict.fromkeys(each.FILES[0] for each in FORMATS.values()))  # Each export has one of these files.

# The signatures of this process by folder and time of their file, so that all `Predictor`s of a folder share a model.
_LOADED, _LOCK = {}, threading.Lock()


def is_exported(folder):
    """Returns whether a folder contains an export of any format."""
    return any(pathlib.Path(folder, name).is_file() for name in MARKS)


def format_of(folder):
    """Returns the format of the export in a folder. Remote storage contains SavedModels."""
    return next((each for each in FORMATS.values() if each.wrote(folder)), SavedModel)


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
    file = pathlib.Path(folder, format_of(folder).LABELS)
    return read_json(file, list) if file.is_file() else []


def open_exported(folder, signature):
    """Returns a signature of an export as an `Exported`. A process loads the model of a folder once."""
    format = format_of(folder)
    time = None if "://" in folder else pathlib.Path(folder, format.FILES[0]).stat().st_mtime_ns
    with _LOCK:
        if (folder, time) not in _LOADED:
            _LOADED[folder, time] = format.open(folder)
    signatures = _LOADED[folder, time]
    one_of(*sorted(signatures)).check("signature", signature)
    return signatures[signature]()
