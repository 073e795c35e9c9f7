"""Hidden tokens: the targets that an objective makes from texts, and the base class of the tasks that predict them."""

from typing import Any

import keras
import numpy as np

from keras_transfer.core.arrays import to_numpy
from keras_transfer.data import UNUSED
from keras_transfer.encoders import encode
from keras_transfer.metrics import WordAccuracy
from keras_transfer.objectives import PermutationLanguageModel, SequenceObjective, TokenMasking
from keras_transfer.tasks.input_checks import check_no_pairs
from keras_transfer.tasks.keras_losses import NAMED_LOSSES
from keras_transfer.tasks.labels import Labels, lacks_targets
from keras_transfer.tasks.reader import Reader
from keras_transfer.tasks.task import Task, of_part

_OBJECTIVES = (TokenMasking, PermutationLanguageModel, SequenceObjective)


class HiddenTokenReader(Reader):
    """Accepts texts for a task whose objective hides some of their tokens."""

    def __init__(self, preprocessor, task_name, method):
        super().__init__(preprocessor)
        self.task_name, self.method = task_name, method

    def check(self, x, method):
        if method == "predict" and self.accepts(x):
            raise ValueError(f"`predict` requires prepared inputs{self.advice()}. Received: {x!r:.100}")

    def advice(self):
        """Returns the end of a sentence that says how to predict texts."""
        return f". Use `{self.method}(texts)` for texts"

    def batches(self, columns, y, sample_weight, batch_size, shuffle):
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"`y` and `sample_weight` must be None for raw text, since a `{self.task_name}` makes its targets. "
                f"Received: {'sample_weight' if y is None else 'y'}"
            )
        return super().batches(columns, None, None, batch_size, shuffle)


class HiddenTokens(Labels):
    """The tokens that an objective hides, which replace labels."""

    objective_class: type = TokenMasking
    are_ids = of_places = True
    optional = True
    made_inputs: tuple[str, ...] = ("mask_positions",)

    def __init__(self, objective, count):
        self.objective, self.count = objective, count

    @property
    def objective(self):
        return self._objective

    @objective.setter
    def objective(self, objective):
        is_like = callable(objective) and all(hasattr(objective, name) for name in ("tokens", "seed"))
        others = (type, *_OBJECTIVES)
        if not isinstance(objective, self.objective_class) and (not is_like or isinstance(objective, others)):
            raise ValueError(
                f"`objective` must be a `{self.objective_class.__name__}`, or have its methods. "
                f"Received: objective={objective!r:.100}"
            )
        self._objective = objective

    def loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=UNUSED)

    def named_losses(self):
        return NAMED_LOSSES

    def metrics(self):
        return [WordAccuracy()]

    def check(self, labels, loss=None):
        labels = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels)
        if labels.ndim != 2 or labels.dtype.kind not in "iu" or (labels < UNUSED).any() or (labels >= self.count).any():
            raise ValueError(
                "Raw text has no labels, since the objective makes the targets. Targets of prepared data must be "
                f"integers [batch, places] below {self.count}, and {UNUSED} at unused places. "
                f"Received: {labels.dtype} of shape {labels.shape}"
            )

    def check_inputs(self, inputs, labels=None):
        if not {"token_ids", *self.made_inputs} <= set(inputs):
            return
        ids, positions = (to_numpy(inputs[name]) for name in ("token_ids", "mask_positions"))
        rows, length = ids.shape[0], ids.shape[-1]
        if positions.ndim != 2 or positions.dtype.kind not in "iu" or len(positions) != rows:
            raise ValueError(
                "`mask_positions` must be integers [batch, places], negative at unused places. "
                f"Received: {positions.dtype} of shape {positions.shape}, for {rows} rows"
            )
        if positions.max(initial=UNUSED) >= length:
            raise ValueError(
                f"`mask_positions` must be below the length of the texts, {length}. Received: {positions.max()}"
            )
        if labels is not None and np.shape(labels) != positions.shape:
            raise ValueError(
                "Targets must be integers [batch, places], one for each of `mask_positions`, which are of shape "
                f"{positions.shape}. Received: targets of shape {np.shape(labels)}"
            )

    def targets(self, data, task):
        check_no_pairs(data, type(task).__name__)
        if not lacks_targets(data, self.made_inputs):
            self._check_complete(data, type(task).__name__)
            return data
        return data.with_targets(self.draws(task), self.objective.seed)

    def draws(self, task):
        task.reader.require()
        tokens = self.objective.tokens(task.preprocessor)

        def draw(inputs, random):
            inputs, targets = self.objective(inputs, random, **tokens)
            missing = set(self.made_inputs) - set(inputs)
            if missing:  # A user may have written the objective.
                raise ValueError(
                    f"`objective` must return inputs with `{min(missing)}`, as `{self.objective_class.__name__}` does. "
                    f"Received: inputs with the keys {list(inputs)} from {type(self.objective).__name__}"
                )
            return inputs, targets

        return draw

    def _check_complete(self, data, task_name):
        """Raises a `ValueError` if data has some of the inputs and targets that the objective makes, but not all."""
        if data.contents.prepare is not None:
            return
        found = [f"`{name}`" for name in self.made_inputs if name in data.inputs] + ["labels"] * data.has_labels
        if 0 < len(found) <= len(self.made_inputs):
            raise ValueError(
                f"A `{task_name}` makes `{'`, `'.join(self.made_inputs)}` and their targets of data that has none of "
                f"these. Pass all of them, or none. Received: only {' and '.join(found)}"
            )


class HiddenTokenTask(Task):
    """Base class of the tasks whose objective hides tokens."""

    objective = of_part("labels", "objective", "The objective, such as `objectives.TokenMasking`.")

    def predict_on_batch(self, x: Any) -> Any:
        """Returns the outputs for one batch. Raw text is prepared as in a call of the model.

        Args:
            x: Raw text in memory or a dict of prepared inputs: one batch.

        Returns:
            Float array of logits, or a dict of such arrays.
        """
        return super().predict_on_batch(self.reader.inputs(x) if self.reader.accepts(x) else x)


def check_reads_ahead(encoder):
    """Raises a `ValueError` if the tokens of an encoder see only earlier or only later ones."""
    backward = getattr(encoder, "reverse", False)
    if getattr(encoder, "is_causal", False) or backward:
        raise ValueError(
            "A hidden token is predicted from the tokens on both sides, but the tokens of this encoder see only "
            f"{'later' if backward else 'earlier'} ones. Use a `CausalLM`. Received: {type(encoder).__name__}"
        )


def tokens_of(encoder):
    """Returns an encoder's token embedding layer, and its symbolic token vectors."""
    table = getattr(encoder, "token_embedding", None)
    sequence = None if table is None else encode(encoder).sequence
    if sequence is None:
        raise ValueError(
            f"`encoder` must have a `token_embedding` and return a vector for each token. Received: encoder={encoder!r}"
        )
    return table, sequence
