"""PEFT folders with LoRA, which contain `adapter_config.json` and `adapter_model.safetensors`."""

import json
import logging
import re

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.files.peft_modules import modules_of
from keras_transfer.adaptation.adapters.files.settings import check_head_settings, head_settings
from keras_transfer.adaptation.adapters.kinds import LoRA
from keras_transfer.checkpoints.sources import head_entries, head_prefixes
from keras_transfer.files import atomic_folder

log = logging.getLogger("keras_transfer")

_START = "base_model.model."
_NAME = re.compile(r"(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_magnitude_vector)(\.default)?(\.weight)?$")
_SAVED = re.compile(r"\.modules_to_save(\.default)?(?=\.)")  # In the names of older versions of PEFT.
_PARTS = {"lora_A": "a", "lora_B": "b", "lora_magnitude_vector": "magnitude"}
# Keys of adapter_config.json with the only values that can be loaded.
_FIXED = {"bias": "none", "lora_bias": False}
_OTHER_KINDS = {
    "IA3": ("IA3", "ia3"),
    "PREFIX_TUNING": ("a prefix", "prefix"),
    "PROMPT_TUNING": ("a prompt", "prompt"),
    "P_TUNING": ("a prompt with an encoder", "prompt"),
    "MULTITASK_PROMPT_TUNING": ("prompts of several tasks", "prompt"),
    "ADALORA": ("LoRA with adaptive ranks", "lora"),
}
# Maps the head of a task to the type of the task in PEFT.
_TASK_TYPES = {"classifier": "SEQ_CLS", "tokens": "TOKEN_CLS", "span": "QUESTION_ANS", "causal_lm": "CAUSAL_LM"}


