"""Describes what this library wrote, without loading it."""

import io
import json
import math
import os
import pathlib
import re
import shlex
import struct
import zipfile
import zlib

from keras_transfer.cli.ask import KINDS, LABELS_FILE, read_facts
from keras_transfer.cli.run_folder import is_unfinished
from keras_transfer.core.files import WEIGHT_FACTS
from keras_transfer.core.names import listed

CHECKPOINT = re.compile(r"epoch-(\d+)-batch-(\d+)\.safetensors")
TASK_ROWS = ("num_classes", "label_names", "multi_label", "num_targets", "pooling", "siamese", "windows")
ENCODER_ROWS = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "max_sequence_length", "pooling")


def describe_own(source):
    """Returns a description of a file or a folder that this library wrote, as lines of text, or None for others.

    These are `.keras` files, exports, runs of `keras-transfer train` and unfinished ones of `pretrain`, training
    checkpoints, and files and PEFT folders of `adaptation.save_adapters`. No weights are loaded.
    """
    path = pathlib.Path(source)
    if path.is_dir():
        for name, describe in DESCRIBE.items():
            # A pretrained language model is a checkpoint.
            is_checkpoint = name == "run.json" and (path / "config.json").is_file() and not is_unfinished(path)
            if (path / name).is_file() and not is_checkpoint:
                return _table(path, describe(path))
        if (path / "model.keras").is_file():
            return _table(path, [*_keras_file(path / "model.keras"), *_beside(path)])
        found = [match for each in path.iterdir() if (match := CHECKPOINT.fullmatch(each.name))]
        return _table(path, _training_checkpoints(path, found)) if found else None
    if path.suffix == ".keras" and path.is_file():
        return _table(path, _keras_file(path))
    if path.suffix == ".safetensors" and path.is_file():
        return _table(path, _safetensors(path))
    return None


def _run(folder):
    state = _read_json(folder / "run.json", (folder / "run.json").read_text("utf-8"))
    settings, model = state.get("settings", {}), folder / "model.keras"
    kind, next_step = "an unfinished", "the same command continues it"
    if state.get("finished"):
        kind, next_step = "a finished", "use it with `keras-transfer predict`"
    command = "pretrain" if "objective" in settings else "train"
    rows = [("kind", f"{kind} run of `keras-transfer {command}`: {next_step}")]
    rows += [(name, str(value)) for name, value in settings.items() if value is not None]
    return rows + ([("model", model.name), *_keras_file(model)[1:]] if model.is_file() else [])


def _beside(folder):
    """Returns the files that `keras-transfer quickstart` writes in addition to a model."""
    found = {"report": folder / "report.html", "export": folder / "served"}
    return [(name, path.name) for name, path in found.items() if path.exists()]


