"""Hugging Face folders (`config.json`, `model.safetensors`), including those of sentence-transformers."""

import json

import numpy as np

from keras_transfer.checkpoints.architecture import architecture_of, is_for_keras_hub
from keras_transfer.checkpoints.building import build
from keras_transfer.checkpoints.settings import OF_LABELS
from keras_transfer.checkpoints.tensors import CheckpointError, read_json, read_safetensors, reading, shard_files
from keras_transfer.files import atomic_folder

_GENERATION = "generation_config.json"

# Names of pooling in sentence-transformers, old and new, and ours.
_POOLINGS = {
    "cls_token": "first",
    "mean_tokens": "mean",
    "max_tokens": "max",
    "cls": "first",
    "mean": "mean",
    "max": "max",
}


def recognises(folder):
    """Returns whether the folder is one of this format."""
    return (folder / "config.json").exists() or (folder / "modules.json").exists()


def load(folder, cls, overrides, head=None):
    """Returns the encoder in a Hugging Face folder, and the `FoundHead` of a task or None; see `building.build`."""
    weights_folder, pooling, remarks = _sentence_transformer(folder)
    architecture, config = _describe(weights_folder)
    overrides = {**pooling, **overrides}
    generation = weights_folder / _GENERATION
    settings = read_json(generation) if generation.exists() else None
    encoder, found = build(
        architecture, config, lambda: _readers(weights_folder), folder, cls, overrides, remarks, head
    )
    if settings is not None:
        encoder.checkpoint_settings[_GENERATION] = settings
    return encoder, found


def load_preprocessor(folder, word_level=False, **overrides):
    """Returns the preprocessor of a Hugging Face folder."""
    folder = _sentence_transformer(folder)[0]
    return _describe(folder)[0].load_preprocessor(folder, **overrides)


def headers(folder):
    """Returns the architecture, the configuration, and a dict from the names of all tensors to their shapes.

    Only the headers of safetensors are read. The architecture is None for a folder that KerasHub converts.
    """
    from safetensors import safe_open

    folder = _sentence_transformer(folder)[0]
    architecture, config = _describe(folder)
    index, shapes = folder / "model.safetensors.index.json", {}
    if not index.exists() and not (folder / "model.safetensors").exists():
        raise CheckpointError(
            f"{folder} must contain model.safetensors or its shards, because other files have no header to read. "
            f"Received: {', '.join(sorted(path.name for path in folder.iterdir()))}"
        )
    for file in shard_files(index) if index.exists() else [folder / "model.safetensors"]:
        with reading(file), safe_open(file, framework="numpy") as tensors:
            shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    return architecture, config, shapes


