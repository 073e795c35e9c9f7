"""The state of a run: reading it, comparing it with a training checkpoint, and restoring it."""

import hashlib
import logging
import random
import re

import keras
import numpy as np

from keras_transfer.batches import batches_of
from keras_transfer.keras_internals import layers_within
from keras_transfer.training.optimizers import build_optimizer
from keras_transfer.training.resume.dataset_state import restore_dataset, state_of_dataset

log = logging.getLogger("keras_transfer")

# Keras numbers names in each process, and the variables of an optimizer show what it was built for.
_NOT_COMPARED = {"name", "built_for"}
# The run compares dtypes and what trains separately. States of seeds are restored.
_NOT_OF_THE_MODEL = {"dtype", "trainable", "frozen", "seed", "build_config", "inbound_nodes", "checkpoint_settings"}
_LARGE = 200  # Longer lists and strings, such as vocabularies, are compared by their hashes.


# === Variables ===


def variables_of(model, *kinds):
    """Returns a dict from unique names to the variables of `"model"`, `"optimizer"` and `"metrics"`."""
    found = {}
    for kind in kinds:
        owner = model.optimizer if kind == "optimizer" else model
        variables = owner.metrics_variables if kind == "metrics" else owner.variables
        found |= {f"{kind}/{i}/{variable.path}": variable for i, variable in enumerate(variables)}
    return found


def heads_of(model):
    """Returns a dict from unique names to the arrays of `adapter_heads`, the heads of adapters that are not active."""
    heads = getattr(model, "adapter_heads", {})
    return {f"heads/{name}/{i:03d}": value for name, values in heads.items() for i, value in enumerate(values)}


def _restore_heads(model, stored):
    heads = {}
    for name in sorted(_names(stored, "heads")):
        heads.setdefault(name.removeprefix("heads/").rpartition("/")[0], []).append(stored.read(name))
    if heads:
        model.adapter_heads.update(heads)


def restore(model, stored, metrics):
    """Restores a model and its optimizer, and its metrics if `metrics` is True. Call `check` first."""
    for kind in ("model", "optimizer", "metrics") if metrics else ("model", "optimizer"):
        ours, theirs = variables_of(model, kind).values(), _names(stored, kind)
        if [_what(variable) for variable in ours] != [_stored_what(stored, name) for name in theirs]:
            log.warning(
                "The metrics differ from those of the training checkpoint. In this epoch, they cover only the "
                "remaining batches."
            )
            continue
        for variable, name in zip(ours, theirs):
            variable.assign(stored.read(name))
    _restore_heads(model, stored)
    _set_torch_numbers(stored.state["torch"])


def check(model, stored, now):
    """Compares a training checkpoint with a model and the result of `made_with`, and warns about differences.

    Raises:
        ValueError: If it belongs to another model or optimizer, or to the middle of an epoch of another length.
    """
    state, problems = stored.state, []
    build_optimizer(model)
    for kind in ("model", "optimizer"):
        ours = [(name, *_what(variable)) for name, variable in variables_of(model, kind).items()]
        theirs = [(name, *_stored_what(stored, name)) for name in _names(stored, kind)]
        if len(theirs) != len(ours):
            problems.append(f"{len(ours)} variables of the {kind} (training checkpoint: {len(theirs)})")
        different = [(a, b) for a, b in zip(ours, theirs) if (_plain(a[0]), *a[1:]) != (_plain(b[0]), *b[1:])]
        problems += [f"{a} (training checkpoint: {b})" for a, b in different[:3]]
    ours, rates = settings(model.optimizer)
    if problems := problems or _differences(ours, state["optimizer"]):
        raise ValueError(
            "To resume a run, use the same model and the same optimizer (numbers in names may differ). For another "
            "run, use another folder. "
            f"Received: {'; '.join(problems)} ({stored.path})"
        )
    run, counts = state["run"], (now["batches"], state["run"]["batches"])
    if state["batch"] and None not in counts and counts[0] != counts[1]:
        raise ValueError(
            "To resume in the middle of an epoch, use the same data in the same batches. "
            f"Received: {counts[0]} batches (training checkpoint: {counts[1]}, {stored.path})"
        )
    if run.get("model") is None:  # an older training checkpoint
        now = {**now, "model": None}
    warn_of_differences(now, run)
    if rates not in state["rates"]:
        now, theirs = (", ".join(f"{rate:.6g}" for rate in part) for part in (rates, state["rates"][1]))
        log.warning(
            "The run continues with the learning rate of the training checkpoint, %s. Received: %s", theirs, now
        )


def warn_of_differences(ours, theirs):
    """Warns if values that influence the result differ from the training checkpoint's."""
    if others := _differences(ours, theirs):
        log.warning("The run continues, but its result may differ. Received: %s", "; ".join(others))


def made_with(model, fit, batches, callbacks):
    """Returns the settings that influence the result but do not prevent resuming, as JSON values.

    Args:
        model: Compiled model.
        fit: Dict of the arguments of `fit`.
        batches: Integer or None. Number of batches per epoch.
        callbacks: List of strings. Names of the callbacks whose state is stored.
    """
    weights = fit.get("class_weight")
    shuffles = getattr(getattr(batches_of(fit.get("x")), "options", None), "shuffle", False)
    return {
        "batches": batches,
        "backend": keras.backend.backend(),
        "keras": keras.version(),
        "loss": _describe(model.loss),
        "model": _settings_of(model),
        "dtype": [f"{layer.dtype_policy.name} of {layer.name}" for layer, _ in layers_within(model)],
        "shuffle": bool(fit.get("shuffle")) or shuffles,
        "class_weight": _plain_config(weights, []) if isinstance(weights, dict) else None,
        "callbacks": callbacks,
    }


