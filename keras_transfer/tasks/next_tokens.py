"""The data of causal language models: texts, and the next tokens as their targets."""

import keras
import numpy as np

from keras_transfer.core.arrays import to_numpy
from keras_transfer.metrics import Perplexity
from keras_transfer.objectives import NextToken
from keras_transfer.tasks.carried_state import check_streams
from keras_transfer.tasks.input_checks import check_no_pairs, check_no_windows
from keras_transfer.tasks.keras_losses import NAMED_LOSSES
from keras_transfer.tasks.labels import Labels
from keras_transfer.tasks.reader import Reader
from keras_transfer.tasks.used_places import UsedPlaces


class NextTokenReader(Reader):
    """Accepts texts for a language model, and trims outputs to the positions of each text.

    A text has as many positions with outputs as tokens, and `further_places` more.
    """

    further_places = 0

    def restore(self, data, predict):
        """Returns a list of arrays `[places, ..., vocabulary]`, the logits of each text."""
        lengths = data.inputs["padding_mask"].sum(axis=1) + self.further_places
        return predict.by_row(data, lambda row: slice(lengths[row]))

    def nothing(self, model, columns):
        return []


class NextTokens(Labels):
    """The next token at each position, which replaces labels."""

    are_ids = True
    optional = True
    objective = NextToken()

    def __init__(self, count):
        self.count = count

    def loss(self):
        return UsedPlaces(keras.losses.SparseCategoricalCrossentropy(from_logits=True), by_weight=True)

    def named_losses(self):
        return NAMED_LOSSES

    def weight_of(self, x, y, sample_weight):
        if sample_weight is None:
            return super().weight_of(x, y, sample_weight)
        return keras.ops.sum(keras.ops.cast(keras.ops.convert_to_tensor(sample_weight) != 0, "float32"))

    def metrics(self):
        return [Perplexity()]

    def named_metrics(self):
        return {"perplexity": Perplexity}

    def compiled(self, loss, metrics, weighted_metrics):
        """Returns the loss and weighted metrics. All metrics are weighted, so padding does not count."""
        metrics = self.metrics() if isinstance(metrics, str) and metrics == "auto" else metrics
        weighted = [*keras.tree.flatten(metrics or []), *keras.tree.flatten(weighted_metrics or [])]
        return super().compiled(loss, None, weighted)

    def check(self, labels, loss=None):
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
        if hasattr(data, "num_streams"):
            check_no_windows(data, task)
            check_streams(data.num_streams, getattr(task, "streams", None))
        if data.has_labels:
            check_no_pairs(data, type(task).__name__)
            return data
        # `data.real` has the lengths: the padding mask of a corpus would be as large as the corpus itself.
        if (data.real < 2).all():
            raise ValueError(
                "A causal language model learns to predict the next token, so at least one text must have two tokens. "
                f"Received: {len(data.real)} texts of one token"
            )
        return data.with_targets(lambda inputs, random: self.objective(inputs))
