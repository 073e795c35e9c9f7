"""What TensorFlow's gradient tapes record."""

import contextlib

import keras


def is_recorded():
    """Returns whether a tape of TensorFlow is active, so that a gradient of what is computed may be asked for."""
    from tensorflow.python.eager import record  # there is no public name

    return record.could_possibly_record()


def unrecorded():
    """Returns a context in which no tape of TensorFlow records, so that none differentiates the calls."""
    if keras.backend.backend() != "tensorflow":
        return contextlib.nullcontext()
    from tensorflow.python.eager import record

    return record.stop_recording()
