"""Answers as labels: their texts and positions in contexts, or the positions of their tokens in prepared data."""

import keras
import numpy as np
from keras import ops

from keras_transfer.arrays import to_array, to_numpy
from keras_transfer.batches import Batches
from keras_transfer.losses import SmoothedCrossentropy
from keras_transfer.tasks.labels import NAMED_LOSSES, Labels


class Spans(Labels):
    """`(text, start)` or `None` for each question. Labels of prepared data are token positions `[rows, 2]`."""

    def loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def compiled(self, loss, metrics, weighted_metrics):
        if any(isinstance(each, SmoothedCrossentropy) for each in keras.tree.flatten(loss)):
            raise ValueError(
                "`loss` cannot be a `SmoothedCrossentropy`, which would give a part of the probability to positions "
                "where no answer can be, such as padding. Use `loss='auto'` or `'focal'`. "
                f"Received: loss={loss!r:.100}"
            )
        return super().compiled(loss, metrics, weighted_metrics)

    def named_losses(self):
        return {"focal": NAMED_LOSSES["focal"]}

    def encode(self, labels):
        labels = super().encode(labels)
        positions = isinstance(labels, (list, tuple)) and bool(labels) and all(map(_are_positions, labels))
        return np.asarray(labels) if positions else labels

    def check(self, labels, loss=None, inputs=None):
        if inputs is not None:
            _check_positions(labels, inputs.get("answer_mask"))
            return
        labels = to_numpy(labels) if ops.is_tensor(labels) else labels
        if getattr(getattr(labels, "dtype", None), "kind", "O") == "O":
            return  # `span_batches` checks answers.
        _check_positions(labels)

    def targets(self, data, task):
        """Returns the data unchanged, and raises a `ValueError` if an answer is where `answer_mask` is 0."""
        if isinstance(data, Batches) and data.has_labels and "answer_mask" in data.inputs:
            _check_positions(data.labels, data.inputs["answer_mask"])
        return data


def _are_positions(row):
    is_row = isinstance(row, (list, tuple)) or getattr(row, "ndim", 0) == 1
    return is_row and all(isinstance(value, (int, np.integer)) for value in row)


def _check_positions(labels, answer_mask=None):
    """Raises a `ValueError` if labels of prepared data are not positions [rows, 2] where `answer_mask` is 1."""
    try:
        labels = to_array(labels)
    except ValueError:  # Answers cannot become an array if some of them are None.
        labels = np.array(labels, object)
    if labels.ndim != 2 or labels.shape[1] != 2 or labels.dtype.kind not in "iu" or (labels < 0).any():
        raise ValueError(
            "Answers must be a list of `(text, start)` or None. Labels of prepared data must be the positions of "
            "the first and of the last token, integers [batch, 2] of at least 0. "
            f"Received: {labels.dtype} of shape {labels.shape}"
        )
    if answer_mask is None:
        return
    mask = to_numpy(answer_mask)
    if len(mask) != len(labels):
        raise ValueError(
            f"Inputs and labels must have the same number of rows. Received: {len(mask)} and {len(labels)}"
        )
    inside = np.minimum(labels, mask.shape[1] - 1).astype("int64")
    wrong = np.argwhere((labels != inside) | (np.take_along_axis(mask, inside, axis=1) == 0))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            "Labels of prepared data must be positions where `answer_mask` is 1: the first one, for no answer, "
            f"or those of the context. Received: {labels[row, column]} in row {row}, which has "
            f"{mask.shape[1]} positions"
        )
