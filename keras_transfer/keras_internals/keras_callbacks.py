"""The state of Keras's callbacks."""

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
