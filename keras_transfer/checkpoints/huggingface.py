"""Hugging Face folders (`config.json`, `model.safetensors`), sentence-transformers' among them."""

import json

from keras_transfer.checkpoints.build import ARCHITECTURES, architecture_of, build
from keras_transfer.checkpoints.tensors import CheckpointError, read_json, read_safetensors, shard_files
from keras_transfer.files import atomic_folder

# Their names, old and new, and ours.
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


def load(folder, cls, overrides):
    """Returns the encoder in a Hugging Face folder; see `Encoder.from_pretrained`."""
    weights_folder, pooling, remarks = _sentence_transformer(folder)
    config_file = weights_folder / "config.json"
    if not config_file.exists():
        raise CheckpointError(f"a Hugging Face folder has a config.json. Received: {weights_folder} without one")
    config = read_json(config_file)
    architecture = architecture_of(config, folder)
    return build(architecture, config, _readers(weights_folder), folder, cls, {**pooling, **overrides}, remarks)


def weights_folder(folder):
    """Returns where weights, configuration and vocabulary lie: the folder, or the one that its modules name."""
    return _sentence_transformer(folder)[0]


def save(encoder, folder, overwrite=False):
    """Writes an encoder as a Hugging Face folder; see `Encoder.save_pretrained`."""
    from safetensors.numpy import save_file

    for architecture in ARCHITECTURES.values():
        if isinstance(encoder, architecture.encoder_class):
            break
    else:
        raise CheckpointError(
            "Transformers has a counterpart for "
            f"{sorted(a.encoder_class.__name__ for a in ARCHITECTURES.values())}. Received: {type(encoder).__name__}"
        )
    config = architecture.configuration(encoder)
    tensors = architecture.extra_tensors(encoder)
    for entry in architecture.entries(encoder):
        tensors.update(entry.split())
    with atomic_folder(folder, overwrite) as temporary:
        (temporary / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        save_file(tensors, temporary / "model.safetensors", metadata={"format": "pt"})
        if encoder.pooling:
            _write_sentence_transformer(encoder, temporary)


def _readers(folder):
    """The tensors of a folder, from the first format of weights that it has."""
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
        f"{folder} has no weights: expected model.safetensors, its shards, or pytorch_model.bin. "
        f"Received: {', '.join(sorted(path.name for path in folder.iterdir()))}"
    )


def _read_torch(files):
    try:
        import torch
    except ImportError as error:
        raise CheckpointError(
            "a pickle of torch only torch reads: `pip install torch`, or save the model as safetensors "
            f"(`model.save_pretrained(folder)` in Transformers). Received: {files[0]}"
        ) from error
    readers = {}
    for file in files:
        try:
            tensors = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many types for a broken or a malicious pickle
            raise CheckpointError(f"torch.load(weights_only=True) must read {file}. Received: {error}") from error
        readers |= {name: lambda tensor=tensor: tensor.float().numpy() for name, tensor in tensors.items()}
    return readers


def _sentence_transformer(folder):
    """`(folder of the weights, pooling arguments, remarks)`, from sentence-transformers' list of modules."""
    file = folder / "modules.json"
    if not file.exists():
        return folder, {}, []
    try:
        modules = [(module["type"].rsplit(".", 1)[-1], folder / module["path"]) for module in read_json(file, list)]
        weights_folder = modules[0][1]
    except (KeyError, IndexError, TypeError) as error:
        raise CheckpointError(f"{file} must list sentence-transformers' modules. Received: {error!r}") from error
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return weights_folder, {}, [f"its modules {kinds} are not ours: the encoder has no text embedding of its own"]
    config = read_json(modules[1][1] / "config.json")
    modes = [key[len("pooling_mode_") :] for key, on in config.items() if key.startswith("pooling_mode_") and on]
    modes += [config["pooling_mode"]] if "pooling_mode" in config else []
    if len(modes) != 1 or modes[0] not in _POOLINGS:
        return weights_folder, {}, [f"its pooling {config} is not ours: the encoder has no text embedding of its own"]
    return weights_folder, {"pooling": _POOLINGS[modes[0]], "normalize": "Normalize" in kinds}, []


def _write_sentence_transformer(encoder, folder):
    kinds = ["Transformer", "Pooling", *(["Normalize"] if encoder.normalize else [])]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths))
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2) + "\n")
    (folder / "1_Pooling").mkdir()
    pooling = {
        "word_embedding_dimension": encoder.hidden_dim,
        "pooling_mode_cls_token": encoder.pooling == "first",
        "pooling_mode_mean_tokens": encoder.pooling == "mean",
        "pooling_mode_max_tokens": encoder.pooling == "max",
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=2) + "\n")
    for path in paths[2 : len(kinds)]:
        (folder / path).mkdir()