def _settings_of(model):
    """Returns the config of a model without what is compared elsewhere, as JSON values. Large parts become hashes."""
    try:
        return _plain_config(_compared(model.get_config()), [])
    except (NotImplementedError, ValueError, TypeError):  # a model or layer that cannot be saved
        return None


def _compared(value):
    """Returns a part of a config without what is compared elsewhere, and with hashes instead of large parts."""
    if not isinstance(value, (dict, list, tuple, str)):
        return value
    parts = value.values() if isinstance(value, dict) else value
    if len(value) > _LARGE and not any(isinstance(part, (dict, list, tuple)) for part in parts):
        return hashlib.sha256(repr(value).encode()).hexdigest()
    if isinstance(value, dict):
        return {str(key): _compared(part) for key, part in value.items() if key not in _NOT_OF_THE_MODEL}
    return value if isinstance(value, str) else [_compared(part) for part in value]


def _describe(loss):
    if isinstance(loss, (dict, list, tuple)):
        parts = loss.items() if isinstance(loss, dict) else enumerate(loss)
        return {str(name): _describe(part) for name, part in parts}
    config = _plain_config(loss.get_config(), []) if isinstance(loss, keras.losses.Loss) else {}
    name = loss if loss is None or isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    return {"class": name, **config} if config else name


def settings(optimizer):
    """Returns an optimizer's config as JSON values, and the learning rates in it, which callbacks may change."""
    rates = []
    try:
        config = _plain_config(optimizer.get_config(), rates)
    except NotImplementedError:  # a schedule without `get_config`
        config = {}
    return {"class": type(optimizer).__name__, **config}, rates


def _plain_config(value, rates):
    """Returns a config as JSON values without its learning rates, which are added to `rates`."""
    if isinstance(value, dict):
        rates.extend(float(part) for key, part in value.items() if _is_rate(key, part))
        kept = {key: part for key, part in value.items() if key not in _NOT_COMPARED and not _is_rate(key, part)}
        return {str(key): _plain_config(part, rates) for key, part in kept.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_config(part, rates) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, (str, int, float)) else str(type(value))


def _is_rate(key, value):
    return key == "learning_rate" and isinstance(value, (int, float, np.number))


def _names(stored, kind):
    return [name for name in stored.tensors if name.startswith(f"{kind}/")]


def _what(variable):
    return _wide(keras.backend.standardize_dtype(variable.dtype)), tuple(variable.shape)


def _stored_what(stored, name):
    dtype, shape, _ = stored.tensors[name]
    return _wide(dtype), shape


def _wide(dtype):
    return "int64" if dtype == "int32" else dtype  # JAX has no 64-bit dtypes.


def _plain(name):
    """Returns a name without Keras's numbers, which differ if a model is built twice in a process.

    Only the last part of the name of an optimizer's variable is used. The rest depends on how the optimizer was built.
    """
    kind, number, *path = name.split("/")
    path = path[-1:] if kind == "optimizer" else path
    return _without_numbers("/".join([kind, number, *path]))


def _without_numbers(text):
    return re.sub(r"_\d+(?=[_/]|$)", "", text)


def _differences(ours, theirs):
    """Returns the first three differences between two nested dicts or lists."""
    ours, theirs = dict(_flat(ours)), dict(_flat(theirs))
    plain = [
        {name: _without_numbers(value) if isinstance(value, str) else value for name, value in values.items()}
        for values in (ours, theirs)
    ]
    names = [name for name in {**ours, **theirs} if plain[0].get(name) != plain[1].get(name)]
    return [f"{name}={ours.get(name)} (training checkpoint: {theirs.get(name)})" for name in names[:3]]


def _flat(value, name=""):
    if isinstance(value, (dict, list)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


# === Random states and the order of the data ===


def data_state(dataset):
    """Returns the state that determines the order of the batches of an epoch, as JSON values and a dict of arrays."""
    numbers = np.random.get_state(legacy=False)
    numbers["state"] = {name: np.asarray(value).tolist() for name, value in numbers["state"].items()}
    state = {"python": random.getstate(), "numpy": numbers, "torch": torch_numbers()}
    state["dataset"], content = state_of_dataset(dataset)
    return state, {} if content is None else {"data/dataset": content}


def restore_data(stored, dataset):
    """Restores what `data_state` returned, from a training checkpoint at the beginning of the epoch."""
    state = stored.state["data"]
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(state["numpy"])
    _set_torch_numbers(state["torch"])
    restore_dataset(state["dataset"], lambda: stored.read("data/dataset"), dataset)


def torch_numbers():
    """Returns torch's random states, from which it draws the order of arrays and dropout without a seed."""
    if keras.backend.backend() != "torch":
        return None
    import torch

    return [state.tolist() for state in [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]]


def _set_torch_numbers(states):
    if keras.backend.backend() != "torch" or not states:
        return
    import torch

    cpu, *gpus = [torch.tensor(state, dtype=torch.uint8) for state in states]
    torch.set_rng_state(cpu)
    for device, state in enumerate(gpus[: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
