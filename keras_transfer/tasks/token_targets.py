"""Targets that are tokens of the texts themselves, such as the next tokens of causal language models."""

import functools

import keras
import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.data import UNUSED
from keras_transfer.metrics import Perplexity, WordAccuracy
from keras_transfer.objectives import NextToken, Objective
from keras_transfer.tasks.keras_losses import NAMED_LOSSES, UsedPlaces
from keras_transfer.tasks.labels import Labels, Places, WeightedPlaces, check_integers
from keras_transfer.tasks.reader import Reader, check_no_pairs, check_no_windows


class TokenTargets(Labels):
    """Token ids that an objective makes of texts, so that raw text needs no labels.

    Prepared data has all of `made_inputs` and the targets.

    Args:
        count: Integer. Number of different ids.
        objective: `objectives.Objective`. Defaults to `None`.

    Attributes:
        needs_objective: Boolean. Whether `objective` cannot be `None`.
        reads: Tuple of strings. The first of the inputs that an objective must make.
        axes: Tuple of `None` or an integer for each axis of prepared targets.
    """

    optional = True
    places = Places()
    named_losses = NAMED_LOSSES
    needs_objective = True
    axes: tuple[int | None, ...] = (None, None)

    def __init__(self, count, objective=None):
        self.count, self.objective = count, objective

    @property
    def reads(self):
        return self.made_inputs

    @property
    def objective(self):
        return self._objective

    @objective.setter
    def objective(self, objective):
        fits = isinstance(objective, Objective) and objective.made_inputs[: len(self.reads)] == self.reads
        rule = f"`objective` must be an `objectives.Objective` that makes the inputs {list(self.reads)}."
        expect(fits or (objective is None and not self.needs_objective), rule, objective=objective)
        self._objective = objective

    def check(self, labels, loss=None):
        marked = not isinstance(self.places, WeightedPlaces)
        unused = f", and {UNUSED} at unused places" if marked else ""
        axes = ", ".join(["batch", "places", *map(str, self.axes[2:])])
        check_integers(
            labels,
            "Raw text has no labels, since the task makes its targets. Leave `y` out. Targets of prepared data must be "
            f"integers [{axes}] from 0 to {self.count - 1}{unused}.",
            *(self.count, UNUSED if marked else 0, self.axes),
        )

    def draws(self, task):
        """Returns a function from the inputs of a batch and a `np.random.Generator` to new inputs and their targets."""
        return functools.partial(self.objective, **self.objective.tokens(task.preprocessor))

    def targets(self, data, task):
        check_no_pairs(data, type(task).__name__)
        if data.contents.prepare is not None:
            return data
        found = [f"`{name}`" for name in self.made_inputs if name in data.inputs] + ["targets"] * data.has_labels
        if not found:
            return data.with_targets(self.draws(task), getattr(self.objective, "seed", None))
        if len(found) <= len(self.made_inputs):
            raise ValueError(
                f"A `{type(task).__name__}` makes `{'`, `'.join(self.made_inputs)}` and their targets of data that has "
                f"none of these. Pass all of them, or none. Received: only {' and '.join(found)}"
            )
        return data


class NextTokens(TokenTargets):
    """The next token at each position."""

    places = WeightedPlaces()
    named_metrics = {"perplexity": Perplexity}

    def __init__(self, count):
        super().__init__(count, NextToken())

    def loss(self):
        return UsedPlaces(keras.losses.SparseCategoricalCrossentropy(from_logits=True), by_weight=True)

    def metrics(self):
        return [Perplexity()]

    def compiled(self, loss, metrics, weighted_metrics):
        """Returns the loss and weighted metrics. All metrics are weighted, so padding does not count."""
        loss, *metrics = super().compiled(loss, metrics, weighted_metrics)
        return loss, None, [metric for given in metrics for metric in keras.tree.flatten(given or [])]

    def targets(self, data, task):
        if data.num_streams is not None:
            check_no_windows(data, task)
            check_streams(data.num_streams, getattr(task, "streams", None))
        # `data.real` has the lengths: the padding mask of a corpus would be as large as the corpus itself.
        if not data.has_labels and (data.real < 2).all():
            raise ValueError(
                "A causal language model learns to predict the next token, so at least one text must have two tokens. "
                f"Received: {len(data.real)} texts of one token"
            )
        return super().targets(data, task)


class HiddenTokens(TokenTargets):
    """The tokens that an objective hides, which replace labels."""

    made_inputs: tuple[str, ...] = ("mask_positions",)

    def loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=UNUSED)

    def metrics(self):
        return [WordAccuracy()]

    def check_inputs(self, inputs, labels=None):
        if not {"token_ids", *self.made_inputs} <= set(inputs):
            return
        rows, length = np.shape(inputs["token_ids"])[0], np.shape(inputs["token_ids"])[-1]
        places = check_integers(
            inputs["mask_positions"],
            f"`mask_positions` must be integers [batch, places] below the length of the texts, {length}, and negative "
            f"at unused places, for {rows} rows.",
            *(length, -np.inf, (rows, None)),
        )
        if labels is not None and np.shape(labels) != places.shape:
            raise ValueError(
                "Targets must be integers [batch, places], one for each of `mask_positions`, which are of shape "
                f"{places.shape}. Received: targets of shape {np.shape(labels)}"
            )

    def draws(self, task):
        task.reader.require()
        return super().draws(task)


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


def check_streams(batch_size, num_streams, task_name="CausalLM"):
    """Raises a `ValueError` if batches have a different number of texts from the state of a task."""
    if num_streams is None:
        raise ValueError(
            "A task that trains on streams carries their state. Create it with the number of streams, as in "
            f"`{task_name}(encoder, streams={batch_size})`. Received: streams=None"
        )
    rule = "The data must have as many streams as the task, whose state has a row for each of them."
    is_known = isinstance(batch_size, int)
    if is_known:
        expect(batch_size == num_streams, rule, streams_of_data=batch_size, streams=num_streams)
