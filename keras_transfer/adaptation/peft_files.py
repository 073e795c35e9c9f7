"""PEFT folders with LoRA, which contain `adapter_config.json` and `adapter_model.safetensors`."""

import json
import re

from keras_transfer.adaptation.adapter_places import blocks_of, dense_targets
from keras_transfer.adaptation.weight_kinds import LoRA
from keras_transfer.encoders.encoder import checkpoint_functions
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.files import atomic_folder

_NAME = re.compile(
    r"base_model\.model\.(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_magnitude_vector)(\.default)?(\.weight)?$"
)
_SUFFIXES = {"lora_A": "a", "lora_B": "b", "lora_magnitude_vector": "magnitude"}
# Keys of adapter_config.json with the only values that can be loaded.
_FIXED = {"peft_type": "LORA", "bias": "none", "rank_pattern": {}, "alpha_pattern": {}}


def read(encoder, folder):
    """Returns the kinds of adapters in a folder, and their tensors under the names that `save_adapters` uses.

    Args:
        encoder: `TransformerStack` to which they will be added.
        folder: `pathlib.Path`.

    Raises:
        ValueError: If the folder cannot be read, or contains anything other than LoRA for this encoder.
    """
    from safetensors.numpy import load_file

    try:
        config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        tensors = load_file(folder / "adapter_model.safetensors")
        rank, alpha = config["r"], config["lora_alpha"]
    except Exception as error:  # a missing or damaged file
        raise ValueError(
            f"{folder} must be a folder of PEFT, with adapter_config.json and adapter_model.safetensors. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    if wrong := {key: config[key] for key, value in _FIXED.items() if (config.get(key) or value) != value}:
        raise ValueError(f"Only plain LoRA of PEFT can be loaded. Received: {wrong} in {folder}")
    start = str(config.get("init_lora_weights", True)).lower()
    if start not in ("true", "false", "gaussian", "eva", "orthogonal"):
        raise ValueError(
            "`init_lora_weights` must be one that does not change the encoder's weights. Convert the folder with PEFT. "
            f"Received: {start!r} in {folder}"
        )
    places, targets, found = _places(encoder), set(), {}
    for name, tensor in tensors.items():
        match = _NAME.match(name)
        module = match and next((key for key in places if f".{match['module']}".endswith(f".{key}")), None)
        if module is None:
            raise ValueError(f"{folder} has a tensor that does not fit {type(encoder).__name__}. Received: {name!r}")
        target, key = places[module]
        targets.add(target)
        is_vector = match["part"] == "lora_magnitude_vector"
        found[f"adapter/{key}_{_SUFFIXES[match['part']]}"] = tensor.reshape(-1) if is_vector else tensor.T
    dropout, flags = config.get("lora_dropout", 0.0), [bool(config.get(key)) for key in ("use_rslora", "use_dora")]
    return [LoRA(rank, alpha, sorted(targets), dropout, *flags)], found


def write(encoder, folder, kinds, arrays, overwrite=False):
    """Writes a folder that PEFT can load over the same encoder of Transformers.

    Args:
        encoder: `TransformerStack` with the adapters.
        folder: Path to write.
        kinds: List of kinds. It must contain a single `LoRA`.
        arrays: Dict from the names of `adapter_weights` to arrays.
        overwrite: Boolean. Whether to replace an existing folder. Defaults to `False`.

    Raises:
        ValueError: If `kinds` contains anything else.
    """
    from safetensors.numpy import save_file

    if len(kinds) != 1 or not isinstance(kinds[0], LoRA):
        raise ValueError(f"Only `LoRA` can be written for PEFT. Received: {kinds}")
    [kind], tensors, modules = kinds, {}, []
    for module, (_, key) in _places(encoder).items():
        for part, suffix in _SUFFIXES.items():
            if (array := arrays.pop(f"{key}_{suffix}", None)) is not None:
                end = part if suffix == "magnitude" else f"{part}.weight"
                tensors[f"base_model.model.{module}.{end}"] = array.T.copy()
                modules += [module] if suffix == "a" else []
    if arrays:
        raise ValueError(f"These changes have no place in the model of Transformers. Received: {list(arrays)[:3]}")
    config = {
        **_FIXED,
        "r": kind.rank,
        "lora_alpha": kind.scale * kind.rank**0.5 if kind.rank_stabilized else kind.scale * kind.rank,
        "lora_dropout": kind.dropout,
        "use_rslora": kind.rank_stabilized,
        "use_dora": kind.magnitude,
        "target_modules": modules,
        "fan_in_fan_out": "attn.c_attn" in " ".join(modules),
        "inference_mode": True,
        "init_lora_weights": True,
        "task_type": None,
        "base_model_name_or_path": None,
    }
    with atomic_folder(folder, overwrite) as temporary:
        (temporary / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
        save_file(tensors, temporary / "adapter_model.safetensors", {"format": "pt"})


def _places(encoder):
    """Returns a dict from modules of Transformers to `(path of the target, name of its weights)`."""
    if not isinstance(encoder, TransformerStack):
        raise ValueError(f"Folders of PEFT need an encoder of this library. Received: {type(encoder).__name__}")
    names, found = checkpoint_functions["tensor_names"](encoder), {}
    for block in blocks_of(encoder):
        for target, (parent, attribute, _) in dense_targets(block).items():
            tensors = names[id(getattr(parent, attribute).kernel)]
            key = f"{block.name}.{parent.name}.{attribute}/{target}"
            parts = ("query", "key", "value")
            if target in parts and len(tensors) == 3:
                name = tensors[parts.index(target)]
            elif target not in parts and len(tensors) == 1:
                [name] = tensors
            else:
                continue
            found[name.removesuffix(".weight")] = (f"{block.name}.{target}", key)
    return found
