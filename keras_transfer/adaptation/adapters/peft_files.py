"""PEFT folders with LoRA or IA3, which contain `adapter_config.json` and `adapter_model.safetensors`."""

import dataclasses
import functools
import json
import logging
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.bitfit import LayerCopies, layers_of, own_weights, place_of
from keras_transfer.adaptation.adapters.ia3 import IA3
from keras_transfer.adaptation.adapters.lora import LoRA
from keras_transfer.adaptation.adapters.places import block_names, blocks_of, dense_targets
from keras_transfer.adaptation.adapters.settings import check_head_settings, head_settings
from keras_transfer.checkpoints import architecture_for, encoder_entries, head_entries, tensor_names
from keras_transfer.core.expect import expect
from keras_transfer.core.files import atomic_folder
from keras_transfer.encoders import EncoderDecoder, TransformerStack

log = logging.getLogger("keras_transfer")
_START = "base_model.model."

_NAME = re.compile(
    r"(?P<module>.+)\.(?P<part>lora_(embedding_)?[AB]|lora_magnitude_vector|ia3_l)(\.default)?(\.weight)?$"
)

_SAVED = re.compile(r"\.modules_to_save(\.default)?(?=\.)")  # Older versions of PEFT have this in tensor names.
_TOKENS = ".token_adapter.trainable_tokens_delta"

# Only these values of these keys of adapter_config.json can be loaded. Others change what the adapters compute.
_FIXED = {"bias": "none"} | dict.fromkeys(("lora_bias", "use_qalora"), False)

_FIXED |= dict.fromkeys(("alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication"))
_FIXED |= dict.fromkeys(("monteclora_config", "target_parameters", "use_bdlora"))

