"""What a run is made of: taking it, comparing a checkpoint's with a run's, and putting it in place."""

import logging
import random
import re

import keras
import numpy as np

from keras_transfer.training.optimizer import build_optimizer

log = logging.getLogger("keras_transfer")

# Names that Keras numbers anew in each process, and what an optimizer's variables say better.
_NOT_COMPARED = {"name", "built_for"}


# === Variables ===


def variables_of(model, *kinds):
    """Returns a dict from names, unique in a checkpoint, to the variables of `"model"`, `"optimizer"`, `"metrics"`."""
    found = {}
    for kind in kinds:
        owner = model.optimizer if kind == "optimizer" else model
        variables = owner.metrics_variables if kind == "metrics" else owner.variables
        found |= {f"{kind}/{i}/{variable.path}": variable for i, variable in enumerate(variables)}
    return found


def restore(model, stored, metrics):
    """Gives a model, its optimizer, and, if asked, its metrics the values of a checkpoint that was checked."""
    for kind in ("model", "optimizer", "metrics") if metrics else ("model", "optimizer"):
        ours, theirs = variables_of(model, kind).values(), _names(stored, kind)
        if [_what(variable) for variable in ours] != [_stored_what(stored, name) for name in theirs]:
            log.warning("the metrics are others than the checkpoint's: this epoch's begin in its middle")
            continue
        for variable, name in zip(ours, theirs):
            variable.assign(stored.read(name))
    _set_torch_numbers(stored.state["torch"])


def check(model, stored, steps):
    """Checks a checkpoint against a model and the number of batches in an epoch, and changes nothing but warns.

    Raises:
        ValueError: it is of another model or optimizer, or stands in the middle of an epoch of other batches.
    """
    state, problems = stored.state, []
    build_optimizer(model)
    for kind in ("model", "optimizer"):
        ours = [(name, *_what(variable)) for name, variable in variables_of(model, kind).items()]
        theirs = [(name, *_stored_what(stored, name)) for name in _names(stored, kind)]
        if len(theirs) != len(ours):
            problems.append(f"{len(ours)} variables of the {kind}, in the checkpoint {len(theirs)}")
        different = [(a, b) for a, b in zip(ours, theirs) if (_plain(a[0]), *a[1:]) != (_plain(b[0]), *b[1:])]
        problems += [f"{a}, in the checkpoint {b}" for a, b in different[:3]]
    ours, rates = settings(model.optimizer)
    if problems := problems or _differences(ours, state["optimizer"]):
        raise ValueError(
            "a checkpoint goes on with the same model and the same optimizer (names may differ in their numbers): "
            "make these as they were, or take another folder for another run. "
            f"Received: {'; '.join(problems)} ({stored.path})"
        )
    run, now = state["run"], made_with(steps)
    if state["batch"] and None not in (run["batches"], steps) and run["batches"] != steps:
        raise ValueError(
            "a checkpoint in the middle of an epoch goes on with the same data in the same batches. "
            f"Received: {steps} batches, in the checkpoint {run['batches']} ({stored.path})"
        )
    warn_of_differences(now, run)
    if rates not in state["rates"]:
        now, goes_on = (", ".join(f"{rate:.6g}" for rate in part) for part in (rates, state["rates"][1]))
        log.warning("the checkpoint's learning rate goes on, %s. Received: %s", goes_on, now)


def warn_of_differences(ours, theirs):
    """Warns where what makes a difference is other than in the checkpoint."""
    if others := _differences(ours, theirs):
        log.warning("the run goes on, but not quite as it would have: %s", "; ".join(others))


def made_with(steps):
    """Returns what makes a difference where another does not stop a run."""
    return {"batches": steps, "backend": keras.backend.backend(), "keras": keras.version()}


def settings(optimizer):
    """Returns an optimizer's config as JSON has it, and the learning rates in it, which callbacks may change."""
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
    except NotImplementedError:  # a schedule of the user's that says nothing of itself
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
    return "int64" if dtype == "int32" else dtype  # JAX counts in 32 bits


def _plain(name):
    """A name without the numbers that Keras gives, which differ when a model is built twice in a process.

    Of an optimizer's variables only the last part counts: what is before it says who built the optimizer.
    """
    kind, number, *path = name.split("/")
    path = path[-1:] if kind == "optimizer" else path
    return _without_numbers("/".join([kind, number, *path]))


def _without_numbers(text):
    return re.sub(r"_\d+(?=[_/]|$)", "", text)


def _differences(ours, theirs):
    """What differs between two nested dicts and lists, the first three."""
    ours, theirs = dict(_flat(ours)), dict(_flat(theirs))
    plain = [
        {name: _without_numbers(value) if isinstance(value, str) else value for name, value in values.items()}
        for values in (ours, theirs)
    ]
    names = [name for name in {**ours, **theirs} if plain[0].get(name) != plain[1].get(name)]
    return [f"{name} {ours.get(name)}, in the checkpoint {theirs.get(name)}" for name in names[:3]]


def _flat(value, name=""):
    if isinstance(value, (dict, list)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


# === Random numbers and the place in the data ===


def has_epoch(dataset):
    """Whether a dataset says in which epoch it is."""
    return isinstance(getattr(dataset, "epoch", None), (int, np.integer))


def data_state(dataset):
    """Returns what the order of an epoch's batches comes from, taken at its beginning."""
    numbers = np.random.get_state(legacy=False)
    numbers["state"] = {name: np.asarray(value).tolist() for name, value in numbers["state"].items()}
    state = {"python": random.getstate(), "numpy": numbers, "torch": torch_numbers()}
    if dataset is not None:
        seed = getattr(dataset, "seed", None)
        state["epoch"] = int(dataset.epoch)
        state["seed"] = int(seed) if isinstance(seed, (int, np.integer)) else None
    return state


def restore_data(state, dataset):
    """Puts what `data_state` took in place, at the beginning of the epoch."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(state["numpy"])
    _set_torch_numbers(state["torch"])
    if (dataset is not None) != ("epoch" in state):
        log.warning("the order of the batches may be another: `dataset` was given in one of the two runs only")
    elif dataset is not None:
        if state["seed"] is not None:
            dataset.seed = state["seed"]
        dataset.epoch = state["epoch"]


def torch_numbers():
    """Returns torch's own random numbers: the order of arrays and dropout without a seed come from them there."""
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
