"""Conversion of the states of objects to JSON values and arrays, and back."""

import random
import sys

import keras
import numpy as np

from keras_transfer.keras_internals import keras_callbacks

_ARRAY, _BYTES, _TORCH = "array in this file", "bytes in this file", "tensor of torch in this file"


def has_state(value):
    """Returns whether an object has the methods `state_dict` and `load_state_dict`."""
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))


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
