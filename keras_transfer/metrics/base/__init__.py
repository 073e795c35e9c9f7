"""What several metrics share: rows of a batch, and values that are kept until the result."""

from keras_transfer.metrics.base.buffered import BufferedMetric, midranks
from keras_transfer.metrics.base.rows import class_rows, count_classes, row_weights

__all__ = [
    "BufferedMetric",
    "class_rows",
    "count_classes",
    "midranks",
    "row_weights",
]
