"""`keras-transfer info`: what a checkpoint or a file of this library contains, without loading its weights."""

import io
import json
import math
import pathlib
import re
import shlex
import types
import zipfile
import zlib

from keras_transfer import checkpoints, tasks
from keras_transfer.checkpoints import Head, find_head, huggingface, presets
from keras_transfer.cli.models import KINDS
from keras_transfer.cli.quickstart import EXPORT
from keras_transfer.cli.run_folder import MODEL, REPORT, STATE, is_unfinished
from keras_transfer.core.files import WEIGHT_FACTS, read_json
from keras_transfer.core.names import listed
from keras_transfer.serving import FORMATS, labels_of_export, read_facts
from keras_transfer.training import CHECKPOINT_NAME

# From the name of each head to the task that loads it, the first one that `tasks` lists.
TASKS = {
    head.name: f"tasks.{name}"
    for name in reversed(tasks.__all__)
    if (head := getattr(getattr(tasks, name), "checkpoint_head", None)) is not None and head.name is not None
}

SAVED_MODEL, PORTABLE = (FORMATS[name].FILES[0] for name in ("savedmodel", "onnx"))  # LiteRT's is that of ONNX.
TASK_ROWS = ("num_classes", "label_names", "multi_label", "num_targets", "pooling", "siamese", "windows")
ENCODER_ROWS = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "max_sequence_length", "pooling")


def info(source):
    """Prints what a checkpoint or a saved model contains."""
    print("\n".join(describe_own(source) or describe(source)))


def describe_own(source):
    """Returns a description of a file or a folder that this library wrote, as lines of text, or None for others.

    These are `.keras` files, exports, runs of `keras-transfer train` and unfinished ones of `pretrain`, training
    checkpoints, and files and PEFT folders of `adaptation.save_adapters`. No weights are loaded.
    """
    path = pathlib.Path(source)
    if path.is_dir():
        for name, describe in DESCRIBE.items():
            # A pretrained language model is a checkpoint.
            is_checkpoint = name == STATE and (path / "config.json").is_file() and not is_unfinished(path)
            if (path / name).is_file() and not is_checkpoint:
                return _table(path, describe(path))
        if (path / MODEL).is_file():
            return _table(path, [*_keras_file(path / MODEL), *_beside(path)])
        found = [match for each in path.iterdir() if (match := CHECKPOINT_NAME.fullmatch(each.name))]
        return _table(path, _training_checkpoints(path, found)) if found else None
    if path.suffix == ".keras" and path.is_file():
        return _table(path, _keras_file(path))
    if path.suffix == ".safetensors" and path.is_file():
        return _table(path, _safetensors(path))
    return None


def _run(folder):
    state = read_json(folder / STATE)
    settings, model = state.get("settings", {}), folder / MODEL
    kind, next_step = "an unfinished", "the same command continues it"
    if state.get("finished"):
        kind, next_step = "a finished", "use it with `keras-transfer predict`"
    command = "pretrain" if "objective" in settings else "train"
    rows = [("kind", f"{kind} run of `keras-transfer {command}`: {next_step}")]
    rows += [(name, str(value)) for name, value in settings.items() if value is not None]
    return rows + ([("model", model.name), *_keras_file(model)[1:]] if model.is_file() else [])


def _beside(folder):
    """Returns the files that `keras-transfer quickstart` writes in addition to a model."""
    found = {"report": folder / REPORT, "export": folder / EXPORT}
    return [(name, path.name) for name, path in found.items() if path.exists()]


def _keras_file(path):
    try:
        with zipfile.ZipFile(path) as file:
            config, metadata = (json.loads(file.read(name)) for name in ("config.json", "metadata.json"))
            assets = sorted({name.split("/")[-1] for name in file.namelist() if name.startswith("assets/")})
        weights, optimizer = weight_sizes(path)
    except (KeyError, OSError, ValueError, zlib.error, zipfile.BadZipFile) as error:
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


def weight_sizes(path):
    """Returns the number of bytes of the weights in a `.keras` file, and of the state of the optimizer."""
    import h5py

    sizes = {False: 0, True: 0}

    def add(name, found):
        if isinstance(found, h5py.Dataset) and name.rpartition("/")[2] != WEIGHT_FACTS:
            sizes[name.startswith("optimizer/")] += found.nbytes

    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".weights.h5"):
                with h5py.File(io.BytesIO(archive.read(name)), "r") as weights:
                    weights.visititems(add)
    return sizes[False], sizes[True]


def _saved_model(folder):
    facts, labels = read_facts(folder), labels_of_export(folder)
    rows = [("kind", f"a SavedModel: {_use_of(folder, facts, labels)}, or use TensorFlow Serving")]
    rows += _values(facts, ("task",))
    for name, sides in facts.get("signatures", {}).items():
        rows.append(
            (f"signature {name}", " -> ".join(", ".join(sorted(sides[side])) for side in ("inputs", "outputs")))
        )
    rows += [("adapters", listed(facts["adapters"]))] if facts.get("adapters") else []
    if labels:
        rows.append(("labels", listed(labels)))
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
    facts = read_json(folder / PORTABLE)
    rows = [("kind", "an export: use it with `keras-transfer predict`, or with its own `predict.py`")]
    rows += _values(facts, ("task", "format", "quantization", "rows", "max_length"))
    rows.append(("labels", listed(labels_of_export(folder))))
    return rows + _values(facts.get("measured"), ("megabytes", "texts", "max_difference", "equal_labels"))


