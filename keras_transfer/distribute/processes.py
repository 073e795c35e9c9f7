"""Several processes that train one model together: which one this is, and what all of them must agree on."""

import contextvars
import dataclasses
import pathlib
import tempfile

import keras
import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.lazy import tf

_writing = contextvars.ContextVar("writing", default=False)  # whether all processes write now
_started = []  # the strategy of this process, if `initialize` has created one


@dataclasses.dataclass(frozen=True)
class Share:
    """The rows of each batch that the process `index` of `count` reads. Each has as many rows as the others."""

    index: int = 0
    count: int = 1

    def rows(self, size):
        """Returns the slice of a batch, given its number of rows."""
        each = size // self.count
        return slice(self.index * each, (self.index + 1) * each)


ALL = Share()


def processes_of(model: keras.Model | None = None) -> tuple:
    """Returns the number of this process, and how many processes train together.

    These are the processes of JAX, or the workers of a strategy of `tf.distribute`.

    Args:
        model: Keras model that was created in the scope of the strategy. Defaults to `None`, for the strategy of
            `initialize` or of the current scope.

    Returns:
        Two integers, `(0, 1)` for the only process.

    Example:
    ```python
    index, count = keras_transfer.distribute.processes_of()
    ```
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.process_index(), jax.process_count()
    return workers_of(strategy_of(model))


def strategy_of(model=None):
    """Returns the strategy of a model on TensorFlow, or, without a model, of `initialize` or of the current scope."""
    if keras.backend.backend() != "tensorflow":
        return None
    if model is not None:
        return getattr(model, "distribute_strategy", None)
    if _started:
        return _started[0]
    return tf.distribute.get_strategy()


def workers_of(strategy):
    """Returns the number of this worker of a strategy, and how many workers there are."""
    resolver = getattr(strategy, "cluster_resolver", None)
    workers = {} if resolver is None else resolver.cluster_spec().as_dict()
    chiefs, count = (sum(len(workers.get(kind, ())) for kind in kinds) for kinds in (["chief"], ["chief", "worker"]))
    if count < 2:
        return 0, 1
    return resolver.task_id + (chiefs if resolver.task_type == "worker" else 0), count


def remember(strategy):
    """Makes a strategy this process's own, which is one of several workers."""
    _started[:] = [strategy]


def is_chief(model: keras.Model | None = None) -> bool:
    """Returns whether this is the first process, which writes files, or the only one.

    Args:
        model: Keras model that was created in the strategy's scope. Defaults to `None`, the strategy of `initialize` or
            of the current scope.

    Returns:
        Boolean.

    Example:
    ```python
    logs = [keras.callbacks.CSVLogger("log.csv")] if keras_transfer.distribute.is_chief() else []
    ```
    """
    return processes_of(model)[0] == 0


def gather(values: np.ndarray, model: keras.Model | None = None) -> np.ndarray:
    """Concatenates the arrays of all processes. Each process must call it.

    Args:
        values: Array `[rows, ...]`, of the same shape and dtype in each process.
        model: Keras model that was created in the strategy's scope. Defaults to `None`, the strategy of `initialize` or
            of the current scope.

    Returns:
        An array `[processes * rows, ...]`.

    Raises:
        ValueError: If `values` are not numbers, or have no rows.

    Example:
    ```python
    seconds = keras_transfer.distribute.gather(np.array([1.5]))  # one number for each process
    ```
    """
    values = np.ascontiguousarray(values)
    rule = "`values` must be an array of numbers with rows."
    expect(values.dtype.kind in "biufc" and len(values), rule, values=values)
    if processes_of(model)[1] == 1:
        return values
    # Bytes, because JAX has no numbers of 64 bits, and TensorFlow cannot gather all types.
    rows = values.view("uint8").reshape(len(values), -1)
    if keras.backend.backend() == "jax":
        from jax.experimental import multihost_utils

        found = multihost_utils.process_allgather(rows, tiled=True)
    else:
        strategy = strategy_of(model)
        parts = strategy.experimental_distribute_values_from_function(lambda _: tf.constant(rows.astype("int32")))
        found = strategy.gather(parts, axis=0).numpy().astype("uint8")
        found = found.reshape(processes_of(model)[1], -1, rows.shape[0], rows.shape[1])[:, 0]  # once for each process
    return np.ascontiguousarray(found).reshape(-1, rows.shape[1]).view(values.dtype).reshape(-1, *values.shape[1:])


def agree(value: int, model: keras.Model | None = None) -> int:
    """Returns the first process's value in all processes. Each process must call it.

    Args:
        value: Integer.
        model: Keras model that was created in the strategy's scope. Defaults to `None`, the strategy of `initialize` or
            of the current scope.

    Returns:
        An integer.

    Example:
    ```python
    seed = keras_transfer.distribute.agree(np.random.randint(1000))
    ```
    """
    return int(gather(np.array([value], "int64"), model)[0])


def barrier(model: keras.Model | None = None) -> None:
    """Waits until each process has called it.

    Args:
        model: Keras model that was created in the strategy's scope. Defaults to `None`, the strategy of `initialize` or
            of the current scope.

    Example:
    ```python
    if keras_transfer.distribute.is_chief():
        open("data_are_there", "w").close()
    keras_transfer.distribute.barrier()
    ```
    """
    gather(np.zeros(1, "int32"), model)


def in_first_process(function, model=None):
    """Calls a function in the first process only, and returns what it returned, or None in the others.

    The others wait, and fail if it failed.
    """
    return together(function if is_chief(model) else lambda: None, model)


def write_together(write, path, model=None):
    """Calls a function that writes a model. Only what the first process writes remains.

    The others write into temporary folders, because each process must take part in what reads the weights.
    """
    if processes_of(model)[1] == 1 or _writing.get():  # or inside another call
        write(path)
        return
    token = _writing.set(True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            own = path if is_chief(model) else pathlib.Path(folder) / pathlib.Path(path).name
            together(lambda: write(own), model)
    finally:
        _writing.reset(token)


def together(function, model=None):
    """Returns what a function returns. If it has an error in one of the processes, it is an error in all of them."""
    if processes_of(model)[1] == 1:
        return function()
    found, failure = None, None
    try:
        found = function()
    except Exception as error:
        failure = error
    failed = np.flatnonzero(gather(np.array([failure is not None]), model)).tolist()
    if failure is not None:
        raise failure
    if failed:
        raise RuntimeError(f"Another process failed, and printed its error. Received: an error in processes {failed}")
    return found