def _keras_file(path):
    try:
        with zipfile.ZipFile(path) as file:
            config, metadata = (_read_json(path, file.read(name)) for name in ("config.json", "metadata.json"))
            assets = sorted({name.split("/")[-1] for name in file.namelist() if name.startswith("assets/")})
        weights, optimizer = weight_sizes(path)
    except (KeyError, OSError, RuntimeError, struct.error, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(f"The file must be a .keras file. Received: {path}, {error}") from None
    name = str(config.get("registered_name") or config.get("class_name"))
    rows = [("kind", "a Keras model: load it with `keras.saving.load_model` after `import keras_transfer`")]
    rows += [("task" if name.startswith("keras_transfer>") else "class", name.removeprefix("keras_transfer>"))]
    rows += _values(config.get("config"), TASK_ROWS)
    encoder = _part(config, "encoder")
    rows += [("encoder", encoder["class_name"]), *_values(encoder.get("config"), ENCODER_ROWS)] if encoder else []
    if adapters := (encoder.get("config") or {}).get("adapters"):
        active = encoder["config"].get("active_adapters", [])
        rows.append(
            ("adapters", f"{listed(adapters)}, of which {listed(active)} {'is' if len(active) == 1 else 'are'} active")
        )
    preprocessor = _part(config, "preprocessor")
    rows += [("preprocessor", preprocessor["class_name"])] if preprocessor else []
    rows += _values(preprocessor.get("config"), ("sequence_length",))
    rows += [("vocabulary", ", ".join(assets))] if assets else []
    rows.append(("weights", f"{weights / 1e6:,.1f} MB"))
    rows += [("optimizer", f"{optimizer / 1e6:,.1f} MB, with which `fit` continues")] if optimizer else []
    return [*rows, ("Keras", f"{metadata.get('keras_version')}")]


def _saved_model(folder):
    facts, labels = read_facts(folder), folder / LABELS_FILE
    rows = [("kind", f"a SavedModel: {_use_of(folder, facts, labels.is_file())}, or use TensorFlow Serving")]
    rows += _values(facts, ("task",))
    for name, sides in facts.get("signatures", {}).items():
        rows.append(
            (f"signature {name}", " -> ".join(", ".join(sorted(sides[side])) for side in ("inputs", "outputs")))
        )
    rows += [("adapters", listed(facts["adapters"]))] if facts.get("adapters") else []
    if labels.is_file() and (names := _read_json(labels, labels.read_text("utf-8"), list)):
        rows.append(("labels", listed(names)))
    if (folder / "assets.extra" / "report.html").is_file():
        rows.append(("report", "assets.extra/report.html"))
    size = sum(path.stat().st_size for path in folder.rglob("variables.data-*"))
    return [*rows, ("weights", f"{size / 1e6:,.1f} MB")]


def _use_of(folder, facts, labeled):
    """Returns a command or a line of Python that uses an export, given what `read_facts` returns of it."""
    path, serving = shlex.quote(str(folder)), facts.get("signatures", {}).get("serving_default")
    if not facts and labeled:
        return f'if it expects single texts, ask it with `keras-transfer classify {path} "TEXT"`'
    load = f"load it with `tf.saved_model.load({str(folder)!r})` after `import tensorflow_text`"
    if serving is None:
        return load
    inputs, outputs = serving["inputs"], serving["outputs"]
    answered = tuple(sorted(outputs)) in KINDS and (outputs.get("values") or [1])[-1] == 1
    if answered and {*inputs} <= {"adapter", "text"}:
        adapter = f" --adapter {facts['adapters'][0]}" if facts["adapters"] else ""
        return f'ask it with `keras-transfer classify {path}{adapter} "TEXT"`'
    if any(len(shape) > 1 for shape in inputs.values()):
        return load
    columns = {name: name for name in inputs}
    more = "" if [*inputs] == ["text"] else f", {columns}"
    return f"call it with `keras_transfer.serving.Predictor({str(folder)!r}{more})`"


def _portable(folder):
    facts = _read_json(folder / "export.json", (folder / "export.json").read_text("utf-8"))
    rows = [("kind", "an export: use it with `keras-transfer predict`, or with its own `predict.py`")]
    rows += _values(facts, ("task", "format", "quantization", "rows", "max_length"))
    rows.append(("labels", listed(_read_json(folder, (folder / "labels.json").read_text("utf-8"), list))))
    return rows + _values(facts.get("measured"), ("megabytes", "texts", "max_difference", "equal_labels"))


def _peft(folder):
    config = _read_json(folder / "adapter_config.json", (folder / "adapter_config.json").read_text("utf-8"))
    rows = [("kind", "a PEFT folder: load it with `adaptation.load_adapters(model, folder)`")]
    return rows + _values(config, ("peft_type", "task_type", "base_model_name_or_path", "r", "target_modules"))


DESCRIBE = {
    "run.json": _run,
    "saved_model.pb": _saved_model,
    "export.json": _portable,
    "adapter_config.json": _peft,
}


def _training_checkpoints(folder, found):
    epoch, batch = max(tuple(map(int, match.groups())) for match in found)
    shown = "s" if len(found) > 1 else ""
    return [
        ("kind", "training checkpoints: pass the folder to the callback to resume the run"),
        ("count", f"{len(found)} checkpoint{shown}, the newest after epoch {epoch}, batch {batch}"),
    ]


def _safetensors(path):
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
    except (OSError, ValueError) as error:
        raise ValueError(f"The file must be a safetensors file. Received: {path}, {error}") from None
    metadata = header.pop("__metadata__", {})
    numbers = sum(math.prod(entry["shape"]) for entry in header.values())
    rows = [("tensors", f"{len(header)} with {numbers:,} numbers")]
    if not str(metadata.get("format", "")).startswith("keras_transfer"):
        return [("kind", "tensors without a configuration: pass the folder that contains it"), *rows]
    if "kinds" not in metadata:
        return [("kind", "a training checkpoint: pass its folder to the callback to resume the run"), *rows]
    kinds = [f"{name}({', '.join(f'{k}={v!r}' for k, v in config.items())})" for name, config in _kinds(path, metadata)]
    heads = sum(name.startswith("head/") for name in header)
    rows = [("name", metadata.get("name")), ("adapters", ", ".join(kinds)), ("head", f"{heads} tensors"), *rows]
    return [("kind", "adapters: load them with `adaptation.load_adapters(model, path)`"), *rows]


def _kinds(path, metadata):
    return _read_json(path, metadata["kinds"], list)


def _part(config, name):
    found = (config.get("config") or {}).get(name)
    return found if isinstance(found, dict) and "class_name" in found else {}


def _values(config, names):
    found = {name: config[name] for name in names if config and config.get(name) not in (None, False)}
    return [(name, listed(value) if isinstance(value, list) else str(value)) for name, value in found.items()]


def _read_json(path, text, expected=dict):
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is damaged. Received: {error}") from None
    if not isinstance(value, expected):
        raise ValueError(f"{path} is damaged. Received: {type(value).__name__}")
    return value


def _table(path, rows):
    width = max(len(name) for name, _ in rows)
    return [str(path), *(f"  {name:<{width}}  {value}" for name, value in rows)]


def weight_sizes(path):
    """Returns the number of bytes of the weights in a `.keras` file, and of the state of the optimizer."""
    import h5py

    sizes = {False: 0, True: 0}

    def add(name, found):
        if isinstance(found, h5py.Dataset) and name.rpartition("/")[2] != WEIGHT_FACTS:
            sizes[name.startswith("optimizer/")] += found.nbytes

    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for entry in archive.infolist():
            if entry.filename.endswith(".weights.h5"):
                with _opened(archive, entry, file) as part, h5py.File(part, "r") as weights:
                    weights.visititems(add)
    return sizes[False], sizes[True]


def _opened(archive, entry, file):
    """Returns an entry of an archive as a file. In `ZipFile.open`, each step backward reads from its start again."""
    if entry.compress_type != zipfile.ZIP_STORED:
        return archive.open(entry)
    file.seek(entry.header_offset + 26)
    name, extra = struct.unpack("<HH", file.read(4))
    return _Section(file, entry.header_offset + 30 + name + extra, entry.file_size)


class _Section(io.RawIOBase):
    """The `size` bytes of a file from the position `start` on, as a file that can be read."""

    def __init__(self, file, start, size):
        super().__init__()
        self.file, self.start, self.size, self.position = file, start, size, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=os.SEEK_SET):
        self.position = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.size}[whence] + offset
        return self.position

    def readinto(self, buffer):
        self.file.seek(self.start + self.position)
        found = self.file.read(min(len(buffer), max(self.size - self.position, 0)))
        buffer[: len(found)] = found
        self.position += len(found)
        return len(found)
