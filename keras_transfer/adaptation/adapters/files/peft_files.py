"""PEFT folders with LoRA or IA3, which contain `adapter_config.json` and `adapter_model.safetensors`."""

import contextlib
import json
import logging
import re

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.files.peft_ia3 import read_ia3, written_ia3
from keras_transfer.adaptation.adapters.files.peft_lora import read_lora, written_lora
from keras_transfer.adaptation.adapters.files.peft_modules import modules_of
from keras_transfer.adaptation.adapters.files.settings import check_head_settings, head_settings
from keras_transfer.adaptation.adapters.kinds import IA3, LoRA
from keras_transfer.checkpoints.sources import head_entries, head_prefixes
from keras_transfer.files import atomic_folder

log = logging.getLogger("keras_transfer")

_START = "base_model.model."
_NAME = re.compile(r"(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_magnitude_vector|ia3_l)(\.default)?(\.weight)?$")
_SAVED = re.compile(r"\.modules_to_save(\.default)?(?=\.)")  # Older versions of PEFT have this in tensor names.
# Maps the names of kinds in PEFT to the kinds, with functions that read and write them.
_KINDS = {"LORA": (LoRA, read_lora, written_lora), "IA3": (IA3, read_ia3, written_ia3)}
# Only these values of these keys of adapter_config.json can be loaded.
_FIXED = {"bias": "none", "lora_bias": False}
_OTHER_KINDS = {
    "PREFIX_TUNING": ("a prefix", "prefix"),
    "PROMPT_TUNING": ("a prompt", "prompt"),
    "P_TUNING": ("a prompt with an encoder", "prompt"),
    "MULTITASK_PROMPT_TUNING": ("prompts of several tasks", "prompt"),
    "ADALORA": ("LoRA with adaptive ranks", "lora"),
}
# Maps the head of a task to the type of the task in PEFT.
_TASK_TYPES = {
    "classifier": "SEQ_CLS",
    "tokens": "TOKEN_CLS",
    "span": "QUESTION_ANS",
    "causal_lm": "CAUSAL_LM",
    "seq2seq": "SEQ_2_SEQ_LM",
}


def read(model, encoder, folder):
    """Returns the kinds of adapters in a folder, and their tensors under the names that `save_adapters` uses.

    If the folder has a head and the model is a task, the tensors include the head.

    Args:
        model: Task to which they will be added, or `encoder`.
        encoder: `TransformerStack` or `EncoderDecoder`. The encoder of the model.
        folder: `pathlib.Path`.

    Raises:
        ValueError: If the folder cannot be read, or contains anything other than LoRA or IA3 for this encoder and a
            head for this task.
    """
    config, tensors, names = _read_files(folder)
    modules, matrices, others = modules_of(encoder), {}, {}
    for name, tensor in tensors.items():
        plain = name.removeprefix(_START)
        if match := _NAME.match(plain):
            module = next((key for key in modules if f".{match['module']}".endswith(f".{key}")), None)
            if module is None:
                raise ValueError(_does_not_fit(folder, encoder, name))
            matrices.setdefault((module, match["module"]), {})[match["part"]] = tensor
        else:
            others[_SAVED.sub("", plain)] = tensor
    kind, found = _KINDS[config["peft_type"]][1](config, modules, matrices, folder)
    _, prefixes = head_prefixes(encoder)
    for name in others:
        if not name.startswith(prefixes):
            raise ValueError(_does_not_fit(folder, encoder, name))
    if others and model is not encoder:
        if model.head_is_pretrained:
            raise ValueError(
                f"The head of a `{type(model).__name__}` comes from its checkpoint, so {folder} must not contain one. "
                f"To load only the adapters, pass `model.encoder`. Received: {sorted(others)[:3]}"
            )
        found |= _read_head(model, config, others, names, folder)
    return [kind], found


@contextlib.contextmanager
def _errors_of_files(folder):
    """Turns every error into one that says which files a PEFT folder must have."""
    try:
        yield
    except Exception as error:  # A missing or damaged file raises many types of errors.
        raise ValueError(
            f"{folder} must be a PEFT folder, with adapter_config.json and adapter_model.safetensors. "
            f"Received: {type(error).__name__}: {error}"
        ) from error


def _read_files(folder):
    """Returns the configuration of a folder, its tensors, and the label names or `None`."""
    from safetensors import safe_open

    with _errors_of_files(folder):
        config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        kind = str(config["peft_type"])
    if kind not in _KINDS:
        what, ours = _OTHER_KINDS.get(kind, (f"adapters of the kind {kind}", None))
        advice = "" if ours is None else f" Train new adapters with `add_adapters(model, {ours!r})` instead."
        raise ValueError(
            f"Only PEFT folders with LoRA or IA3 can be loaded. This folder contains {what}.{advice} "
            f"Received: peft_type={kind!r} in {folder}"
        )
    with _errors_of_files(folder):
        with safe_open(str(folder / "adapter_model.safetensors"), "np") as file:
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
            names = json.loads((file.metadata() or {}).get("label_names", "null"))
        if kind == "LORA":
            config["r"], config["lora_alpha"]
    if wrong := {key: config[key] for key, value in _FIXED.items() if (config.get(key) or value) != value}:
        raise ValueError(
            f"Only LoRA without bias training can be loaded. Train the adapters in PEFT with {_FIXED}. "
            f"Received: {wrong} in {folder}"
        )
    start = str(config.get("init_lora_weights", True)).lower()
    if start not in ("true", "false", "gaussian", "eva", "orthogonal"):
        raise ValueError(
            "`init_lora_weights` must not change the encoder's weights. Convert the folder with PEFT. "
            f"Received: {start!r} in {folder}"
        )
    return config, tensors, names


