"""What TensorFlow's gradient tapes watch and record."""

import contextlib


@contextlib.contextmanager
def unwatched(variables):
    """Keeps TensorFlow's gradient tapes from watching variables (`tf.Variable`) in this context."""
    watched = [variable for variable in variables if variable.trainable]
    try:
        for variable in watched:
            variable._trainable = False
        yield
    finally:
        for variable in watched:
            variable._trainable = True


def unrecorded():
    """Returns a context in which no tape records, so that no tape differentiates the calls."""
    from tensorflow.python.eager import record  # there is no public name

    return record.stop_recording()
