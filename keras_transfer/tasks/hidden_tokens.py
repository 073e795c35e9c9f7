"""Hidden tokens: the targets that an objective makes from texts, and the base class of the tasks that predict them."""

from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.data import UNUSED
from keras_transfer.encoders import encode
from keras_transfer.metrics import WordAccuracy
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks.labels import check_integers
from keras_transfer.tasks.task import Task, of_part
from keras_transfer.tasks.token_targets import TokenTargets
from keras_transfer.text import check_rows_of_batches, to_list


class HiddenTokens(TokenTargets):
    """The tokens that an objective hides, which replace labels."""

    made_inputs: tuple[str, ...] = ("mask_positions",)
    objective_classes: tuple[type, ...] = (TokenMasking,)

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
        tokens = self.objective.tokens(task.preprocessor)

        def draw(inputs, random):
            inputs, targets = self.objective(inputs, random, **tokens)
            missing = set(self.made_inputs) - set(inputs)
            if missing:  # A user may have written the objective.
                raise ValueError(
                    f"`objective` must return inputs with `{min(missing)}`, as `{self.objective_classes[0].__name__}` "
                    f"does. Received: inputs with the keys {list(inputs)} from {type(self.objective).__name__}"
                )
            return inputs, targets

        return draw


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


def in_batches(task, texts, batch_size):
    """Yields the texts of each batch and their prepared inputs, or raises a `ValueError` if `texts` are none."""
    check_rows_of_batches(batch_size)
    if not task.reader.accepts(texts) or isinstance(texts, tuple):
        raise ValueError(f"`texts` must be a list of strings. Received: {type(texts).__name__}")
    texts = to_list(texts)
    for start in range(0, len(texts), batch_size):
        part = texts[start : start + batch_size]
        yield part, task.reader.inputs(part)


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
    rule = "`encoder` must have a `token_embedding` and return a vector for each token."
    expect(sequence is not None, rule, encoder=encoder)
    return table, sequence
