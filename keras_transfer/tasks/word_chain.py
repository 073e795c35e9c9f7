"""The conditional random field of a `TokenClassifier`: its constraints, its loss and its predictions."""

import logging
from itertools import pairwise

import keras
import numpy as np
from keras import ops

from keras_transfer.metrics import OUTSIDE, read_labels

log = logging.getLogger("keras_transfer")
_STEP = 16  # Sentences are padded to a multiple of this, because JAX compiles each new shape.


def allowed_transitions(label_names):
    """Returns which label may follow which in well-formed entity labels, or `None` for other labels.

    If a type has a label `B-`, its `I-` and `E-` must follow `B-` or `I-`. If it has a label `E-`, its `B-` and `I-`
    must be followed by `I-` or `E-`. The last row and column of the booleans `[labels + 1, labels + 1]` stand for the
    boundary of a sentence.
    """
    try:
        labels = read_labels(label_names)
    except ValueError:  # The labels have no entities, such as those of parts of speech.
        return None
    given = set(labels)

    def allowed(before, after):
        same = before[1] == after[1]
        starts = after[0] not in "IE" or ("B", after[1]) not in given or (same and before[0] in "BI")
        ends = before[0] not in "BI" or ("E", before[1]) not in given or (same and after[0] in "IE")
        return starts and ends

    labels.append(OUTSIDE)
    return [[allowed(before, after) for after in labels] for before in labels]


def warn_of_impossible(batches, label_names, allowed):
    """Logs a warning if labels of sentences are not well-formed and therefore cannot be predicted."""
    if allowed is None or not batches.has_labels:
        return
    layout = batches.contents.layout
    boundary, names = len(label_names), [*label_names, "the boundary"]
    for number, ids in enumerate(layout.restore([batches.labels[layout.row, layout.position]])):
        for place, (before, after) in enumerate(pairwise([boundary, *ids.tolist(), boundary])):
            if not allowed[before][after]:
                log.warning(
                    "A `TokenClassifier` with `crf=True` never predicts labels that are not well-formed. Start each "
                    "entity with 'B-'. Received: %r after %r at word %d of sentence %d",
                    names[after],
                    names[before],
                    place,
                    number,
                )
                return


@keras.saving.register_keras_serializable(package="keras_transfer")
class ChainLoss(keras.losses.Loss):
    """The negative log-likelihood of the labels of rows under a conditional random field, per word.

    The sum over rows is divided by the number of words in the batch, so the loss has the scale of a cross-entropy. If
    all transitions of the field are 0, the loss equals the cross-entropy. Files do not contain the field, so the task
    sets it.

    Call arguments:
        y_true: Integers `[batch, length]`, negative if a position has no word.
        y_pred: Emissions `[batch, length, labels]`.
        sample_weight: Weights of rows `[batch]`.
    """

    counts_used_places = True

    def __init__(self, field=None, reduction="sum_over_batch_size", name="chain_loss"):
        super().__init__(name=name, reduction=reduction, dtype="float32")
        self.field = field

    def call(self, y_true, y_pred):
        real = y_true >= 0
        losses = -self.field.log_likelihood(y_pred, y_true, real)
        words = ops.maximum(ops.sum(ops.cast(real, "float32")), 1.0)
        return losses * ops.cast(ops.shape(losses)[0], "float32") / words  # Keras divides by the number of rows.


def weights_of_rows(weights, real):
    """Returns weights of positions `[batch, length]` as weights of rows, the mean over the words of each row."""
    real = ops.cast(real, weights.dtype)
    return ops.sum(weights * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)


def decode_sentences(decode, logits, batch_size=256):
    """Returns the most probable labels of each sentence [words], or the probabilities of all labels [words, labels].

    `decode` is this method of a `layers.ConditionalRandomField`, or `marginals`, and the logits are of sentences of any
    length.
    """
    found = []
    for start in range(0, len(logits), batch_size):
        part = logits[start : start + batch_size]
        width = -(-max(1, *map(len, part)) // _STEP) * _STEP
        emissions = np.stack([np.pad(values, [(0, width - len(values)), (0, 0)]) for values in part])
        mask = np.arange(width) < np.array([len(values) for values in part])[:, None]
        outputs = ops.convert_to_numpy(decode(emissions, mask))
        found += [row[: len(values)] for row, values in zip(outputs, part)]
    return found


def decode_ragged(field, logits):
    """Returns labels and probabilities for ragged logits `[sentences, None, labels]`, as outputs of a signature."""
    dense = ops.pad(logits.to_tensor(), [[0, 0], [0, 1], [0, 0]])  # A loop needs at least one position.
    sentence = ops.cast(logits.value_rowids(), "int32")
    place = ops.arange(ops.shape(sentence)[0], dtype="int32")
    place = place - ops.take(ops.cast(logits.row_starts(), "int32"), sentence)
    mask = ops.arange(ops.shape(dense)[1], dtype="int32") < ops.cast(logits.row_lengths(), "int32")[:, None]
    at = sentence * ops.shape(dense)[1] + place

    def at_words(values):
        return logits.with_values(ops.take(ops.reshape(values, (-1, *values.shape[2:])), at, axis=0))

    return {
        "label_id": at_words(field.decode(dense, mask)),
        "probabilities": at_words(field.marginals(dense, mask)),
    }