def _peft(folder):
    config = read_json(folder / "adapter_config.json")
    rows = [("kind", "a PEFT folder: load it with `adaptation.load_adapters(model, folder)`")]
    return rows + _values(config, ("peft_type", "task_type", "base_model_name_or_path", "r", "target_modules"))


DESCRIBE = {
    STATE: _run,
    SAVED_MODEL: _saved_model,
    PORTABLE: _portable,
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
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            metadata = file.metadata() or {}
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ValueError(f"The file must be a safetensors file. Received: {path}, {error}") from None
    rows = [("tensors", f"{len(shapes)} with {_count(shapes, shapes)} numbers")]
    if not str(metadata.get("format", "")).startswith("keras_transfer"):
        return [("kind", "tensors without a configuration: pass the folder that contains it"), *rows]
    if "kinds" not in metadata:
        return [("kind", "a training checkpoint: pass its folder to the callback to resume the run"), *rows]
    kinds = [
        f"{name}({', '.join(f'{key}={value!r}' for key, value in config.items())})"
        for name, config in json.loads(metadata["kinds"])
    ]
    heads = sum(name.startswith("head/") for name in shapes)
    rows = [("name", metadata.get("name")), ("adapters", ", ".join(kinds)), ("head", f"{heads} tensors"), *rows]
    return [("kind", "adapters: load them with `adaptation.load_adapters(model, path)`"), *rows]


def _part(config, name):
    found = (config.get("config") or {}).get(name)
    return found if isinstance(found, dict) and "class_name" in found else {}


def _values(config, names):
    found = {name: config[name] for name in names if config and config.get(name) not in (None, False)}
    return [(name, listed(value) if isinstance(value, list) else str(value)) for name, value in found.items()]


def _table(path, rows):
    width = max(len(name) for name, _ in rows)
    return [str(path), *(f"  {name:<{width}}  {value}" for name, value in rows)]


def describe(source):
    """Returns a description of a Hugging Face folder as lines of text, without loading its weights."""
    folder = checkpoints.resolve(source)
    for_keras_hub = presets.converts(folder)
    if not for_keras_hub and (presets.recognises(folder) or not huggingface.recognises(folder)):
        raise checkpoints.CheckpointError(
            f"`info` describes Hugging Face folders, which have a config.json. Received: {folder}"
        )
    architecture, config, shapes = huggingface.headers(folder)
    size = f"{len(shapes)} with {_count(shapes, shapes)} numbers"
    if for_keras_hub:
        rows = [("architecture", f"{config['model_type']}, loaded by KerasHub without its heads"), ("tensors", size)]
        return _table(folder, [*rows, ("tokenizer", _tokenizer(folder, {"vocabulary_size": config.get("vocab_size")}))])
    arguments = architecture.arguments(config, folder)
    shapes = {architecture.plain_name(name): shape for name, shape in shapes.items()}
    rows = [("architecture", f"{architecture.model_type}, loaded as {architecture.encoder_class.__name__}")]
    rows += [(name, str(value)) for name, value in arguments.items()]

    encoder = types.SimpleNamespace(**arguments)
    table = [name for names in architecture.tensors.values() for name in _listed(names, encoder)]
    patterns = [re.escape(name).replace(r"\*", r"\d+") + r"(\.weight|\.bias)?" for name in table]
    in_encoder = [name for name in shapes if any(re.fullmatch(pattern, name) for pattern in patterns)]
    rest = [name for name in shapes if name not in in_encoder]
    rows.append(("tensors", size))
    rows.append(("encoder", f"{len(in_encoder)} tensors with {_count(in_encoder, shapes)} numbers, which load"))
    readers = dict.fromkeys(shapes)
    for name, prefix in architecture.head_prefixes.items():
        found = find_head(architecture, name, config, readers, folder)
        if found is not None and name in TASKS:
            rows.append((f"head {name}", f"{len(found.readers)} tensors, which {TASKS[name]} loads"))
            rest = [tensor for tensor in rest if tensor not in found.readers]
        elif not isinstance(architecture.heads[name], Head) and any(tensor.startswith(prefix) for tensor in rest):
            rows.append((f"head {name}", "not supported"))
            rest = [tensor for tensor in rest if not tensor.startswith(prefix)]
    if isinstance(config.get("id2label"), dict):
        rows.append(("labels", listed(config["id2label"].values())))
    rest = [name for name in rest if name not in architecture.tied]
    rest = [name for name in rest if not any(re.search(pattern, name) for pattern in architecture.ignored)]
    more = f" and {len(rest) - 10} more" if len(rest) > 10 else ""
    rows.append(("not loaded", (", ".join(sorted(rest)[:10]) or "nothing else") + more))
    rows.append(("tokenizer", _tokenizer(folder, arguments)))
    return _table(folder, rows)


def _listed(names, encoder):
    names = names[0] if isinstance(names, tuple) else names
    names = names(encoder) if callable(names) else names
    return [names] if isinstance(names, str) else names


def _count(names, shapes):
    return f"{sum(math.prod(shapes[name]) for name in names):,}"


def _tokenizer(folder, arguments):
    try:
        preprocessor = checkpoints.load_preprocessor(folder)
    except (ValueError, OSError, ImportError) as error:
        return f"does not load: {error}"
    size, rows = preprocessor.vocabulary_size, arguments.get("vocabulary_size")
    fits = "" if rows is None or size <= rows else f", which do not fit the embedding of {rows} rows"
    return (
        f"{type(preprocessor).__name__}, {size} tokens{fits}, texts are truncated to {preprocessor.sequence_length} ids"
    )