def _does_not_fit(folder, encoder, name):
    return f"{folder} has a tensor that does not fit {type(encoder).__name__}. Received: {name!r}"


def _read_head(task, config, tensors, names, folder):
    """Returns the head tensors of a task. Weights that the folder lacks keep their values, with a warning."""
    given, own = config.get("task_type"), _TASK_TYPES.get(task.checkpoint_head.name)
    if given in _TASK_TYPES.values() and given != own:
        raise ValueError(
            f"The folder has a head for a different task from a `{type(task).__name__}`, which has the type {own!r}. "
            f"To load only the adapters, pass `model.encoder`. Received: task_type={given!r} in {folder}"
        )
    advice = "Create the task with this argument, or pass `model.encoder` to load only the adapters."
    entries = head_entries(task, "loaded from a PEFT folder", advice)
    if names is not None:
        check_head_settings({"label_names": names}, task, folder)
    found, kept, known = {}, [], set()
    for entry in entries:
        known |= set(entry.names)
        missing = [name for name in entry.names if name not in tensors]
        kept += missing
        values = [ops.convert_to_numpy(variable) for variable in entry.variables]
        if not missing:
            shapes = entry.shapes()
            if wrong := [name for name in entry.names if tensors[name].shape != shapes[name]]:
                raise ValueError(
                    f"The head of {folder} must have the same shapes as the task's, so the same number of labels. "
                    f"Received: {wrong[0]!r} of shape {tensors[wrong[0]].shape} instead of {shapes[wrong[0]]}"
                )
            values = entry.arrays([np.asarray(tensors[name], "float32") for name in entry.names])
        found |= {f"head/{variable.path}": value for variable, value in zip(entry.variables, values)}
    if unknown := [name for name in tensors if name not in known]:
        raise ValueError(f"{folder} has a head that a `{type(task).__name__}` does not have. Received: {unknown[:3]}")
    if kept:
        log.warning("%s does not contain all weights of the head. These keep the model's values: %s", folder, kept)
    return found


def write(model, encoder, folder, kinds, arrays, head, overwrite=False):
    """Writes a folder that PEFT can load into the same encoder in Transformers.

    For a task, the folder is for the Transformers model with the same head, and contains the head.

    Args:
        model: Task with the adapters, or `encoder`.
        encoder: `TransformerStack` or `EncoderDecoder` with the adapters.
        folder: Path to write.
        kinds: List of kinds. It must contain a single `LoRA` or `IA3`.
        arrays: Dict from the names of `adapter_weights` to arrays.
        head: Dict from the ids of the head weights to their arrays.
        overwrite: Boolean. Whether to replace an existing folder. Defaults to `False`.

    Raises:
        ValueError: If `kinds` contains anything else, or if Transformers has a different head.
    """
    from safetensors.numpy import save_file

    found = [name for name, (cls, *_) in _KINDS.items() if len(kinds) == 1 and isinstance(kinds[0], cls)]
    if not found:
        raise ValueError(
            "Only a single `LoRA` or `IA3` can be written for PEFT. Use `format='keras_transfer'` for other kinds. "
            f"Received: {kinds}"
        )
    [kind], [peft_type], modules = kinds, found, modules_of(encoder)
    prefix, tensors, task_type, metadata = "", {}, None, {"format": "pt"}
    if model is not encoder:
        prefix, task_type = head_prefixes(encoder)[0], _TASK_TYPES.get(model.checkpoint_head.name)
        tensors = {} if model.head_is_pretrained else _written_head(model, task_type, head)
        if names := head_settings(model).get("label_names"):
            metadata["label_names"] = json.dumps(names)
    saved = sorted({name.partition(".")[0] for name in tensors})
    added, targets, used, own = _KINDS[peft_type][2](kind, modules, arrays, prefix)
    if unused := sorted(arrays.keys() - used):
        raise ValueError(
            "Transformers has no module for these adapter weights. Save them with `format='keras_transfer'`. "
            f"Received: {unused[:3]}"
        )
    config = {
        "peft_type": peft_type,
        "target_modules": targets,
        "modules_to_save": saved or None,
        "fan_in_fan_out": any(".attn.c_" in module or ".mlp.c_" in module for module in targets),
        "inference_mode": True,
        "task_type": task_type,
        "base_model_name_or_path": None,
        **own,
    }
    with atomic_folder(folder, overwrite) as temporary:
        (temporary / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
        tensors = {f"{_START}{name}": tensor for name, tensor in {**tensors, **added}.items()}
        save_file(tensors, temporary / "adapter_model.safetensors", metadata)


def _written_head(task, task_type, head):
    """Returns the head tensors of a task by their names in Transformers."""
    advice = "Pass `model.encoder` to write only the adapters, which PEFT then loads into `AutoModel`."
    if task_type is None:
        raise ValueError(
            f"The head of a {type(task).__name__} cannot be written for PEFT. {advice} "
            f"Received: {type(task).__name__} with a {type(task.encoder).__name__}"
        )
    tensors = {}
    for entry in head_entries(task, "written for PEFT", advice):
        tensors |= entry.tensors(lambda variable: head[id(variable)])
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
