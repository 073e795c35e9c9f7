"""What a training checkpoint stores of a run, as JSON values and arrays, and how it is restored."""

import logging
import random
import sys

import keras
import numpy as np

from keras_transfer.distribute import processes_of
from keras_transfer.keras_internals import keras_callbacks

log = logging.getLogger("keras_transfer")
_ARRAY, _BYTES, _TORCH = "array in this file", "bytes in this file", "tensor of torch in this file"


class RunState:
    """The state of a run: variables, random numbers, and the states of the data and of the callbacks.

    Args:
        model: Compiled model.
        data: Object with `state_dict` and `load_state_dict`, which determines the batches, or `None`.
        callbacks: List of the other callbacks of the run.
    """

    def __init__(self, model, data, callbacks):
        self.model, self.data, self.callbacks = model, data, callbacks
        self._beginning = self._if_it_fails = None  # These are states of the data.

    def can_resume_in_epoch(self):
        """Returns whether a run can resume in the middle of this epoch."""
        return self.data is not None and "batch" in self.data.state_dict()

    def begin_epoch(self, first):
        """Notes where the data is, in an epoch of which `first` batches were trained before the run was resumed."""
        self._beginning = None if self.data is None else self.data.state_dict()
        self._if_it_fails = {**self._beginning, "batch": 0} if first and self.data is not None else None

    def end_epoch(self):
        """Notes that the data has gone on."""
        self._if_it_fails = None

    def close(self):
        """Lets the next run train the whole epoch if this run has failed in an epoch in which it was resumed."""
        if self._if_it_fails is not None:
            self.data.load_state_dict(self._if_it_fails)
        self._if_it_fails = None

    def collect(self, batch):
        """Returns JSON values, and a dict of the arrays and variables, after so many batches of an epoch."""
        data = None if self.data is None else self.data.state_dict()
        if batch:  # Batches may be prefetched, so the state of the data itself may be ahead.
            has_own = hasattr(self.data, "state_in_epoch")
            data = self.data.state_in_epoch() if has_own else {**self._beginning, "batch": batch}
        states = {"data": data, "callbacks": states_of(self.callbacks), "random": random_states()}
        arrays = {}
        values = split(states, "states", arrays)
        arrays = _variables_of(self.model) | arrays
        if processes_of(self.model)[1] > 1:  # All processes take part when TensorFlow reads some of the variables.
            arrays = {name: keras.ops.convert_to_numpy(array) for name, array in arrays.items()}
        return values, arrays

    def restore(self, stored):
        """Restores everything from a `Stored` training checkpoint: the metrics only in the middle of an epoch."""
        self._restore_variables(stored, with_metrics=stored.state["batch"] > 0)
        states = self.restore_callbacks(stored)
        load_random_states(states["random"])
        if self.data is not None and states["data"] is not None:
            self.data.load_state_dict(states["data"])

    def restore_callbacks(self, stored):
        """Restores the callbacks, and returns all states of a training checkpoint."""
        states = join(stored.state["states"], stored.read)
        load_states(self.callbacks, states["callbacks"])
        return states

    def _restore_variables(self, stored, with_metrics):
        ours, theirs = (_by_kind(names) for names in (_variables_of(self.model), stored.tensors))
        shapes = [tuple(variable.shape) for variable in ours["metrics"].values()]
        if with_metrics and shapes != [shape for _, shape, _ in theirs["metrics"].values()]:
            log.warning(
                "The metrics are not built yet, or differ from the metrics of the training checkpoint. In this epoch, "
                "they cover only the remaining batches."
            )
            with_metrics = False
        for kind in ("model", "optimizer", "metrics") if with_metrics else ("model", "optimizer"):
            for variable, name in zip(ours[kind].values(), theirs[kind], strict=True):
                variable.assign(stored.read(name))
        for variable in ours["update"].values():  # Older checkpoints do not have it.
            variable.assign(stored.read(*theirs["update"]) if theirs["update"] else 0.0)
        heads = {}
        for name in sorted(theirs["heads"]):
            heads.setdefault(name.split("/", 1)[1].rpartition("/")[0], []).append(stored.read(name))
        if heads:
            self.model.head_adapters.heads.update(heads)


