"""PEFT folders with LoRA or IA3, which contain `adapter_config.json` and `adapter_model.safetensors`."""

import dataclasses
import functools
import json
import logging
import re

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.bitfit import LayerCopies, layers_of, own_weights, place_of
from keras_transfer.adaptation.adapters.kind import kinds_of_peft
from keras_transfer.adaptation.adapters.lora import changed_weight
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
    kind, found = kinds_of_peft()[config["peft_type"]].from_peft(config, inside, folder)
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
        if kind in kinds_of_peft():
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
    if kind not in kinds_of_peft():
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
    rule = (
        "Only a single `LoRA` or `IA3`, with `LayerCopies` or without, can be written for PEFT. Use "
        "`format='keras_transfer'` for other kinds."
    )
    expect(len(kinds) == 1 and kinds[0].peft_type is not None, rule, kinds=kinds)
    [kind], modules = kinds, modules_of(encoder)
    prefix, tensors, task_type, metadata = "", {}, None, {"format": "pt"}
    if model is not encoder:
        prefix, task_type = architecture_for(encoder).prefix, _TASK_TYPES.get(model.checkpoint_head.name)
        tensors = {} if model.head_is_pretrained else _written_head(model, task_type, head)
        if names := head_settings(model).get("label_names"):
            metadata["label_names"] = json.dumps(names)
    added, targets, used, own = kind.to_peft(modules, arrays, prefix)
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
        "peft_type": kind.peft_type,
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
