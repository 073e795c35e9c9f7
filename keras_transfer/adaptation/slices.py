"""Slice-based learning: a classifier with an expert for each chosen part of the data, and attention over them."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.expect import TEXT, Rule, expect, expects, integer, list_of, number
from keras_transfer.tasks import Head, Labels, Task, TextClassifier
from keras_transfer.text import to_columns

_ALL, _LABEL = "all", "label"  # The slice that contains all texts, and the head of the classifier itself.


@keras.saving.register_keras_serializable(package="keras_transfer")
class SliceClassifier(TextClassifier):
    """A text classifier with an expert for each slice, a part of the data on which mistakes are expensive.

    Above the pooled vector of a text, each slice has an indicator, a logit q that says whether the text belongs to it,
    and an expert, a dense layer. A dense layer that all experts share makes logits of the classes from the vector of an
    expert. The logits of the text are those of a weighted mean of the experts' vectors, whose weights are softmax(q +
    p). The confidence p of an expert is the log odds of its most likely class, which is the absolute logit |p| of the
    paper for two classes. With `multi_label=True`, it is the mean absolute logit of all classes. Another expert is for
    all texts.

    `with_slices` returns the task that trains it. It is a `TextClassifier` otherwise: predictions, files and exports
    need no slices.

    Args:
        encoder: Encoder of this library (`hub.HubEncoder` for a TF Hub module), or a KerasHub backbone.
        preprocessor: Callable from texts to the encoder's inputs, or `None` for prepared ids. Defaults to `None`.
        slices: List of strings. Names of the slices.
        expert_dim: Integer. Width of the experts' vectors. Defaults to `None`, the width of the pooled vector.
        **kwargs: Other arguments of `TextClassifier`, such as `label_names`.

    Raises:
        ValueError: If names of slices are not unique, or are "all" or "label".

    Example:
    ```python
    texts, labels, slices = ["What a film!", "Why?"], ["good", "bad"], {"questions": lambda text: text.endswith("?")}
    model = keras_transfer.adaptation.SliceClassifier.from_pretrained(
        "minilm-l6", label_names=["bad", "good"], slices=["questions"]
    )
    both = model.with_slices()
    both.compile()
    both.fit(texts, model.slice_labels(texts, labels, slices))
    model.predict_labels(["A fine film."])
    ```

    Source: https://arxiv.org/abs/1909.06349
    """

    checkpoint_head = TaskHead(name="slices", sizes=("num_classes", "label_names"))  # No checkpoint contains it.

    @expects(slices=list_of(TEXT, 1), expert_dim=integer(1))
    def __init__(
        self,
        encoder: keras.Model,
        preprocessor: Callable[..., Any] | None = None,
        *,
        slices: Sequence[str],
        expert_dim: int | None = None,
        **kwargs: Any,
    ) -> None:
        rule = f"`slices` must be different names other than {_ALL!r} and {_LABEL!r}."
        expect(len({*slices} - {_ALL, _LABEL}) == len(slices), rule, slices=slices)
        super().__init__(encoder, preprocessor, **kwargs)

    @property
    def slices(self) -> list[str]:
        """List of strings. Names of the slices."""
        return list(self.arguments["slices"])

    def _combined(self, vectors, units):
        count = 1 + len(self.slices)
        dense = functools.partial(keras.layers.Dense, dtype="float32")
        width = self.arguments["expert_dim"] or vectors.shape[-1]
        indicators = dense(count, name="slice_indicators")(vectors)
        experts = ops.reshape(dense(count * width, name="slice_experts")(vectors), (-1, count, width))
        logits = dense(units, name="slice_logits")(experts)
        if self.arguments.get("multi_label"):
            confidence = ops.mean(ops.abs(logits), axis=-1)
        else:
            others = ops.where(ops.one_hot(ops.argmax(logits, axis=-1), units) > 0, -1e9, logits)
            confidence = ops.max(logits, axis=-1) - ops.logsumexp(others, axis=-1)
        weights = ops.softmax(indicators + confidence)
        return ops.sum(ops.expand_dims(weights, -1) * experts, axis=1)

    @expects(weight=number(0))
    def with_slices(self, weight: float = 1.0) -> Task:
        """Returns a task that trains this classifier, its experts and the indicators of its slices together.

        Its loss is that of the labels and, for each slice and for all texts, `weight` times the binary cross-entropy of
        the indicator plus the mean loss of the expert over the texts of the slice in a batch.

        Args:
            weight: Float. Factor of the losses of the slices. Defaults to `1.0`.

        Returns:
            A `Task` over the same layers (`Task.with_heads`) with the heads `label`, `all`, and one for each slice. It
            is not compiled. A `loss` for `compile` is that of the labels, and of the experts as in the paper.
            `slice_labels` returns its labels.
        """
        labels, heads = _SliceLabels(self.labels), {_LABEL: self.heads["head"]}
        indicators, logits = (self.get_layer(f"slice_{part}").output for part in ("indicators", "logits"))
        for place, name in enumerate((_ALL, *self.slices)):
            outputs = ops.concatenate([indicators[:, place : place + 1], logits[:, place]], axis=-1)
            heads[name] = Head(outputs, labels, weight)
        return self.with_heads(heads)

    @expects(slices=Rule("a dict from names to functions or columns", lambda value: isinstance(value, Mapping)))
    def slice_labels(self, texts: Any, labels: Any, slices: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns the labels of texts for the task of `with_slices`.

        Args:
            texts: List, array or column of texts, or a tuple of two of these.
            labels: Labels of the texts, as for `fit`.
            slices: Dict from the names of the slices to functions of a text (of both texts of a pair) that return
                whether it belongs to the slice, or to boolean columns `[texts]`.

        Returns:
            Dict of arrays. The labels of a slice are -1 outside of it.

        Raises:
            ValueError: If the names of `slices` are not those of this classifier, if a label is invalid, or if a slice
                has no boolean for each text, or contains none or all of them.
        """
        rule = f"`slices` must be a dict with the names of the slices of the model, {self.slices}."
        expect({*slices} == {*self.slices}, rule, slices=list(slices))
        labels = self.labels.encode(labels)
        self.labels.check(labels)
        labels, columns = np.asarray(labels), to_columns(texts)
        rows = list(zip(*columns)) if isinstance(columns, tuple) else [(text,) for text in columns]
        found = {_LABEL: labels, _ALL: labels}
        for name in self.slices:
            of = slices[name]
            members = np.array([of(*row) for row in rows] if callable(of) else of)
            rule = f"`slices[{name!r}]` must be a function, or a column, with True or False for each text."
            fits = members.dtype == bool and members.shape == (len(rows),) == labels.shape[:1]
            expect(fits, rule, members, texts=len(rows), labels=len(labels))
            rule = "A slice must contain some of the texts, and not all."
            expect(0 < members.sum() < len(rows), rule, slice=name, members=int(members.sum()), texts=len(rows))
            found[name] = np.where(members.reshape(-1, *[1] * (labels.ndim - 1)), labels, -1)
        return found