def _variables_of(model):
    """Returns a dict from unique names to the variables of a model, its optimizer and its metrics, and its heads."""
    labels = getattr(model, "labels_of_update", None)
    owners = {"model": model.variables, "optimizer": model.optimizer.variables}
    owners["metrics"] = [variable for variable in model.metrics_variables if variable is not labels]
    owners["update"] = [] if labels is None else [labels]
    found = {f"{kind}/{i}/{v.path}": v for kind, variables in owners.items() for i, v in enumerate(variables)}
    heads = model.head_adapters.heads if hasattr(model, "head_adapters") else {}
    return found | {f"heads/{name}/{i:03d}": value for name, values in heads.items() for i, value in enumerate(values)}


def _by_kind(tensors):
    found = {kind: {} for kind in ("model", "optimizer", "metrics", "update", "heads")}
    for name, value in tensors.items():
        found.setdefault(name.split("/")[0], {})[name] = value
    return found


def has_state(value):
    """Returns whether an object has the methods `state_dict` and `load_state_dict`."""
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))


# === Conversion to JSON values and arrays, and back ===


def split(value, name, arrays):
    """Returns a state as a JSON value, and adds its arrays to a dict, with names that begin with `name`."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        arrays[name] = np.frombuffer(value, "uint8")
        return {_BYTES: name}
    if str(getattr(value, "dtype", None)) == "torch.uint8":  # States of torch generators have this dtype.
        arrays[name] = value.numpy()
        return {_TORCH: name}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: split(part, f"{name}/{key}", arrays) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [split(part, f"{name}/{place:03d}", arrays) for place, part in enumerate(value)]
    if isinstance(value, (np.ndarray, keras.Variable)) or keras.ops.is_tensor(value):
        arrays[name] = value if isinstance(value, np.ndarray) else keras.ops.convert_to_numpy(value)
        return {_ARRAY: name}
    raise ValueError(
        "`state_dict()` must return numbers, strings, lists, arrays, or dicts with strings as keys. "
        f"Received: {type(value).__name__} for {name}"
    )


def join(value, read):
    """Returns the original state of a value from `split`, except that tuples are lists.

    Args:
        value: JSON value.
        read: Function that returns the array with a name.
    """
    if isinstance(value, dict) and _BYTES in value:
        return read(value[_BYTES]).tobytes()
    if isinstance(value, dict) and _TORCH in value:
        import torch

        return torch.from_numpy(read(value[_TORCH]).copy())
    if isinstance(value, dict):
        return read(value[_ARRAY]) if _ARRAY in value else {key: join(part, read) for key, part in value.items()}
    return [join(part, read) for part in value] if isinstance(value, list) else value


def flat(value, name=""):
    """Yields `(name, value)` for each value in nested dicts and lists."""
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


# === Callbacks ===


def states_of(callbacks):
    """Returns a dict from unique names to the states of the callbacks that have one."""
    found = stateful(callbacks)
    return {name: each.state_dict() if has_state(each) else _attributes(each) for name, each in found.items()}


def stateful(callbacks):
    """Returns a dict from unique names to the callbacks that have a state: ours, the user's, and some of Keras's."""
    found = {}
    for callback in callbacks:
        if has_state(callback) or keras_callbacks.callback_attributes(callback):
            kind = type(callback).__name__
            found[f"{kind}/{sum(name.startswith(f'{kind}/') for name in found)}"] = callback
    return found


def _attributes(callback):
    return {name: getattr(callback, name) for name in keras_callbacks.callback_attributes(callback)}


def load_states(callbacks, states):
    """Restores what `states_of` returned."""
    for name, callback in stateful(callbacks).items():
        if name in states and has_state(callback):
            callback.load_state_dict(states[name])
        elif name in states:
            vars(callback).update(states[name])


# === Random numbers ===


def random_states():
    """Returns the states of the random numbers of Python, NumPy and torch, which affect the data order and dropout."""
    version, numbers, gauss = random.getstate()
    state = {"python": [version, list(numbers), gauss], "numpy": np.random.get_state(legacy=False)}
    if "torch" in sys.modules:  # torch's loaders use its random numbers on every backend.
        import torch

        gpus = torch.cuda.get_rng_state_all() if keras.backend.backend() == "torch" else []
        state["torch"] = [part.numpy() for part in [torch.get_rng_state(), *gpus]]
    return state


def load_random_states(state):
    """Restores what `random_states` returned."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(state["numpy"])
    if "torch" in sys.modules and "torch" in state:
        import torch

        cpu, *gpus = map(torch.from_numpy, state["torch"])
        torch.set_rng_state(cpu)
        for device, part in enumerate(gpus[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(part, device)
