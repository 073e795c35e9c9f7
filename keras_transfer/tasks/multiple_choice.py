"""Multiple choice: a context and several texts, of which the model chooses one."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.expect import expect, expects
from keras_transfer.data import choice_batches, choice_columns
from keras_transfer.encoders import select_inputs
from keras_transfer.tasks.card_facts import Purpose
from keras_transfer.tasks.class_labels import check_class_labels
from keras_transfer.tasks.heads import merge_parts
from keras_transfer.tasks.labels import RowLabels, as_numbers
from keras_transfer.tasks.pooled_task import PooledTask
from keras_transfer.tasks.reader import Reader, encode_texts
from keras_transfer.tasks.saved import settings_in
from keras_transfer.tasks.task import Signature, Task
from keras_transfer.text import is_text


class ChoiceReader(Reader):
    """Accepts a tuple `(contexts, choices)`: a column of texts, and a list of lists of texts."""

    takes_lists = True

    def accepts(self, x):
        return is_text(x) or (isinstance(x, tuple) and len(x) > 0 and is_text(x[0]))

    def columns(self, x):
        return choice_columns(x)

    def batch_of(self, parts):
        x, *others = super().batch_of(parts)
        if isinstance(x, tuple) and len(x) == 2 and isinstance(next(iter(x[1]), None), tuple):
            raise ValueError(
                "Choices of a loader must be a list of lists, one for each context. torch's `default_collate` turns "
                f"rows into columns, so pass your own `collate_fn`. Received: {x[1]!r:.200}"
            )
        return x, *others

    def batches(self, columns, y, **options):
        if y is not None:
            check_class_labels(y, len(columns[1][0]))
        return choice_batches(*columns, y, preprocessor=self.preprocessor, **options)

    def inputs(self, x):
        return self.in_one_batch(x)

    def nothing(self, model, columns):
        choices = next(iter(columns.values())).shape[1] if isinstance(columns, dict) else 0
        return np.zeros((0, choices), "float32")


class ChoicePositions(RowLabels):
    """The position of the right choice of each row. Positions are not classes."""

    def loss(self):
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def metrics(self):
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    def check(self, labels, loss=None):
        expected = "Labels must be the positions of the right choices, one integer for each row"
        values = as_numbers(labels, expected)
        is_column = values.ndim == 1 and values.dtype.kind != "b"
        expect(is_column, f"{expected}.", dtype=str(values.dtype), shape=values.shape)


@keras.saving.register_keras_serializable(package="keras_transfer")
class MultipleChoice(PooledTask):
    """A model that chooses one of several texts, such as the right ending of a story or the answer to a question.

    Each choice is packed with its context as a pair of texts. The encoder processes each pair separately, and a dense
    layer turns the pooled vector into a logit. A softmax over the choices of a row compares them.

    `fit`, `evaluate` and `predict` accept a tuple `(contexts, choices)`: a column of texts, and a list of lists of
    texts. All rows have the same number of choices. Labels are the positions of the right choices.

    `from_pretrained` loads the head of a checkpoint that was fine-tuned for multiple choice. For any other checkpoint,
    pass `head="new"`.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        preprocessor: Callable from pairs of texts to the encoder's inputs, or `None` for prepared ids. Defaults to
            `None`.
        pooling: String. `"pooled"` (the encoder's own pooled output) or a pooling of `layers.SequencePooling`, such as
            `"first"`, `"mean"` or `"max"`. Defaults to `None`: the pooling of the encoder's checkpoint, otherwise
            `"pooled"` if the encoder has that output, otherwise `"mean"`.
        dropout: Float between 0 and 1. Dropout rate before the dense layer. Defaults to `0.1`.
        hidden_activation: String or callable. Activation of an additional dense layer between the pooling and the
            dropout, as in RoBERTa heads. Defaults to `None`, for no such layer.
        hidden_norm: Boolean. Whether a layer norm follows that dense layer, as in ModernBERT heads. If so, neither has
            a bias. Defaults to `False`.
        scalar_mix: Boolean or `layers.ScalarMix`. Whether to pool a learned weighted mean of all encoder layers instead
            of the last layer. `model.scalar_mix` is the layer. Defaults to `False`.
        name: String. Name of the model. Defaults to `None`.

    Call arguments:
        inputs: Dict of the encoder's inputs `[batch, choices, length]`.

    Outputs:
        Logits `[batch, choices]`, float32. For inputs `[batch, length]`, the logit of each pair, `[batch, 1]`.

    Raises:
        ValueError: If `pooling` is unknown or not possible with the encoder, if `preprocessor` does not match the
            encoder, or if `hidden_norm=True` is used without `hidden_activation`.

    Example:
    ```python
    model = keras_transfer.tasks.MultipleChoice.from_pretrained("minilm-l6", head="new")
    contexts = ["It was cold, so", "She was thirsty, so"]
    choices = [["he lit a fire.", "he sang."], ["she slept.", "she drank."]]
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4))
    model.fit((contexts, choices), [0, 1])
    model.predict_choices((contexts, choices))
    ```

    Source: https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf, section 3.3;
    with BERT, https://arxiv.org/abs/1810.04805, section 4.4.
    """

    purpose = Purpose(
        "multiple-choice",
        "chooses one of several continuations of a text",
        'predict_choices((["A text"], [["goes on.", "ends."]]))',
        "AutoModelForMultipleChoice",
    )
    answers = ("predict_choices",)
    checkpoint_head = TaskHead(name="multiple_choice")

    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        pooling: str | None = None,
        dropout: float = 0.1,
        hidden_activation: str | Callable[..., Any] | None = None,
        hidden_norm: bool = False,
        scalar_mix: bool | keras.layers.Layer = False,
        name: str | None = None,
    ) -> None:
        settings = settings_in(locals())
        reader, labels = ChoiceReader(preprocessor), ChoicePositions()
        super().__init__(encoder, 1, reader, labels, settings, scalar_mix=scalar_mix, name=name)

    def call(self, inputs, training=None, mask=None):
        inputs, choices = merge_parts(select_inputs(inputs, self.input), self.input)
        logits = super().call(inputs, training=training, mask=mask)
        return logits if choices is None else ops.reshape(logits, (-1, choices))

    @expects()
    def predict_choices(
        self, x: tuple[Any, Any], *, batch_size: int | None = None, verbose: str | int = 0
    ) -> list[str]:
        """Returns the most likely choice of each row.

        Args:
            x: Tuple `(contexts, choices)`, as for `fit`.
            batch_size: Integer. Number of rows per batch. Defaults to `None`, for 32.
            verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `0`.

        Returns:
            List of strings, one choice for each context.

        Raises:
            ValueError: If `x` is anything else, if the task has no preprocessor, or if an output of the model is not a
                finite number.

        Example:
        ```python
        model = keras_transfer.tasks.MultipleChoice.from_pretrained("minilm-l6", head="new")
        model.predict_choices((["It was cold, so"], [["he lit a fire.", "he sang."]]))  # not trained yet
        ```
        """
        columns = self.reader.columns(x)
        logits = check_numbers(self.predict(columns, batch_size=batch_size, verbose=verbose))
        return [choices[row.argmax()] for choices, row in zip(columns[1], logits)]

    # === Export ===

    def signatures(self, pairs: bool = False) -> dict[str, Signature]:
        """Returns the signatures of an exported model.

        Args:
            pairs: Boolean. Must be `False`, because each choice is paired with its context anyway. Defaults to `False`.

        Returns:
            Dict of `Signature`s:
            - `"serving_default"`: from `context` `[batch]` and `choices` `[batch, choices]` to `choice`, the string,
              `choice_id` and `probabilities`
            - `"tokens"`: from the encoder's inputs `[batch, length]` to `logits` `[batch, 1]`, one for each pair,
              unless the encoder accepts text

        Raises:
            ValueError: If `pairs=True`.
        """

        def choose(context, choices):
            rows, count = ops.shape(choices)[0], ops.shape(choices)[1]
            texts = ops.reshape(choices, (-1,))
            contexts = ops.take(context, ops.arange(rows * count) // count)
            logits = self(encode_texts(self, contexts, texts), training=False)
            probabilities = ops.softmax(ops.reshape(logits, (-1, count)))
            best = ops.cast(ops.argmax(probabilities, axis=-1), "int32")
            choice = ops.take(texts, ops.arange(rows) * count + best)
            return {"choice": choice, "choice_id": best, "probabilities": probabilities}

        texts = {
            "context": keras.KerasTensor((None,), "string", name="context"),
            "choices": keras.KerasTensor((None, None), "string", name="choices"),
        }
        return {"serving_default": Signature(choose, texts), **Task.signatures(self, pairs)}