def save(architecture, encoder, preprocessor, folder, overwrite, head=None, pooling=None, normalize=None):
    """Writes an encoder, its preprocessor and a `WrittenHead` as a Hugging Face folder.

    The names of the encoder's tensors have the prefix of the architecture only if there is a head, as in Transformers.
    With `pooling` (by default that of the encoder), it becomes a sentence-transformers folder.
    """
    from safetensors.numpy import save_file

    pooling = encoder.pooling if pooling is None else pooling
    normalize = encoder.normalize if normalize is None else normalize
    if pooling is not None and pooling not in _POOLINGS.values():
        raise CheckpointError(
            f"A folder of sentence-transformers can contain the poolings {sorted(set(_POOLINGS.values()))}. Save the "
            f"model with `model.save('model.keras')`. Received: pooling={pooling!r}"
        )
    config = {
        "architectures": [architecture.model_class if head is None else head.model_class],
        "model_type": architecture.model_type,
        **_with_end(architecture.configuration(encoder), preprocessor),
        **({} if head is None else head.config),
    }
    kept = encoder.checkpoint_settings.get("config.json", {})
    of_labels = () if head is None else OF_LABELS
    config |= {
        key: value for key, value in kept.items() if key not in of_labels and (key not in config or config[key] is None)
    }
    tensors = architecture.extra_tensors(encoder)
    for entry in architecture.entries(encoder):
        tensors |= entry.tensors()
    if head is not None:
        tensors = {f"{architecture.prefix}{name}": tensor for name, tensor in tensors.items()} | head.tensors
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    with atomic_folder(folder, overwrite) as temporary:
        (temporary / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        if _GENERATION in encoder.checkpoint_settings:
            generation = json.dumps(encoder.checkpoint_settings[_GENERATION], indent=2)
            (temporary / _GENERATION).write_text(generation + "\n")
        save_file(tensors, temporary / "model.safetensors", metadata={"format": "pt"})
        if preprocessor is not None:
            preprocessor.save(temporary)
        if pooling:
            _write_sentence_transformer(encoder, pooling, normalize, temporary)


def _with_end(config, preprocessor):
    """Returns a configuration in which the token that ends texts is that of the preprocessor, if none was set."""
    if config.get("eos_token_id", 0) is not None or preprocessor is None:
        return config
    end = getattr(preprocessor.tokenizer, "eos_id", None)
    last = preprocessor.packing.end[-1:]
    return {**config, "eos_token_id": preprocessor.token_to_id(last[0]) if end is None and last else end}


def _describe(folder):
    """Returns the architecture and the configuration of a folder."""
    if not (folder / "config.json").exists():
        raise CheckpointError(f"A Hugging Face folder must have a config.json. Received: {folder} without one")
    config = read_json(folder / "config.json")
    return None if is_for_keras_hub(config) else architecture_of(config, folder), config


def _readers(folder):
    """Returns the readers of a folder's tensors, from the first format of weights that it contains."""
    for name, files in (
        ("model.safetensors", lambda path: [path]),
        ("model.safetensors.index.json", shard_files),
    ):
        if (folder / name).exists():
            return read_safetensors(files(folder / name))
    for name, files in (
        ("pytorch_model.bin", lambda path: [path]),
        ("pytorch_model.bin.index.json", shard_files),
    ):
        if (folder / name).exists():
            return _read_torch(files(folder / name))
    raise CheckpointError(
        f"{folder} contains no weights. Expected model.safetensors, its shards, or pytorch_model.bin. "
        f"Received: {', '.join(sorted(path.name for path in folder.iterdir()))}"
    )


def _read_torch(files):
    try:
        import torch
    except ImportError as error:
        raise CheckpointError(
            "Reading a torch pickle requires torch. Run `pip install torch`, or save the model as safetensors with "
            f"`model.save_pretrained(folder)` in Transformers. Received: {files[0]}"
        ) from error
    readers = {}
    for file in files:
        try:
            tensors = dict(torch.load(file, map_location="cpu", weights_only=True))
        except Exception as error:  # torch raises many types for a broken or a malicious pickle
            raise CheckpointError(f"`torch.load(weights_only=True)` cannot read {file}. Received: {error}") from error
        readers |= {name: lambda tensor=tensor: tensor.float().numpy() for name, tensor in tensors.items()}
    return readers


def _sentence_transformer(folder):
    """Returns `(folder of the weights, pooling arguments, remarks)` from sentence-transformers' list of modules."""
    file = folder / "modules.json"
    if not file.exists():
        return folder, {}, []
    try:
        modules = [(module["type"].rsplit(".", 1)[-1], folder / module["path"]) for module in read_json(file, list)]
        weights_folder = modules[0][1]
    except (AttributeError, KeyError, IndexError, TypeError) as error:
        raise CheckpointError(f"{file} must be sentence-transformers' list of modules. Received: {error!r}") from error
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return weights_folder, {}, [f"its modules {kinds} are not supported, so `pooling` is not set"]
    config = read_json(modules[1][1] / "config.json")
    modes = [key[len("pooling_mode_") :] for key, on in config.items() if key.startswith("pooling_mode_") and on]
    modes += [config["pooling_mode"]] if "pooling_mode" in config else []
    if len(modes) != 1 or not isinstance(modes[0], str) or modes[0] not in _POOLINGS:
        return weights_folder, {}, [f"its pooling {config} is not supported, so `pooling` is not set"]
    return weights_folder, {"pooling": _POOLINGS[modes[0]], "normalize": "Normalize" in kinds}, []


def _write_sentence_transformer(encoder, pooling, normalize, folder):
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths))
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    (folder / "1_Pooling").mkdir()
    config = {
        "word_embedding_dimension": encoder.hidden_dim,
        "pooling_mode_cls_token": pooling == "first",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": pooling == "max",
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for path in paths[2 : len(kinds)]:
        (folder / path).mkdir()