def read(model, encoder, folder):
    """Returns the kinds of adapters in a folder, and their tensors under the names that `save_adapters` uses.

    The tensors include those of the head if the folder has one and the model is a task.

    Args:
        model: Task to which they will be added, or `encoder`.
        encoder: `TransformerStack`. The encoder of the model.
        folder: `pathlib.Path`.

    Raises:
        ValueError: If the folder cannot be read, or contains anything other than LoRA for this encoder and a head for
            this task.
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
    kind, found = _lora(config, modules, matrices, folder)
    _, prefixes = head_prefixes(encoder)
    for name in others:
        if not name.startswith(prefixes):
            raise ValueError(_does_not_fit(folder, encoder, name))
    if others and model is not encoder:
        found |= _read_head(model, config, others, names, folder)
    return [kind], found


def _read_files(folder):
    """Returns the configuration of a folder, its tensors, and the names of the labels or None."""
    from safetensors import safe_open

    try:
        config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        kind = str(config["peft_type"])
        if kind != "LORA":
            what, ours = _OTHER_KINDS.get(kind, (f"adapters of the kind {kind}", None))
            advice = "" if ours is None else f" Train new adapters with `add_adapters(model, {ours!r})` instead."
            raise ValueError(
                f"Only folders of PEFT with LoRA can be loaded. This folder contains {what}.{advice} "
                f"Received: peft_type={kind!r} in {folder}"
            )
        with safe_open(str(folder / "adapter_model.safetensors"), "np") as file:
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
            names = json.loads((file.metadata() or {}).get("label_names", "null"))
        config["r"], config["lora_alpha"]
    except Exception as error:  # a missing or damaged file
        if isinstance(error, ValueError) and "peft_type" in str(error):
            raise
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
    return config, tensors, names


def _does_not_fit(folder, encoder, name):
    return f"{folder} has a tensor that does not fit {type(encoder).__name__}. Received: {name!r}"


def _lora(config, modules, matrices, folder):
    """Returns a `LoRA` that computes the same as that of a folder, and its tensors.

    Ranks and scales that differ between modules become one rank, the largest, and one scale: zeros fill the smaller
    matrices, and the scales of the others become part of their second matrices.

    Args:
        config: Dict. The configuration.
        modules: Dict. See `modules_of`.
        matrices: Dict from `(module, its full name)` to dicts of its tensors.
        folder: Path in errors.
    """
    stabilized, magnitude = bool(config.get("use_rslora")), bool(config.get("use_dora"))
    rank = max((len(parts["lora_A"]) for parts in matrices.values() if "lora_A" in parts), default=config["r"])
    alpha = config["lora_alpha"]
    if rank != config["r"]:
        alpha = alpha * (rank / config["r"]) ** (0.5 if stabilized else 1)
    scale, targets, found = LoRA(rank, alpha=alpha, rank_stabilized=stabilized).scale, set(), {}
    for (module, name), parts in matrices.items():
        if not {"lora_A", "lora_B"} <= set(parts) or (len(parts) == 3) != magnitude:
            raise ValueError(f"{folder} must have all tensors of each module. Received: {sorted(parts)} of {name!r}")
        a, b = parts["lora_A"].T, parts["lora_B"].T
        own_rank = a.shape[1]
        own_alpha = _of_pattern(config, "alpha_pattern", name, config["lora_alpha"])
        own_scale = LoRA(own_rank, alpha=own_alpha, rank_stabilized=stabilized).scale
        if abs(own_scale / scale - 1) > 1e-12:
            b = (b * (own_scale / scale)).astype(b.dtype)
        if own_rank < rank:
            a, b = np.pad(a, ((0, 0), (0, rank - own_rank))), np.pad(b, ((0, rank - own_rank), (0, 0)))
        for segment in modules[module]:
            target, columns = segment.target, slice(segment.offset, segment.offset + segment.size)
            targets.add(f"{segment.block}.{target}")
            found[f"adapter/{segment.layer}/{target}_a"] = a
            found[f"adapter/{segment.layer}/{target}_b"] = b[:, columns]
            if magnitude:
                found[f"adapter/{segment.layer}/{target}_magnitude"] = parts["lora_magnitude_vector"].ravel()[columns]
    if not targets:
        raise ValueError(f"The folder must contain LoRA for at least one module. Received: no such tensors in {folder}")
    return LoRA(
        rank,
        alpha=alpha,
        targets=sorted(targets),
        dropout=config.get("lora_dropout", 0.0),
        rank_stabilized=stabilized,
        magnitude=magnitude,
    ), found


def _of_pattern(config, key, module, default):
    """Returns the value of a module in a dict of PEFT from ends of names, or regular expressions, to values."""
    patterns = config.get(key) or {}
    return next((value for end, value in patterns.items() if re.match(rf"(.*\.)?({end})$", module)), default)


def _read_head(task, config, tensors, names, folder):
    """Returns the tensors of the head of a task. Weights that the folder lacks keep their values, with a warning."""
    given, own = config.get("task_type"), _TASK_TYPES.get(task.checkpoint_head.name)
    if given in _TASK_TYPES.values() and given != own:
        raise ValueError(
            f"The folder has a head for another task than a `{type(task).__name__}`, which has the type {own!r}. To "
            f"load only LoRA, pass `model.encoder`. Received: task_type={given!r} in {folder}"
        )
    advice = "Create the task with this argument, or pass `model.encoder` to load only LoRA."
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
                    f"The head of {folder} must have the shapes of the task's, such as the same number of labels. "
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
    """Writes a folder that PEFT can load over the same encoder of Transformers.

    For a task, the folder is for the model of Transformers with the same head, and contains the head.

    Args:
        model: Task with the adapters, or `encoder`.
        encoder: `TransformerStack` with the adapters.
        folder: Path to write.
        kinds: List of kinds. It must contain a single `LoRA`.
        arrays: Dict from the names of `adapter_weights` to arrays.
        head: Dict from the ids of the weights of the head to their arrays.
        overwrite: Boolean. Whether to replace an existing folder. Defaults to `False`.

    Raises:
        ValueError: If `kinds` contains anything else, or if the head differs from that of Transformers.
    """
    from safetensors.numpy import save_file

    if len(kinds) != 1 or not isinstance(kinds[0], LoRA):
        raise ValueError(f"Only `LoRA` can be written for PEFT. Received: {kinds}")
    [kind], tensors, ranks, used = kinds, {}, {}, set()
    modules = modules_of(encoder)
    prefix, saved, task_type, metadata = "", [], None, {"format": "pt"}
    if model is not encoder:
        prefix, task_type = head_prefixes(encoder)[0], _TASK_TYPES.get(model.checkpoint_head.name)
        written = _written_head(model, task_type, head)
        saved = sorted({name.partition(".")[0] for name in written})
        tensors |= {f"{_START}{name}": tensor for name, tensor in written.items()}
        if names := head_settings(model).get("label_names"):
            metadata["label_names"] = json.dumps(names)
    for name, segments in modules.items():
        pieces = [piece for segment in segments for piece in segment.pieces(arrays)]
        if not pieces:
            continue
        used |= {piece.key for piece in pieces}
        module = f"{prefix}{name}"
        a, b = _joined(pieces, sum(segment.size for segment in segments))
        ranks[module] = a.shape[1]
        tensors[f"{_START}{module}.lora_A.weight"] = a.T.copy()
        tensors[f"{_START}{module}.lora_B.weight"] = b.T.copy()
        if kind.magnitude:
            lengths = np.concatenate([segment.lengths(arrays) for segment in segments])
            tensors[f"{_START}{module}.lora_magnitude_vector"] = lengths
    keys = {key.removesuffix("_a") for key in arrays if key.endswith("_a")}
    if keys - used:
        raise ValueError(
            f"These changes have no place in the model of Transformers. Received: {sorted(keys - used)[:3]}"
        )
    others = {module: rank for module, rank in ranks.items() if rank != kind.rank}
    alphas = {rank: kind.scale * (rank**0.5 if kind.rank_stabilized else rank) for rank in {kind.rank, *ranks.values()}}
    config = {
        **_FIXED,
        "peft_type": "LORA",
        "r": kind.rank,
        "lora_alpha": alphas[kind.rank],
        "rank_pattern": others,
        "alpha_pattern": {module: alphas[rank] for module, rank in others.items()},
        "lora_dropout": kind.dropout,
        "use_rslora": kind.rank_stabilized,
        "use_dora": kind.magnitude,
        "target_modules": list(ranks),
        "modules_to_save": saved or None,
        "fan_in_fan_out": any(".attn.c_" in module or ".mlp.c_" in module for module in ranks),
        "inference_mode": True,
        "init_lora_weights": True,
        "task_type": task_type,
        "base_model_name_or_path": None,
    }
    with atomic_folder(folder, overwrite) as temporary:
        (temporary / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
        save_file(tensors, temporary / "adapter_model.safetensors", metadata)


def _written_head(task, task_type, head):
    """Returns the tensors of the head of a task by their names in Transformers."""
    advice = "Pass `model.encoder` to write only LoRA, which PEFT then loads over `AutoModel`."
    if task_type is None:
        raise ValueError(
            f"The head of a {type(task).__name__} cannot be written for PEFT. {advice} "
            f"Received: {type(task).__name__} with a {type(task.encoder).__name__}"
        )
    tensors = {}
    for entry in head_entries(task, "written for PEFT", advice):
        tensors |= entry.tensors(lambda variable: head[id(variable)])
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def _joined(pieces, size):
    """Returns the two matrices of a module from those of its parts. Parts with the same first matrix share it."""
    firsts = []
    for piece in pieces:
        if not any(np.array_equal(piece.a, a) for a in firsts):
            firsts.append(piece.a)
    starts = np.cumsum([0, *(a.shape[1] for a in firsts)])
    b = np.zeros((starts[-1], size), "float32")
    for piece in pieces:
        start = starts[next(i for i, a in enumerate(firsts) if np.array_equal(piece.a, a))]
        b[start : start + len(piece.b), piece.offset : piece.offset + piece.b.shape[1]] = piece.b
    return np.concatenate(firsts, axis=1), b