_OTHER_FORMATS = {
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


class Format(NamedTuple):
    """How adapters of one kind are in a PEFT folder.

    Attributes:
        kind: Class of the adapters, `LoRA` or `IA3`.
        read: Function of the configuration, the tensors of modules and the folder that returns the adapters and their
            tensors.
        write: Function of the adapters, the modules, their arrays and a prefix that returns tensors, the names of
            modules, the keys of arrays and settings.
    """

    kind: type
    read: Callable
    write: Callable


def read(model, encoder, folder):
    """Returns the kinds of adapters in a folder, and their tensors under the names that `save_adapters` uses.

    If the folder has a head and the model is a task, the tensors include the head.
    """
    config, tensors, names = _read_files(folder)
    parts_of, changes, inside, modules = {}, {}, {}, modules_of(encoder)
    for name, tensor in tensors.items():
        name = name.removeprefix(_START)
        if match := _NAME.match(name):
            parts_of.setdefault(match["module"], {})[match["part"]] = tensor
        elif name.endswith(_TOKENS):
            module = name.removesuffix(_TOKENS)
            changes[f"{module}.weight"] = functools.partial(_with_rows, config, module, tensor)
        else:
            changes[_SAVED.sub("", name)] = lambda _, tensor=tensor: tensor
    for name, parts in parts_of.items():
        module = next((key for key in modules if f".{name}".endswith(f".{key}")), None)
        if module is None:  # LoRA may be outside of the blocks.
            changes[f"{name}.weight"] = functools.partial(changed_weight, config, name, parts)
        else:
            inside[name] = modules[module], parts
    architecture = architecture_for(encoder)
    prefixes = sum(architecture.head_prefixes.values(), ())
    of_head = {name: changes.pop(name) for name in list(changes) if name.startswith(prefixes)}
    changes = {architecture.plain_name(name): change for name, change in changes.items()}
    places, copies = _copies(encoder, changes, folder)
    kind, found = _FORMATS[config["peft_type"]].read(config, inside, folder)
    kinds, found = [kind, *([LayerCopies(places)] if places else [])], found | copies
    if of_head and model is not encoder:
        rule = (
            f"The head of a `{type(model).__name__}` comes from its checkpoint, so {folder} must not contain one. "
            "To load only the adapters, pass `model.encoder`."
        )
        expect(not model.head_is_pretrained, rule, others=sorted(of_head)[:3])
        # LoRA changes the weight that the task has.
        whole = of_head.keys() - {f"{name}.weight" for name in parts_of}
        found |= _read_head(model, config, of_head, whole, names, folder)
    return kinds, found


def _with_rows(config, module, values, table):
    """Returns the table of an embedding with the values of the tokens that PEFT trained."""
    rows, table = config["trainable_token_indices"], table.copy()
    if isinstance(rows, dict):
        rows = next(rows for end, rows in rows.items() if f".{module}".endswith(f".{end}"))
    table[rows] = values
    return table


def _apply(changes, entries, expected):
    """Returns the changed values of the variables of entries, by their ids, and the names that no entry has."""
    values, unknown = {}, set(changes)
    for entry in entries:
        if not (names := unknown & set(entry.names)):
            continue
        tensors, unknown = entry.tensors(), unknown - names
        for name in names:
            shape = tensors[name].shape
            try:
                changed = changes[name](tensors[name])
                received = f"shape {changed.shape}"
            except (IndexError, KeyError, ValueError) as error:  # LoRA has another size or kind.
                changed, received = None, f"{type(error).__name__}: {error}"
            if changed is None or changed.shape != shape:
                raise ValueError(f"{expected} Received: {name!r} of {received} instead of shape {shape}")
            tensors[name] = np.asarray(changed, "float32")
        values |= dict(zip(map(id, entry.variables), entry.arrays(list(tensors.values()))))
    return values, sorted(unknown)


def _copies(encoder, changes, folder):
    """Returns the layers of an encoder that a folder changes as a whole, and the tensors of their `LayerCopies`."""
    entries, layers = _whole_layers(encoder)
    expected = f"{folder} has a tensor that does not fit {type(encoder).__name__}."
    values, unknown = _apply(changes, entries, expected)
    expect(not unknown, expected, tensors=unknown[:3])
    places = [place for place, weights in layers.items() if any(id(weight) in values for weight in weights.values())]
    weights = {key: weight for place in places for key, weight in layers[place].items()}
    return places, {
        f"adapter/{key}": values[id(weight)] if id(weight) in values else ops.convert_to_numpy(weight)
        for key, weight in weights.items()
    }


def _whole_layers(encoder):
    """Returns the entries of an encoder, and a dict from the paths of layers to their weights by the keys of copies."""
    active = encoder.active_adapters
    encoder.attached.activate(())  # The layers compute with their copies while these are active.
    entries = encoder_entries(encoder)
    layers = {place_of(layer): own_weights(layer) for layer in layers_of(encoder)}
    encoder.attached.activate(active)
    return entries, {
        place: {f"{place}.weights/{name.strip('_')}": weight for name, weight in weights.items()}
        for place, weights in layers.items()
    }


def _read_files(folder):
    """Returns the configuration of a folder, its tensors, and the label names or `None`."""
    from safetensors import safe_open

    try:
        config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        kind, tensors, names = str(config["peft_type"]), {}, None
        if kind in _FORMATS:
            with safe_open(str(folder / "adapter_model.safetensors"), "np") as file:
                tensors = {name: file.get_tensor(name) for name in list(file.keys())}
                names = json.loads((file.metadata() or {}).get("label_names", "null"))
        if kind == "LORA":
            config["r"], config["lora_alpha"]
    except Exception as error:  # A missing or damaged file raises many types of errors.
        raise ValueError(
            f"{folder} must be a PEFT folder, with adapter_config.json and adapter_model.safetensors. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    if kind not in _FORMATS:
        what, ours = _OTHER_FORMATS.get(kind, (f"adapters of the kind {kind}", None))
        advice = "" if ours is None else f" Train new adapters with `add_adapters(model, {ours!r})` instead."
        raise ValueError(
            f"Only PEFT folders with LoRA or IA3 can be loaded. This folder contains {what}.{advice} "
            f"Received: peft_type={kind!r} in {folder}"
        )
    if wrong := {key: config[key] for key, value in _FIXED.items() if (config.get(key) or value) != value}:
        raise ValueError(
            "These settings of PEFT are not supported. Train the adapters with "
            f"{ {key: _FIXED[key] for key in wrong} }. Received: {wrong} in {folder}"
        )
    start = str(config.get("init_lora_weights", True)).lower()
    rule = "`init_lora_weights` must not change the encoder's weights. Convert the folder with PEFT."
    expect(start in ("true", "false", "gaussian", "eva", "orthogonal"), rule, start=start, folder=folder)
    return config, tensors, names


def _read_head(task, config, changes, whole, names, folder):
    """Returns the head tensors of a task. Weights that are not `whole` in the folder keep their values as a base."""
    given, own = config.get("task_type"), _TASK_TYPES.get(task.checkpoint_head.name)
    rule = (
        f"The folder has a head for a different task from a `{type(task).__name__}`, which has the type {own!r}. "
        "To load only the adapters, pass `model.encoder`."
    )
    expect(given not in _TASK_TYPES.values() or given == own, rule, task_type=given, folder=folder)
    advice = "Create the task with this argument, or pass `model.encoder` to load only the adapters."
    entries = head_entries(task, "loaded from a PEFT folder", advice)
    if names is not None:
        check_head_settings({"label_names": names}, task, folder)
    expected = f"The head of {folder} must have the same shapes as the task's, so the same number of labels."
    values, unknown = _apply(changes, entries, expected)
    expect(not unknown, f"{folder} has a head that a `{type(task).__name__}` does not have.", unknown=unknown[:3])
    if kept := [name for entry in entries for name in entry.names if name not in whole]:
        log.warning("%s does not contain all weights of the head. These keep the model's values: %s", folder, kept)
    weights = [weight for entry in entries for weight in entry.variables]
    values = {**{id(weight): ops.convert_to_numpy(weight) for weight in weights}, **values}
    return {f"head/{weight.path}": values[id(weight)] for weight in weights}


def write(model, encoder, folder, kinds, arrays, head, overwrite=False):
    """Writes a folder that PEFT can load into the same encoder in Transformers.

    For a task, the folder is for the Transformers model with the same head, and contains the head.

    Args:
        kinds: List of kinds. It must contain a single `LoRA` or `IA3`, and may contain `LayerCopies`.
        arrays: Dict from the names of `adapter_weights` to arrays.
        head: Dict from the ids of the head weights to their arrays.
    """
    from safetensors.numpy import save_file

    kinds = [kind for kind in kinds if not isinstance(kind, LayerCopies)]
    found = [name for name, each in _FORMATS.items() if len(kinds) == 1 and isinstance(kinds[0], each.kind)]
    rule = (
        "Only a single `LoRA` or `IA3`, with `LayerCopies` or without, can be written for PEFT. Use "
        "`format='keras_transfer'` for other kinds."
    )
    expect(found, rule, kinds=kinds)
    [kind], [peft_type], modules = kinds, found, modules_of(encoder)
    prefix, tensors, task_type, metadata = "", {}, None, {"format": "pt"}
    if model is not encoder:
        prefix, task_type = architecture_for(encoder).prefix, _TASK_TYPES.get(model.checkpoint_head.name)
        tensors = {} if model.head_is_pretrained else _written_head(model, task_type, head)
        if names := head_settings(model).get("label_names"):
            metadata["label_names"] = json.dumps(names)
    added, targets, used, own = _FORMATS[peft_type].write(kind, modules, arrays, prefix)
    copied, keys = _written_copies(encoder, arrays, prefix)
    saved = sorted({*(name.partition(".")[0] for name in tensors), *(name.rpartition(".")[0] for name in copied)})
    both = sorted(set(saved).intersection(targets))
    rule = (
        "PEFT either saves a module as a whole or adds adapters to it. Use `format='keras_transfer'`, or save the "
        "whole model after `merge_adapters`."
    )
    expect(not both, rule, both=both[:3])
    unused = sorted(arrays.keys() - used - keys)
    rule = "Transformers has no module for these adapter weights. Save them with `format='keras_transfer'`."
    expect(not unused, rule, unused=unused[:3])
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
        tensors = {f"{_START}{name}": tensor for name, tensor in {**tensors, **added, **copied}.items()}
        save_file(tensors, temporary / "adapter_model.safetensors", metadata)


def _written_copies(encoder, arrays, prefix):
    """Returns the tensors of the modules that `LayerCopies` have changed by their names in PEFT, and all keys."""
    entries, layers = _whole_layers(encoder)
    keys = {id(weight): key for weights in layers.values() for key, weight in weights.items() if key in arrays}
    tensors, modules = {}, set()
    for entry in entries:
        if all(id(variable) in keys for variable in entry.variables):
            found = entry.tensors(lambda variable: arrays[keys[id(variable)]])
            tensors |= found
            modules |= {name.rpartition(".")[0] for name, own in entry.tensors().items() if (found[name] != own).any()}
    changed = {name: tensor for name, tensor in tensors.items() if name.rpartition(".")[0] in modules}
    return {f"{prefix}{name}": np.ascontiguousarray(tensor) for name, tensor in changed.items()}, set(keys.values())


def _written_head(task, task_type, head):
    """Returns the head tensors of a task by their names in Transformers."""
    advice = "Pass `model.encoder` to write only the adapters, which PEFT then loads into `AutoModel`."
    rule = f"The head of a {type(task).__name__} cannot be written for PEFT. {advice}"
    expect(task_type is not None, rule, task=task, encoder=task.encoder)
    tensors = {}
    for entry in head_entries(task, "written for PEFT", advice):
        tensors |= entry.tensors(lambda variable: head[id(variable)])
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def written_lora(kind, modules, arrays, prefix):
    """Returns the tensors of a `LoRA` for PEFT, the names of their modules, the keys written, and the settings.

    Args:
        modules: Dict that `modules_of` returns.
        arrays: Dict from the names of `adapter_weights` to arrays.
        prefix: String. Prefix of the module names in PEFT.
    """
    tensors, ranks, used = {}, {}, set()
    suffixes = ("_a", "_b", "_magnitude") if kind.magnitude else ("_a", "_b")
    for name, segments in modules.items():
        pieces = [piece for segment in segments for piece in segment.pieces(arrays, "_a")]
        if not pieces:
            continue
        used |= {f"{key}{suffix}" for key, _, _ in pieces for suffix in suffixes}
        # Targets with the same first matrix share it.
        firsts = {arrays[f"{key}_a"].tobytes(): arrays[f"{key}_a"] for key, _, _ in pieces}
        starts = np.cumsum([0, *(a.shape[1] for a in firsts.values())])
        b = np.zeros((starts[-1], sum(segment.size for segment in segments)), "float32")
        for key, columns, own in pieces:
            start, values = starts[list(firsts).index(arrays[f"{key}_a"].tobytes())], arrays[f"{key}_b"]
            b[start : start + len(values), columns] = values[:, own]
        module = f"{prefix}{name}"
        ranks[module] = len(b)
        tensors[f"{module}.lora_A.weight"] = np.concatenate([*firsts.values()], axis=1).T.copy()
        tensors[f"{module}.lora_B.weight"] = b.T.copy()
        if kind.magnitude:  # Columns that DoRA does not change keep their lengths.
            lengths = np.concatenate([np.linalg.norm(segment.kernel, axis=0) for segment in segments])
            for key, columns, own in pieces:
                lengths[columns] = arrays[f"{key}_magnitude"][own]
            tensors[f"{module}.lora_magnitude_vector"] = lengths
    others = {module: rank for module, rank in ranks.items() if rank != kind.rank}
    alphas = {rank: kind.scale * (rank**0.5 if kind.rank_stabilized else rank) for rank in {kind.rank, *ranks.values()}}
    settings = {
        "bias": "none",
        "lora_bias": False,
        "r": kind.rank,
        "lora_alpha": alphas[kind.rank],
        "rank_pattern": others,
        "alpha_pattern": {module: alphas[rank] for module, rank in others.items()},
        "lora_dropout": kind.dropout,
        "use_rslora": kind.rank_stabilized,
        "use_dora": kind.magnitude,
        "init_lora_weights": True,
    }
    return tensors, list(ranks), used, settings


def written_ia3(kind, modules, arrays, prefix):
    """Returns what `written_lora` does, for an `IA3`."""
    tensors, of_inputs, used = {}, [], set()
    for name, segments in modules.items():
        module, outputs = f"{prefix}{name}", [piece for segment in segments for piece in segment.pieces(arrays)]
        keys = [f"{segment.layer}/inputs" for segment in segments]
        inputs = [arrays[key] for key in keys if key in arrays]
        if inputs and (outputs or len(inputs) < len(keys) or any((other != inputs[0]).any() for other in inputs)):
            raise ValueError(
                "PEFT scales either the outputs or the inputs of a module. Use `format='keras_transfer'`. "
                f"Received: {kind} for the module {module!r}"
            )
        if inputs:
            of_inputs.append(module)
            tensors[f"{module}.ia3_l"] = np.array(inputs[0][None])
            used |= set(keys)
        elif outputs:
            values = np.ones(sum(segment.size for segment in segments), "float32")
            for key, columns, own in outputs:
                values[columns] = arrays[key][own]
            tensors[f"{module}.ia3_l"] = values[:, None]
            used |= {key for key, _, _ in outputs}
    targets = [name.removesuffix(".ia3_l") for name in tensors]
    return tensors, targets, used, {"feedforward_modules": of_inputs, "init_ia3_weights": True}


def read_lora(config, inside, folder):
    """Returns a `LoRA` that computes the same as the adapters in a folder, and its tensors.

    Ranks and scales that differ between modules become one rank, the largest, and one scale: smaller matrices are
    padded with zeros, and differing scales are multiplied into the second matrices.

    Args:
        inside: Dict from the names of modules in the blocks to their lists of `Segment`s and dicts of their tensors.
    """
    stabilized, magnitude = bool(config.get("use_rslora")), bool(config.get("use_dora"))
    rank = max((len(parts["lora_A"]) for _, parts in inside.values() if "lora_A" in parts), default=config["r"])
    alpha = config["lora_alpha"]
    if rank != config["r"]:
        alpha = alpha * (rank / config["r"]) ** (0.5 if stabilized else 1)
    options = {"alpha": alpha, "dropout": config.get("lora_dropout", 0.0), "rank_stabilized": stabilized}
    kind, targets, found = LoRA(rank, **options, magnitude=magnitude), set(), {}
    for name, (segments, parts) in inside.items():
        rule = f"{folder} must have all tensors of each module."
        has_all = {"lora_A", "lora_B"} <= set(parts) and (len(parts) == 3) == magnitude
        expect(has_all, rule, parts=sorted(parts), name=name)
        a, b = parts["lora_A"].T, parts["lora_B"].T
        own_rank = a.shape[1]
        own_scale = scale_of(config, name, own_rank)
        if abs(own_scale / kind.scale - 1) > 1e-12:
            b = (b * (own_scale / kind.scale)).astype(b.dtype)
        if own_rank < rank:
            a, b = np.pad(a, ((0, 0), (0, rank - own_rank))), np.pad(b, ((0, rank - own_rank), (0, 0)))
        for segment in segments:
            targets.add(segment.path)
            key = f"adapter/{segment.layer}/{segment.target}"
            found[f"{key}_a"], found[f"{key}_b"] = a, b[:, segment.columns]
            if magnitude:
                found[f"{key}_magnitude"] = parts["lora_magnitude_vector"].ravel()[segment.columns]
    expect(targets, "The folder must contain LoRA for at least one module.", folder=folder)
    return dataclasses.replace(kind, targets=sorted(targets)), found


def read_ia3(config, inside, folder):
    """Returns an `IA3` that computes the same as the adapters in a folder, and its tensors.

    The configuration is not used: the shapes of the scales show where they act.
    """
    targets, input_targets, found = set(), set(), {}
    for name, (segments, parts) in inside.items():
        rule = f"{folder} must have one matrix of scales for each module."
        expect(parts.keys() == {"ia3_l"} and parts["ia3_l"].ndim == 2, rule, parts=sorted(parts), name=name)
        values, of_inputs = parts["ia3_l"].ravel(), parts["ia3_l"].shape[0] == 1
        for segment in segments:
            rule = "The inputs of query, key and value cannot be scaled separately, because they share a dense layer."
            is_whole = segment.size == segment.dense.kernel.shape[-1]
            if of_inputs:
                expect(is_whole, rule, feedforward_module=name, folder=folder)
            (input_targets if of_inputs else targets).add(segment.path)
            what = "inputs" if of_inputs else segment.target
            found[f"adapter/{segment.layer}/{what}"] = values if of_inputs else values[segment.columns]
    expect(found, "The folder must contain IA3 for at least one module.", folder=folder)
    return IA3(sorted(targets), input_targets=sorted(input_targets)), found


_FORMATS = {"LORA": Format(LoRA, read_lora, written_lora), "IA3": Format(IA3, read_ia3, written_ia3)}


def scale_of(config, module, rank):
    """Returns the factor of LoRA in a module, whose alpha may differ: PEFT has a dict of endings or expressions."""
    patterns = (config.get("alpha_pattern") or {}).items()
    alpha = next((value for end, value in patterns if re.match(rf"(.*\.)?({end})$", module)), config["lora_alpha"])
    return LoRA(rank, alpha=alpha, rank_stabilized=bool(config.get("use_rslora"))).scale


def changed_weight(config, module, parts, weight):
    """Returns the weight of a Transformers module with LoRA or DoRA, or the table of an embedding with LoRA."""
    if "lora_embedding_A" in parts and len(parts) == 2:
        a, b = parts["lora_embedding_A"], parts["lora_embedding_B"]
        return weight + (b @ a).T * scale_of(config, module, len(a))
    a, b, lengths = parts["lora_A"], parts["lora_B"], parts.get("lora_magnitude_vector")
    changed = weight + b @ a * scale_of(config, module, len(a))
    return changed if lengths is None else changed * (lengths.ravel() / np.linalg.norm(changed, axis=1))[:, None]


@dataclasses.dataclass
class Segment:
    """Adjacent columns of a dense layer that a Transformers module contains.

    Attributes:
        place: String. Prefix of the paths of its targets: the name of the block, and of cross-attention.
        layer: String. Place of the dense layer, the prefix of the names of its adapter weights.
        parts: Dict from the names of all targets in the layer to `(start, size)`.
        start: Integer. First column in the layer.
        size: Integer. Number of columns.
        offset: Integer. First of these columns in the module.
    """

    place: str
    layer: str
    dense: object
    parts: dict
    start: int
    size: int
    offset: int

    @property
    def target(self):
        """String. Name of the target that has exactly these columns."""
        return next(name for name, part in self.parts.items() if part == (self.start, self.size))

    @property
    def path(self):
        """String. The path of this target in the form that `LoRA` and `IA3` expect."""
        return f"{self.place}.{self.target}"

    @property
    def columns(self):
        """Slice. The columns in the module."""
        return slice(self.offset, self.offset + self.size)

    @property
    def kernel(self):
        """Array. The columns of the kernel."""
        kernel = np.asarray(ops.convert_to_numpy(self.dense.kernel), "float32")
        return kernel[:, self.start : self.start + self.size]

    def pieces(self, arrays, suffix=""):
        """Yields `(key, columns of the module, columns of the target)` for targets with arrays in the segment."""
        for name, (first, size) in self.parts.items():
            low, high = max(first, self.start), min(first + size, self.start + self.size)
            key, shift = f"{self.layer}/{name}", self.offset - self.start
            if low < high and f"{key}{suffix}" in arrays:
                yield key, slice(shift + low, shift + high), slice(low - first, high - first)


def modules_of(encoder):
    """Returns a dict from Transformers modules, without their prefix in a model with a head, to lists of `Segment`s."""
    rule = "PEFT folders require an encoder of this library."
    expect(isinstance(encoder, (TransformerStack, EncoderDecoder)), rule, encoder=encoder)
    names, found, block_name = tensor_names(encoder), {}, block_names(encoder)
    for block in blocks_of(encoder):
        layers = {}
        for target, (parent, attribute, part) in dense_targets(block).items():
            around, _, target = f"{block_name[id(block)]}.{target}".rpartition(".")
            layer = f"{block.name}.{parent.name}.{attribute}"
            layers.setdefault(layer, (around, getattr(parent, attribute), {}))[2][target] = part
        for layer, (around, dense, parts) in layers.items():
            tensors = names[id(dense.kernel)]
            size = dense.kernel.shape[-1] // len(tensors)
            for i, name in enumerate(tensors):
                if not name.endswith(".weight"):
                    continue  # PEFT cannot target a single parameter, such as this one in XLNet.
                segments = found.setdefault(name.removesuffix(".weight"), [])
                offset = sum(segment.size for segment in segments)
                segments.append(Segment(around, layer, dense, parts, i * size, size, offset))
    return found
