"""The state of Keras's callbacks."""

import math

import keras

# Where Keras's callbacks keep their state.
_STATES = {
    keras.callbacks.EarlyStopping: ("best", "best_epoch", "best_weights", "stopped_epoch", "wait"),
    keras.callbacks.ModelCheckpoint: ("best", "_batches_seen_since_last_saving", "_last_batch_seen"),
    keras.callbacks.ReduceLROnPlateau: ("best", "cooldown_counter", "wait"),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
}


def callback_attributes(callback):
    """Returns the names of the attributes in which one of Keras's callbacks keeps its state."""
    return next((names for kind, names in _STATES.items() if isinstance(callback, kind)), ())


def pause_saving(callback, paused):
    """Keeps a `ModelCheckpoint` that saves after a number of batches from saving, or lets it count from 0."""
    callback._batches_seen_since_last_saving = -math.inf if paused else 0
