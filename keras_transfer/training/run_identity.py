"""What identifies a run, and whether a training checkpoint belongs to it."""

import hashlib
import logging
import re

import keras
import numpy as np

from keras_transfer.core.names import check_order
from keras_transfer.data import Source
from keras_transfer.distribute import agree, processes_of
from keras_transfer.keras_internals import layers_within
from keras_transfer.training.building import build_optimizer
from keras_transfer.training.run_state import flat, stateful
from keras_transfer.training.stages import Stages

log = logging.getLogger("keras_transfer")

# Keras numbers names in each process. Dtypes, `trainable` flags and the optimizer's variables are compared separately,
# and the states of seeds are restored.
_NOT_COMPARED = {
    "name",
    "built_for",
    "dtype",
    "trainable",
    "frozen",
    "seed",
    "build_config",
    "inbound_nodes",
    "checkpoint_settings",
}
_LARGE = 200  # Longer lists and strings, such as vocabularies, are compared by their hashes.


def describe(model, data, callbacks, steps, settings):
    """Returns what a training checkpoint says about its run, as JSON values.

    Args:
        model: Compiled model.
        data: The dataset of the run, or `None` if it has no state.
        callbacks: List of the other callbacks.
        steps: Integer or `None`. Number of batches per epoch.
        settings: Dict of other settings of `fit`.
    """
    schedule = [part for callback in callbacks if isinstance(callback, Stages) for part in callback.schedule]
    has_rows = isinstance(data, Source)
    return {
        "run": may_differ(model, steps, settings, list(stateful(callbacks)), schedule),
        "made for": must_agree(model),
        "rates": rates_of(model.optimizer),
        "rows": data.digest() if has_rows else None,
        "data": data.identity() if has_rows else None,
    }


def check(ours, stored, can_resume_in_epoch, model):
    """Raises an error if a training checkpoint belongs to another run, and warns of smaller differences.

    Args:
        ours: Dict of the run that `describe` returned.
        stored: `Stored`. The training checkpoint.
        can_resume_in_epoch: Boolean. Whether the data can continue in the middle of an epoch.
        model: The model that trains.

    Returns:
        Dict of what the run takes over from the training checkpoint.
    """
    state, run = stored.state, stored.state["run"]
    _check_made_for(ours["made for"], stored)
    configs = run["model"], ours["run"]["model"]
    check_order(*(config.get("label_names") if isinstance(config, dict) else None for config in configs))
    batches, before = ours["run"]["batches"], run["batches"]
    other_data = _other_data(ours, stored, model)
    if state["batch"] and (batches != before or other_data or not can_resume_in_epoch):
        data = "; ".join(other_data) or "data without a state"
        raise ValueError(
            "To resume in the middle of an epoch, use the same data in the same batches. "
            f"Received: {data if batches == before else f'{batches} batches'} (training checkpoint: {before}, "
            f"{stored.path})"
        )
    if others := [*differences(ours["run"], run), *other_data]:
        log.warning("The run continues, but its result may differ. Received: %s", "; ".join(others))
    if ours["rates"] not in (state["rates"], state["rates now"]):
        now, theirs = (", ".join(f"{rate:.6g}" for rate in part) for part in (ours["rates"], state["rates now"]))
        log.warning(
            "The run continues with the learning rate of the training checkpoint, %s. Received: %s", theirs, now
        )
    return {"made for": state["made for"], "rates": state["rates"]}


def _check_made_for(ours, stored):
    """Raises a `ValueError` if a training checkpoint has another model or optimizer."""
    if problems := differences(ours, stored.state["made for"]):
        planned = "_steps=" in "".join(name for name in problems if "accumulation" not in name)
        reason = (
            "The schedule was planned for another number of steps, because the epochs, the batch size or the data "
            "changed. Resume with the same ones. "
        )
        raise ValueError(
            "To resume a run, use the same model and the same optimizer (numbers in names may differ). "
            f"{reason if planned else ''}For a new run, use another folder. "
            f"Received: {'; '.join(problems)} ({stored.path})"
        )


def _other_data(ours, stored, model):
    """Returns in which respects the data differs from that of a training checkpoint, as far as both identify it."""
    rows, now = stored.state.get("rows"), ours["rows"]  # Older training checkpoints have no digest of the rows.
    has_other_rows = None not in (now, rows) and now != rows
    if processes_of(model)[1] > 1:
        has_other_rows = agree(int(has_other_rows), model)
    identities = ours["data"], stored.state.get("data")
    found = [] if None in identities else differences(*identities)
    return [*found, f"other inputs, labels or weights than those of {stored.path}"] if has_other_rows else found


def must_agree(model):
    """Returns what must be the same to resume, as JSON values: the variables, and the optimizer without its rates."""
    build_optimizer(model)
    # The beginning of the path of an optimizer's variable depends on how the optimizer was built.
    slots = [_describe(variable, variable.path.rpartition("/")[2]) for variable in model.optimizer.variables]
    variables = {"model": [_describe(variable, variable.path) for variable in model.variables], "optimizer": slots}
    config = {name: value for name, value in flat(_config_of(model.optimizer)) if not _is_rate(name, value)}
    return {"variables": variables, "optimizer": {"class": type(model.optimizer).__name__, **config}}


def rates_of(optimizer):
    """Returns the learning rates in an optimizer's config that are numbers, which callbacks may change, as a list."""
    return [value for name, value in flat(_config_of(optimizer)) if _is_rate(name, value)]


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
    ours, theirs = dict(flat(ours)), dict(flat(theirs))
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


def _is_rate(name, value):
    return name.rpartition(".")[2] == "learning_rate" and isinstance(value, (int, float))


def _unnumbered(value):
    """Returns a text without Keras's numbers, which differ if a model is built twice in a process."""
    return re.sub(r"_\d+(?=[_/ ]|$)", "", value) if isinstance(value, str) else value
