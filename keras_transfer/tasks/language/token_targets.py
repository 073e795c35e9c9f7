"""Targets that language models make from texts: the next token of each, or the tokens that an objective hides."""

import keras
import numpy as np

from keras_transfer.batches import Batches
from keras_transfer.metrics.words import Perplexity, WordAccuracy
from keras_transfer.objectives import NextToken
from keras_transfer.tasks.labels import Labels
from keras_transfer.text.base import to_numpy

UNUSED = -1  # The target at places that a text does not use.


class NextTokens(Labels):
    """The next token at each position, in the place of labels.

    Args:
        count: Integer. Number of tokens that the model predicts.
    """

    optional = True
    objective = NextToken()

    def __init__(self, count):
        self.count = count

    def loss(self):
        # Keras's default reduction would divide by the number of all positions.
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")

    def metrics(self):
        return [Perplexity()]

    def named_metrics(self):
        return {"perplexity": Perplexity}

    def compiled(self, loss, metrics, weighted_metrics):
        """Returns the loss and weighted metrics. All metrics are weighted, so that padding does not count."""
        metrics = self.metrics() if isinstance(metrics, str) and metrics == "auto" else metrics
        weighted = [*keras.tree.flatten(metrics or []), *keras.tree.flatten(weighted_metrics or [])]
        return super().compiled(loss, None, weighted)

    def check(self, labels, loss=None, inputs=None):
        labels = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels, object)
        if (
            labels.ndim != 2
            or labels.dtype.kind not in "iu"
            or labels.min(initial=0) < 0
            or labels.max(initial=0) >= self.count
        ):
            raise ValueError(
                "A language model makes its targets from texts. Leave `y` out. Targets of prepared data must be "
                f"integers [batch, length] from 0 to {self.count - 1}. Received: {labels.dtype} of shape {labels.shape}"
            )

    def class_weight(self, weights, labels=None):
        raise ValueError(
            f"`class_weight` cannot be used with a language model. Received: class_weight={weights!r:.100}"
        )

    def targets(self, data, task):
        if not isinstance(data, Batches) or data.has_labels:
            return data
        if not np.asarray(data.inputs["padding_mask"])[:, 1:].any():
            raise ValueError(
                "A causal language model learns to predict the next token, so at least one text must have two tokens. "
                f"Received: {len(data.order)} texts of one token"
            )
        return data.with_targets(lambda inputs, random: self.objective(inputs))


class HiddenTokens(Labels):
    """The tokens that an objective hides, in the place of labels.

    Args:
        objective: `objectives.TokenMasking`.
        count: Integer. Number of tokens that the model predicts.
    """

    optional = True

    def __init__(self, objective, count):
        self.objective, self.count = objective, count

    def loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=UNUSED)

    def metrics(self):
        return [WordAccuracy()]

    def check(self, labels, loss=None, inputs=None):
        labels = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels)
        if labels.ndim != 2 or labels.dtype.kind not in "iu" or (labels < UNUSED).any() or (labels >= self.count).any():
            raise ValueError(
                "Raw text has no labels, since the objective makes the targets. Targets of prepared data must be "
                f"integers [batch, places] below {self.count}, and {UNUSED} at unused places. "
                f"Received: {labels.dtype} of shape {labels.shape}"
            )

    def targets(self, data, task):
        if not isinstance(data, Batches) or data.has_labels or "mask_positions" in data.inputs:
            return data
        task.reader.require()
        tokens = self.objective.tokens(task.preprocessor)

        def make(inputs, random):
            return self.objective(inputs, random, **tokens)

        return data.with_targets(make, self.objective.seed)


def own_loss_only(name, loss, metrics, weighted_metrics):
    """Returns the loss and the metrics of a task that computes its own, and raises a `ValueError` for others."""
    given = {"loss": loss, "metrics": metrics, "weighted_metrics": weighted_metrics}
    for argument, value in given.items():
        if value is not None and not (isinstance(value, str) and value == "auto"):
            raise ValueError(
                f"A `{name}` has its own loss and metrics. Leave `loss`, `metrics`, `weighted_metrics` and "
                f"`loss_weights` out. Received: {argument}={value!r}"
            )
    return None, None, None
