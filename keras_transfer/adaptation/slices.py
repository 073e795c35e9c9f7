"""Slice-based learning: a classifier with an expert for each chosen part of the data, and attention over them."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation.distillation_signals import VALIDATION_DATA, StoredLabels
from keras_transfer.checkpoints import TaskHead
from keras_transfer.core.expect import TEXT, Rule, expect, expects, instance_of, integer, list_of, number
from keras_transfer.core.names import argument_names, check_arguments
from keras_transfer.tasks import Head, TextClassifier
from keras_transfer.text import is_text, to_columns

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

    `fit_slices` trains it. It is a `TextClassifier` otherwise: predictions, files and exports need no slices.

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
    model = keras_transfer.adaptation.SliceClassifier.from_pretrained(
        "minilm-l6", label_names=["bad", "good"], slices=["questions"]
    )
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


@expects(
    model=instance_of(SliceClassifier, "a `SliceClassifier`"),
    slices=Rule("a dict from the names of slices to functions or columns", lambda value: isinstance(value, Mapping)),
    weight=number(0),
    validation_data=VALIDATION_DATA,
    epochs=integer(1),
)
def fit_slices(
    model: SliceClassifier,
    texts: Any,
    labels: Any,
    slices: Mapping[str, Any],
    *,
    weight: float = 1.0,
    sample_weight: Any = None,
    validation_data: Any = None,
    epochs: int = 1,
    batch_size: int | None = None,
    optimizer: Any = "auto",
    loss: Any = "auto",
    metrics: Any = "auto",
    **kwargs: Any,
) -> keras.callbacks.History:
    """Trains a classifier, its experts and the indicators of its slices together.

    A task with a head for each slice (`task.with_heads`) is compiled and fitted, and nothing else. Its loss is that of
    the labels plus, for each slice and for all texts, `weight` times the binary cross-entropy of the indicator and the
    mean loss of the expert over the texts of the slice in the batch. The model itself is not compiled.

    Args:
        model: `SliceClassifier`.
        texts: Texts or pairs of texts in memory, as for `fit`.
        labels: Labels of the texts, as for `fit`.
        slices: Dict from the names of the model's slices to functions of a text (of both texts for pairs) that return
            whether it belongs to the slice, or to boolean columns `[texts]`.
        weight: Float. Factor of the losses of the indicators and the experts. Defaults to `1.0`.
        sample_weight: Array of floats `[texts]`. Weights of the texts. Defaults to `None`.
        validation_data: Tuple `(texts, labels)`, to evaluate the answers of the model after each epoch, and no
            slices. Defaults to `None`.
        epochs: Integer. Number of epochs. Defaults to `1`.
        batch_size: Integer. Number of texts in a batch. Defaults to `None`, for 32.
        optimizer: Keras optimizer, or its name. Defaults to `"auto"`, as for `Task.compile`.
        loss: Loss of the labels, for the answers and the experts. Defaults to `"auto"`, the loss of the model.
        metrics: List of metrics of the labels. Defaults to `"auto"`, the metrics of the model.
        **kwargs: Other arguments of `fit`, such as `callbacks` or `verbose`.

    Returns:
        Keras's `History`. The head of the answers is `label`, that of the expert for all texts is `all`, and the others
        have the names of the slices.

    Raises:
        ValueError: If the names of `slices` are not those of the model, if a slice has no boolean for each text, or
            contains none or all of them; or if the texts are not in memory.

    Example:
    ```python
    model = keras_transfer.adaptation.SliceClassifier.from_pretrained(
        "minilm-l6", label_names=["bad", "good"], slices=["questions"]
    )
    slices = {"questions": lambda text: text.endswith("?")}
    keras_transfer.adaptation.fit_slices(model, ["What a film!", "Why?"], ["good", "bad"], slices)
    ```

    Source: https://arxiv.org/abs/1909.06349
    """
    check_arguments("fit_slices", kwargs, [*argument_names(fit_slices), *inspect.signature(keras.Model.fit).parameters])
    data = _read(model, texts, labels, sample_weight, batch_size, True)
    of_slices = _members(model, texts, slices)
    given = keras.losses.get(model.labels.compiled(loss, None, None)[0])
    head = StoredLabels(_loss_of_slice(given.call if isinstance(given, keras.losses.Loss) else given))
    indicators, logits = (model.get_layer(f"slice_{part}").output for part in ("indicators", "logits"))
    heads = {_LABEL: model.heads["head"]}
    for place, name in enumerate(of_slices):
        outputs = ops.concatenate([indicators[:, place : place + 1], logits[:, place]], axis=-1)
        heads[name] = Head(outputs, head, weight)
    both = model.with_heads(heads)
    both.compile(optimizer, loss={_LABEL: loss}, metrics={_LABEL: metrics})

    def with_slices(data, of_slices, sample_weight):
        labels = np.asarray(data.labels)
        labels = labels.astype("float32" if labels.dtype.kind == "f" else "int32")
        rows = (-1, *[1] * (labels.ndim - 1))
        found = {name: np.where(members.reshape(rows), labels, -1) for name, members in of_slices.items()}
        options = {"prepare": None, "makes_labels": False, "seed": None}
        return data.replace(labels={_LABEL: labels, **found}, sample_weight=sample_weight, **options)

    data = with_slices(data, of_slices, data.sample_weight)
    if validation_data is not None:
        x, y, weights = (*validation_data, None)[:3]
        others = _read(model, x, y, weights, batch_size, False)
        count = len(others.labels)
        weights = np.ones(count, "float32") if others.sample_weight is None else others.sample_weight
        weights = {name: weights if name == _LABEL else np.zeros(count, "float32") for name in heads}
        validation_data = with_slices(others, {name: np.ones(count, bool) for name in of_slices}, weights)
    return both.fit(data, epochs=epochs, validation_data=validation_data, **kwargs)


def _read(model, texts, labels, sample_weight, batch_size, shuffle):
    """Returns texts with labels as `Batches`."""
    rule = "`texts` must be in memory: a list of texts, or a tuple of two lists for pairs."
    expect(is_text(texts), rule, texts=texts)
    expect(labels is not None, "Each text requires a label.", labels=labels)
    return model.dataset(texts, labels, sample_weight, batch_size=batch_size, shuffle=shuffle)


def _members(model, texts, slices):
    """Returns which texts are in each slice, a dict of boolean arrays, first that of all texts."""
    rule = f"`slices` must be a dict with the names of the model's slices, {model.slices}."
    expect({*slices} == {*model.slices}, rule, slices=list(slices))
    columns = to_columns(texts)
    rows = list(zip(*columns)) if isinstance(columns, tuple) else [(text,) for text in columns]
    found = {_ALL: np.ones(len(rows), bool)}
    for name in model.slices:
        of = slices[name]
        found[name] = members = np.array([of(*row) for row in rows] if callable(of) else of)
        rule = f"`slices[{name!r}]` must be a function, or a column, with True or False for each text."
        expect(members.dtype == bool and members.shape == (len(rows),), rule, members, texts=len(rows))
        rule = "A slice must contain some of the texts, and not all."
        expect(0 < members.sum() < len(rows), rule, slice=name, members=int(members.sum()), texts=len(rows))
    return found


def _loss_of_slice(loss):
    """Returns the loss of an indicator and an expert, whose labels are negative outside of the slice."""

    def loss_of_slice(y_true, y_pred):
        inside = ops.cast((y_true if len(y_true.shape) == 1 else y_true[:, 0]) >= 0, "float32")
        share = inside * ops.cast(ops.size(inside), "float32") / ops.maximum(ops.sum(inside), 1.0)
        indicator = keras.losses.binary_crossentropy(inside[:, None], y_pred[:, :1], from_logits=True)
        return indicator + share * loss(ops.maximum(y_true, 0), y_pred[:, 1:])

    return loss_of_slice
