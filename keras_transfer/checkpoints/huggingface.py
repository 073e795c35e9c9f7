"""Hugging Face folders (`config.json`, `model.safetensors`), including sentence-transformers folders."""

import json

import numpy as np

from keras_transfer.checkpoints.architecture import OF_LABELS, architecture_of, is_for_keras_hub
from keras_transfer.checkpoints.building import Format, build, build_preprocessor, part_for
from keras_transfer.checkpoints.sentence_transformers import (
    check_lowercase,
    check_writable,
    read_modules,
    write_modules,
)
from keras_transfer.checkpoints.tensors import (
    CheckpointError,
    expect,
    files_in,
    read_json,
    read_safetensors,
    read_torch,
    reading,
    shard_files,
    tensors_of,
)
from keras_transfer.core.files import atomic_folder
from keras_transfer.encoders import Encoder

_GENERATION = "generation_config.json"


def recognises(folder):
    """Returns whether the folder is one of this format."""
    return (folder / "config.json").exists() or (folder / "modules.json").exists()


class HuggingFaceFolder(Format):
    """A folder of Transformers or of sentence-transformers.

    Attributes:
        modules: `Modules`. The folder of the encoder, which has a folder of its own in sentence-transformers, and what
            comes after it.
        architecture: `Architecture`, or None for a folder that KerasHub converts, of which only `headers` reads more.
    """

    recognises = staticmethod(recognises)

    def __init__(self, folder):
        super().__init__(folder)
        self.modules = read_modules(folder)
        self.config = read_json(self.modules.folder / "config.json")
        self.architecture = None if is_for_keras_hub(self.config) else architecture_of(self.config, self.modules.folder)

    def readers(self):
        return _readers(self.modules.folder)

    def encoder(self, cls, overrides, **wanted):
        self._check_architecture()
        pooling, remarks = self.modules.of_encoder()
        generation = self.modules.folder / _GENERATION
        settings = read_json(generation) if generation.exists() else None
        encoder, found = build(self, cls, {**pooling, **overrides}, remarks, **wanted)
        if settings is not None:
            encoder.attached.files[_GENERATION] = settings
        return encoder, found

    def preprocessor(self, word_level=False, **overrides):
        self._check_architecture()
        preprocessor = build_preprocessor(self.architecture, self.modules.folder, **overrides)
        check_lowercase(self.modules.folder, preprocessor)
        return preprocessor

    def _check_architecture(self):
        rule = (
            f"KerasHub, which does not know the modules of {self.folder}, loads the encoder in {self.modules.folder} "
            "alone. Pass that folder."
        )
        expect(self.architecture is not None, rule, self.config.get("model_type"))

    def embedder(self):
        self.modules.read_tensors = _readers
        rule = (
            f"A TextEmbedder cannot compute the embeddings of {self.folder}. Pass head='new' for an embedder with the "
            "pooling that you choose."
        )
        expect(self.modules.problem is None, rule, received=self.modules.problem)
        return self.modules


def headers(folder):
    """Returns the architecture, the configuration, and a dict from the names of all tensors to their shapes.

    Only the headers of safetensors are read. The architecture is None for a folder that KerasHub converts.
    """
    from safetensors import safe_open

    opened = HuggingFaceFolder(folder)
    architecture, config, folder = opened.architecture, opened.config, opened.modules.folder
    architecture = None if architecture is None else part_for(architecture, Encoder, config)
    index, shapes = folder / "model.safetensors.index.json", {}
    rule = f"{folder} must contain model.safetensors or its shards, because other files have no header to read."
    expect(index.exists() or (folder / "model.safetensors").exists(), rule, received=files_in(folder))
    for file in shard_files(index) if index.exists() else [folder / "model.safetensors"]:
        with reading(file), safe_open(file, framework="numpy") as tensors:
            shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    return architecture, config, shapes


def save(architecture, encoder, preprocessor, folder, overwrite, head=None, embedder=None, target=None):
    """Writes an encoder, its preprocessor and a `WrittenHead` as a Hugging Face folder.

    The names of the encoder's tensors have the prefix of the architecture only if there is a head, as in Transformers.
    If the `TextEmbedder` (by default the encoder) has a pooling, it becomes a sentence-transformers folder. `target` is
    the preprocessor of targets, if it differs from the sources'.
    """
    from safetensors.numpy import save_file

    embedder = encoder if embedder is None else embedder
    check_writable(embedder)
    config = {
        "architectures": [architecture.model_class if head is None else head.model_class],
        "model_type": architecture.model_type,
        **_with_end(architecture.configuration(encoder), preprocessor),
        **({} if head is None else head.config),
    }
    kept = encoder.attached.files.get("config.json", {})
    of_labels = () if head is None else OF_LABELS
    config |= {
        key: value for key, value in kept.items() if key not in of_labels and (key not in config or config[key] is None)
    }
    of_generation = {} if head is None else head.generation
    config |= of_generation
    tensors = architecture.extra_tensors(encoder) | tensors_of(architecture.entries(encoder))
    if head is not None:
        tensors = {f"{architecture.prefix}{name}": tensor for name, tensor in tensors.items()} | head.tensors
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    with atomic_folder(folder, overwrite) as temporary:
        (temporary / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        if _GENERATION in encoder.attached.files:
            generation = json.dumps({**encoder.attached.files[_GENERATION], **of_generation}, indent=2)
            (temporary / _GENERATION).write_text(generation + "\n")
        save_file(tensors, temporary / "model.safetensors", metadata={"format": "pt"})
        if preprocessor is not None:
            preprocessor.save(temporary, **({} if target is None else {"target": target}))
        if embedder.pooling:
            write_modules(embedder, temporary)


def _with_end(config, preprocessor):
    """Returns a configuration that names the preprocessor's end token, if none was set."""
    if config.get("eos_token_id", 0) is not None or preprocessor is None:
        return config
    end = getattr(preprocessor.tokenizer, "eos_id", None)
    last = preprocessor.packing.end[-1:]
    return {**config, "eos_token_id": preprocessor.token_to_id(last[0]) if end is None and last else end}


def _readers(folder):
    """Returns the readers of a folder's tensors, from the first format of weights that it contains."""
    for name, read in (("model.safetensors", read_safetensors), ("pytorch_model.bin", _read_torch)):
        file, index = folder / name, folder / f"{name}.index.json"
        if file.exists() or index.exists():
            return read([file] if file.exists() else shard_files(index))
    rule = f"{folder} contains no weights. Expected model.safetensors, its shards, or pytorch_model.bin."
    raise CheckpointError(f"{rule} Received: {files_in(folder)}")


def _read_torch(files):
    readers = {}
    for file in files:
        tensors = read_torch(file, "save the model as safetensors with `model.save_pretrained(folder)` in Transformers")
        readers |= {name: lambda tensor=tensor: tensor.float().numpy() for name, tensor in dict(tensors).items()}
    return readers
