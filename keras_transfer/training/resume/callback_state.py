"""The state of the other callbacks of a run, such as `EarlyStopping`."""

import collections

import keras

from keras_transfer.keras_internals import keras_callbacks
from keras_transfer.training.resume.dataset_state import has_state_dict
from keras_transfer.training.resume.plain_pickle import NotPlain, pack, unpack
from keras_transfer.training.runs import StagedFit


def stateful(callbacks):
    """Returns a dict from unique names to the callbacks that have a state."""
    found, count = {}, collections.Counter()
    for callback in callbacks:
        if has_state_dict(callback) or keras_callbacks.callback_attributes(callback):
            name = type(callback).__name__
            found[f"{name}/{count[name]}"] = callback
            count[name] += 1
    return found


def callback_states(callbacks):
    """Returns a dict from the names of `stateful` to arrays of bytes.

    Raises:
        ValueError: If `state_dict()` does not return plain values.
    """
    found = {}
    for name, callback in stateful(callbacks).items():
        if has_state_dict(callback):
            state = callback.state_dict()
        else:
            state = {key: getattr(callback, key) for key in keras_callbacks.callback_attributes(callback)}
        try:
            found[name] = pack(keras.tree.map_structure(_without_tensor, state))
        except NotPlain as error:
            raise ValueError(
                "The state of a callback must consist of numbers, strings, lists, dicts and arrays. "
                f"Received: {error} from {type(callback).__name__}"
            ) from error
    return found


def restore_callbacks(callbacks, read):
    """Restores the states of callbacks.

    Args:
        callbacks: List of callbacks.
        read: Function from a name of `stateful` to the array of bytes, or None.
    """
    pause_saving(callbacks, False)
    for name, callback in stateful(callbacks).items():
        content = read(name)
        if content is None:
            continue
        if has_state_dict(callback):
            callback.load_state_dict(unpack(content))
        else:
            vars(callback).update(unpack(content))


def pause_saving(callbacks, paused=True):
    """Keeps `ModelCheckpoint` from saving while batches are skipped, before the weights are restored."""
    for callback in callbacks:
        if isinstance(callback, keras.callbacks.ModelCheckpoint):
            keras_callbacks.pause_saving(callback, paused)


def ended(callbacks):
    """Returns whether `EarlyStopping` or the last stage, with the state that was restored, has ended the run."""
    if any(isinstance(callback, StagedFit) and callback.over for callback in callbacks):
        return True
    early = [callback for callback in callbacks if isinstance(callback, keras.callbacks.EarlyStopping)]
    return any(callback.stopped_epoch and callback.wait >= callback.patience for callback in early)


def _without_tensor(value):
    return keras.ops.convert_to_numpy(value) if keras.ops.is_tensor(value) else value