class _SliceLabels(Labels):
    """The labels of a classifier, which are negative outside of a slice, for an indicator and an expert."""

    one_of = False

    def __init__(self, labels):
        self.labels = labels

    def compiled(self, loss, metrics, weighted_metrics):
        given = [each for each in (metrics, weighted_metrics) if each is not None and each != "auto"]
        expect(not given, f"A slice has no metrics. Pass those of the labels as {{{_LABEL!r}: [...]}}.", metrics=given)
        loss, *_ = self.labels.compiled(loss, None, None)
        return None if loss is None else _loss_of_slice(keras.losses.get(loss)), None, None


def _loss_of_slice(loss):
    """Returns the loss of an indicator and an expert, given that of the labels."""
    loss = getattr(loss, "call", loss)  # Of a `Loss`, the values of all rows.

    def loss_of_slice(y_true, y_pred):
        inside = ops.cast((y_true if len(y_true.shape) == 1 else y_true[:, 0]) >= 0, "float32")
        share = inside * ops.cast(ops.size(inside), "float32") / ops.maximum(ops.sum(inside), 1.0)
        indicator = keras.losses.binary_crossentropy(inside[:, None], y_pred[:, :1], from_logits=True)
        return indicator + share * loss(ops.maximum(y_true, 0), y_pred[:, 1:])

    return loss_of_slice
