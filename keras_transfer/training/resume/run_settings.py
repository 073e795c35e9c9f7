"""The settings of a run in a training checkpoint, and their differences from the settings of the resuming run."""

import hashlib
import re

import keras
import numpy as np

from keras_transfer.keras_internals import layers_within
from keras_transfer.training.optimizers import build_optimizer

# Keras numbers names in each process. Dtypes, `trainable` flags and the optimizer's variables are compared separately,
# and the states of seeds are restored.
_NOT_COMPARED = {"name", "built_for", "dtype", "trainable", "frozen", "seed", "build_config", "inbound_nodes"}
_NOT_COMPARED |= {"checkpoint_settings"}
_LARGE = 200  # Longer lists and strings, such as vocabularies, are compared by their hashes.


def must_agree(model):
    """Returns what must be the same to resume, as JSON values: the variables, and the optimizer without its rates."""
    build_optimizer(model)
    # The beginning of the path of an optimizer's variable depends on how the optimizer was built.
    slots = [_describe(variable, variable.path.rpartition("/")[2]) for variable in model.optimizer.variables]
    variables = {"model": [_describe(variable, variable.path) for variable in model.variables], "optimizer": slots}
    config = {name: value for name, value in _flat(_config_of(model.optimizer)) if not _is_rate(name, value)}
    return {"variables": variables, "optimizer": {"class": type(model.optimizer).__name__, **config}}


def rates_of(optimizer):
    """Returns the learning rates in an optimizer's config that are numbers, which callbacks may change, as a list."""
    return [value for name, value in _flat(_config_of(optimizer)) if _is_rate(name, value)]


def may_differ(model, batches, settings, callbacks, schedule):
    """Returns the settings that influence the result but do not prevent resuming, as JSON values.

    Args:
        model: Compiled model.
        batches: Integer or `None`. Number of batches per epoch.
        settings: Dict of other settings of `fit`.
        callbacks: List of strings. Names of the callbacks whose state is stored.
        schedule: List of pairs: a step, and the layer groups that train from this step on.
    """
    return {
        "batches": batches,
        "backend": keras.backend.backend(),
        "keras": keras.version(),
        "loss": _plain(keras.tree.map_structure(_loss, model.loss)),
        "model": _config_of(model),
        "dtype": [f"{layer.dtype_policy.name} of {layer.name}" for layer, _ in layers_within(model)],
        "fit": _plain(settings),
        "callbacks": callbacks,
        "weights": [weight.path for weight in model.trainable_weights],
        "stages": [[start, list(names)] for start, names in schedule],
    }


def differences(ours, theirs):
    """Returns descriptions of the first three differences between two nested dicts or lists."""
    ours, theirs = dict(_flat(ours)), dict(_flat(theirs))
    names = [name for name in {**ours, **theirs} if _unnumbered(ours.get(name)) != _unnumbered(theirs.get(name))]
    return [f"{name}={ours.get(name)} (training checkpoint: {theirs.get(name)})" for name in names[:3]]


def _describe(variable, name):
    dtype = keras.backend.standardize_dtype(variable.dtype)
    return f"{name} {'int64' if dtype == 'int32' else dtype} {tuple(variable.shape)}"  # JAX has no 64-bit dtypes.


def _loss(loss):
    name = loss if loss is None or isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    return {"class": name, **_config_of(loss)} if isinstance(loss, keras.losses.Loss) else name


def _config_of(thing):
    try:
        return _plain(thing.get_config())
    except (NotImplementedError, ValueError, TypeError):  # It has no config, so it cannot be compared.
        return {}


def _plain(value):
    """Returns a config as JSON values, without what is compared separately. Large values become hashes."""
    if isinstance(value, (dict, list, tuple, str)) and len(value) > _LARGE:
        parts = value.values() if isinstance(value, dict) else value
        if isinstance(value, str) or not any(isinstance(part, (dict, list, tuple)) for part in parts):
            return hashlib.sha256(repr(value).encode()).hexdigest()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items() if key not in _NOT_COMPARED}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, (str, int, float)) else str(type(value))


def _flat(value, name=""):
    """Yields `(name, value)` for each value in nested dicts and lists."""
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _is_rate(name, value):
    return name.rpartition(".")[2] == "learning_rate" and isinstance(value, (int, float))


def _unnumbered(value):
    """Returns a text without Keras's numbers, which differ if a model is built twice in a process."""
    return re.sub(r"_\d+(?=[_/ ]|$)", "", value) if isinstance(value, str) else value
