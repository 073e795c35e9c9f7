"""The base class of metrics that need all rows at once and keep them in a buffer of fixed size."""

import warnings
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.core.saved_arguments import SavedByArguments


class BufferedMetric(SavedByArguments, keras.metrics.Metric):
    """Base class of metrics computed from all rows of an epoch, as the mean over columns of labels and outputs.

    The buffer is a variable, so that the metric works in compiled steps. It holds rows whose weight is not 0. If there
    are more than `capacity`, the result is NaN, and a warning says why. Each replica of a strategy fills its own places
    of the buffer, and zeros elsewhere, so that the sum over replicas has all rows.
    """

    @expects(capacity=integer(1))
    def __init__(self, capacity, name, dtype):
        super().__init__(name=name, dtype=dtype)
        self.capacity = capacity
        self.rows = None
        self._warned = False
        self.seen, self.lost = (self.add_variable((), "zeros", dtype="float32", name=name) for name in ("seen", "lost"))

    def count_columns(self, true_shape: tuple[int, ...], shape: tuple[int, ...]) -> int:
        """Returns the number of columns of labels, and of outputs.

        Args:
            true_shape: Tuple of integers. Shape of the labels.
            shape: Tuple of integers. Shape of the outputs.

        Returns:
            An integer.

        Raises:
            ValueError: If the shapes do not match.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `count_columns`.")

    def columns(self, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple:
        """Converts what `update_state` receives to columns.

        Args:
            y_true: Tensor of labels.
            y_pred: Tensor of outputs.
            sample_weight: Tensor of weights `[rows]`, or `None`.

        Returns:
            A tuple of float32 labels and outputs, both of shape `[rows, columns]`, and weights of shape `[rows]`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `columns`.")

    def score(self, true: Any, given: Any, weights: Any) -> Any:
        """Computes the metric of one column.

        Args:
            true: Float32 tensor of labels `[rows]`.
            given: Float32 tensor of outputs `[rows]`.
            weights: Float32 tensor of weights `[rows]`, 0 for unused rows.

        Returns:
            A float32 scalar.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `score`.")

    def build_for(self, true_shape: tuple[int, ...], shape: tuple[int, ...]) -> None:
        """Creates the buffer at the first call. `update_state` calls this.

        Args:
            true_shape: Tuple of integers. Shape of the labels.
            shape: Tuple of integers. Shape of the outputs.
        """
        if self.rows is not None:
            return
        columns = self.count_columns(tuple(true_shape), tuple(shape))
        # Rows that are not kept are written to the last row as zeros.
        self.rows = self.add_variable((self.capacity + 1, 2 * columns + 1), "zeros", dtype="float32", name="rows")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        self.build_for(y_true.shape, y_pred.shape)
        true, given, weights = self.columns(y_true, y_pred, sample_weight)
        real = weights > 0
        number, replicas = _replica()
        places = ops.cast(self.seen, "int32") + ops.cumsum(ops.cast(real, "int32")) - 1
        places = ops.cast(places, "int32") * replicas + number
        kept = real & (places < self.capacity)
        rows = ops.concatenate([true, given, weights[:, None]], axis=1)
        rows = ops.where(kept[:, None], rows, 0.0)
        places = ops.where(kept, places, self.capacity)
        self.rows.assign(ops.scatter_update(ops.convert_to_tensor(self.rows), places[:, None], rows))
        self.seen.assign_add(ops.sum(ops.cast(real, "float32")))
        self.lost.assign_add(ops.sum(ops.cast(real & ~kept, "float32")))

    def result(self):
        if self.rows is None:
            return ops.cast(float("nan"), self.dtype)
        self._warn_if_full()
        rows = ops.convert_to_tensor(self.rows)
        columns = rows.shape[1] // 2
        scores = [self.score(rows[:, i], rows[:, columns + i], rows[:, -1]) for i in range(columns)]
        undefined = ops.any(ops.isnan(rows)) | (ops.convert_to_tensor(self.lost) > 0)
        return ops.cast(ops.where(undefined, float("nan"), ops.mean(ops.stack(scores))), self.dtype)

    def reset_state(self):
        super().reset_state()
        self._warned = False

    def _warn_if_full(self):
        try:
            lost = int(ops.convert_to_numpy(ops.convert_to_tensor(self.lost)))
        except (NotImplementedError, TypeError):  # This is a graph. Keras reads the result outside of it, too.
            return
        if lost and not self._warned:
            self._warned = True
            warnings.warn(
                f"The metric {self.name!r} is NaN, because it has room for {self.capacity} rows and received {lost} "
                f"more. Use `{type(self).__name__}(capacity={self.capacity + lost})` or more.",
                stacklevel=2,
            )


def midranks(values, weights):
    """Returns the weight of the lower values plus half of the weight of equal values, for each value `[rows]`."""
    values = ops.copy(values)  # A column of a matrix is not contiguous, and torch warns that it must copy it.
    order = ops.argsort(values)
    values_in_order = ops.take(values, order)
    sums = ops.pad(ops.cumsum(ops.take(weights, order)), [[1, 0]])
    lower, both = (ops.take(sums, ops.searchsorted(values_in_order, values, side=side)) for side in ("left", "right"))
    return (lower + both) / 2


def _replica():
    """Returns the number of this replica and the number of replicas under a strategy of TensorFlow."""
    context = None
    if keras.backend.backend() == "tensorflow":
        context = tf.distribute.get_replica_context()
    return (0, 1) if context is None else (context.replica_id_in_sync_group, context.num_replicas_in_sync)
