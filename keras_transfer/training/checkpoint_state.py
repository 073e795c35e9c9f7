"""The state of a run: reading it, comparing it with a training checkpoint, and restoring it."""

import logging
import random
import re

import keras
import numpy as np

from keras_transfer.training.optimizer import build_optimizer

log = logging.getLogger("keras_transfer")

# Keras numbers names in each process, and the variables of an optimizer show what it was built for.
_NOT_COMPARED = {"name", "built_for"}


# === Variables ===


def variables_of(model, *kinds):
    """Returns a dict from unique names to the variables of `"model"`, `"optimizer"` and `"metrics"`."""
    found = {}
    for kind in kinds:
        owner = model.optimizer if kind == "optimizer" else model
        variables = owner.metrics_variables if kind == "metrics" else owner.variables
        found |= {f"{kind}/{i}/{variable.path}": variable for i, variable in enumerate(variables)}
    return found


def restore(model, stored, metrics):
    """Restores a model and its optimizer, and also its metrics if `metrics` is True, after `check`."""
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
    _set_torch_numbers(stored.state["torch"])


def check(model, stored, steps):
    """Compares a training checkpoint with a model and its number of batches per epoch, and warns of differences.

    Raises:
        ValueError: If it is of another model or optimizer, or in the middle of an epoch of another length.
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
    run, now = state["run"], made_with(steps)
    if state["batch"] and None not in (run["batches"], steps) and run["batches"] != steps:
        raise ValueError(
            "To resume in the middle of an epoch, use the same data in the same batches. "
            f"Received: {steps} batches (training checkpoint: {run['batches']}, {stored.path})"
        )
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


def made_with(steps):
    """Returns what influences the result without preventing to resume."""
    return {"batches": steps, "backend": keras.backend.backend(), "keras": keras.version()}


def settings(optimizer):
    """Returns an optimizer's config as JSON values, and the learning rates in it, which callbacks may change."""
    rates = []

    def plain(value):
        if isinstance(value, dict):
            rates.extend(float(part) for key, part in value.items() if _is_rate(key, part))
            kept = {key: part for key, part in value.items() if key not in _NOT_COMPARED and not _is_rate(key, part)}
            return {key: plain(part) for key, part in kept.items()}
        if isinstance(value, (list, tuple)):
            return [plain(part) for part in value]
        value = value.item() if isinstance(value, np.generic) else value
        return value if value is None or isinstance(value, (str, int, float)) else str(type(value))

    try:
        config = plain(optimizer.get_config())
    except NotImplementedError:  # a schedule without `get_config`
        config = {}
    return {"class": type(optimizer).__name__, **config}, rates


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
    return "int64" if dtype == "int32" else dtype  # JAX has no 64 bits


def _plain(name):
    """A name without Keras's numbers, which differ if a model is built twice in a process.

    Of the name of an optimizer's variable only the last part counts. The rest depends on who built the optimizer.
    """
    kind, number, *path = name.split("/")
    path = path[-1:] if kind == "optimizer" else path
    return _without_numbers("/".join([kind, number, *path]))


def _without_numbers(text):
    return re.sub(r"_\d+(?=[_/]|$)", "", text)


def _differences(ours, theirs):
    """The first three differences between two nested dicts or lists."""
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


def has_epoch(dataset):
    """Returns whether a dataset has an integer `epoch`."""
    return isinstance(getattr(dataset, "epoch", None), (int, np.integer))


def data_state(dataset):
    """Returns what decides the order of an epoch's batches, at its beginning."""
    numbers = np.random.get_state(legacy=False)
    numbers["state"] = {name: np.asarray(value).tolist() for name, value in numbers["state"].items()}
    state = {"python": random.getstate(), "numpy": numbers, "torch": torch_numbers()}
    if dataset is not None:
        seed = getattr(dataset, "seed", None)
        state["epoch"] = int(dataset.epoch)
        state["seed"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return state


def restore_data(state, dataset):
    """Restores what `data_state` returned, at the beginning of the epoch."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(state["numpy"])
    _set_torch_numbers(state["torch"])
    if (dataset is not None) != ("epoch" in state):
        log.warning("The order of the batches may differ, because only one of the two runs has a `dataset`.")
    elif dataset is not None:
        if state["seed"] is not None:
            dataset.seed = state["seed"]
        dataset.epoch = state["epoch"]


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
