"""What happens when a method of a task fails: the model remains usable, and the error names wrong labels."""

import contextlib

import keras

from keras_transfer.keras_internals import keep_values
from keras_transfer.training.optimizers import build_optimizer


@contextlib.contextmanager
def mends_failures(task, function):
    """Keeps the model usable if Keras's method in this context fails, and raises the error in `task.kept_error`.

    TensorFlow creates variables only while it traces a function for the first time. If that fails, the function stays
    unusable, so Keras must make it again. On JAX, the variables get their values back.

    Args:
        task: `Task`.
        function: String. Name of the attribute with the function that the method runs, such as `"train_function"`.
    """
    trains = function == "train_function" and task.trainable_variables and getattr(task, "optimizer", None) is not None
    if trains and keras.backend.backend() == "jax":
        build_optimizer(task)  # Keras would build it after its values are kept.
    outer, task.kept_error = task.kept_error, None
    restore = keep_values(task)
    try:
        yield
    except BaseException as error:
        restore()
        if keras.backend.backend() == "tensorflow":
            setattr(task, function, None)
        # A wrong label that was only read ahead is not the cause of an error elsewhere.
        if task.kept_error is None or not type(error).__module__.startswith("tensorflow"):
            raise
        raise task.kept_error from error
    finally:
        task.kept_error = outer
