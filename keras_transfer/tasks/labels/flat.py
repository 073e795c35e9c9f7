"""Labels with an axis of size 1, such as a column of a table, and how to remove this axis."""

import numpy as np

from keras_transfer.arrays import whole_column
from keras_transfer.batches import Batches
from keras_transfer.tasks.inputs import is_stream


def flat_labels(labels):
    """Returns labels `[rows, 1]` as `[rows]`, and any others unchanged.

    Keras on TensorFlow otherwise fails if a model is trained with labels of both shapes, because the rank of the labels
    of a compiled step is then unknown.
    """
    labels = whole_column(labels)
    shape = getattr(labels, "shape", None)
    try:
        shape = np.shape(labels) if shape is None else shape
    except ValueError:  # Rows differ in length, which the check of labels reports.
        return labels
    if len(shape) != 2 or shape[1] != 1:
        return labels
    labels = np.asarray(labels) if hasattr(labels, "iloc") else labels  # A table selects columns by their names.
    return labels[:, 0] if hasattr(labels, "shape") else [row[0] for row in labels]


def with_flat_labels(dataset):
    """Returns batches or a stream with labels [rows, 1] as [rows], and any other dataset unchanged."""
    if isinstance(dataset, Batches) and dataset.labels is not None:
        labels = flat_labels(dataset.labels)
        return dataset if labels is dataset.labels else dataset.replace(labels=labels)
    spec = dataset.element_spec if is_stream(dataset) else None
    shape = getattr(spec[1], "shape", None) if isinstance(spec, tuple) and len(spec) > 1 else None
    if shape is None or shape.rank != 2 or shape[1] != 1:
        return dataset
    return dataset.map(lambda x, y, *rest: (x, y[:, 0], *rest))
