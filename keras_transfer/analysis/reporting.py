"""A report on a model: its predictions for labeled data, and their analysis by the report classes."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.classification_report import ClassificationReport
from keras_transfer.analysis.multi_label_report import MultiLabelReport
from keras_transfer.analysis.scores import softmax
from keras_transfer.core.expect import expect, expects
from keras_transfer.data import multi_hot, positions_of
from keras_transfer.tasks import Task, count_rows
from keras_transfer.text import is_text, to_columns


@expects()
def report(
    model: Any,
    x: Any,
    y: Any,
    *,
    slices: dict[str, Any] | None = None,
    seed: int = 0,
    label_names: Sequence[str] | None = None,
    num_examples: int = 10,
    resamples: int = 1000,
    confidence: float = 0.95,
    from_logits: bool | None = None,
) -> ClassificationReport | MultiLabelReport:
    """Evaluates a classifier on labeled data, and returns a report on how good it is and where it fails.

    The report has metrics with intervals, the scores of each class, the confusion matrix (unless rows have several
    labels), the calibration, the scores of slices of the data, and the examples that are hardest for the model.
    `print(report)` shows it as text, and `report.to_html(path)` writes it as a page with pictures.

    Args:
        model: `tasks.TextClassifier`, or another model with one label for each row: one with `predict_proba`, such as a
            scikit-learn model, or a Keras model whose outputs are logits `[rows, classes]`.
        x: Data in memory, as for `model.predict`: texts, a tuple of two columns of texts, or arrays.
        y: Labels `[rows]`. Integers, or class names. For a scikit-learn model, values of its `classes_`, even if
            `label_names` renames them. With `multi_label=True`, labels as for `fit`.
        slices: Dict from names to slices of the data. Three slices by the length of texts are always added. A slice is
            one of:
            - a word or a list of words: the texts that contain one of them, in upper or lower case
            - a function of the text (of both texts for pairs) that returns whether it belongs to the slice, or the name
              of its group, or None (or NaN) for no group
            - an array `[rows]` of such values
            Defaults to `None`, for no other slices.
        seed: Integer. Seed of the bootstrap. Defaults to `0`.
        label_names: List of strings. Class names. Defaults to `None`, the class names of the model.
        num_examples: Integer. Number of examples of each kind. Defaults to `10`.
        resamples: Integer. Number of resamples of the bootstrap. Defaults to `1000`.
        confidence: Float between 0 and 1. Confidence of the intervals. Defaults to `0.95`.
        from_logits: Boolean. Whether the outputs of a Keras model without `predict_proba` are logits rather than
            probabilities. Defaults to `None`, for `True`.

    Returns:
        A `ClassificationReport`, or a `MultiLabelReport` if the model has `multi_label=True`.

    Raises:
        ValueError: If the model is not a classifier, if `x` is not in memory or has no rows, if labels and rows differ
            in number, if a label is unknown, or if `from_logits` is used with `multi_label=True`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    texts, labels = ["What a film!", "What a bore.", "Not bad."], ["good", "bad", "good"]
    report = keras_transfer.analysis.report(model, texts, labels, slices={"negation": ["not", "never"]})
    print(report)
    report.to_html("report.html")
    ```
    """
    rule = "`x` must be data in memory, such as a list of texts."
    expect(is_text(x) or isinstance(x, (list, tuple, dict)) or hasattr(x, "shape"), rule, x=type(x).__name__)
    columns = to_columns(x) if is_text(x) else None
    expect(columns is None or count_rows(columns), "`x` must have at least one row.", rows=0)
    tags_words = hasattr(model, "predict_words")
    has_labels = isinstance(model, Task) and (model.labels.one_of or getattr(model, "multi_label", False))
    if isinstance(model, Task) and (tags_words or not has_labels):
        other = "`model.evaluate(x, y)` with metrics for the task, such as `compile(metrics=['spearman_correlation'])`"
        if tags_words:
            other = "`metrics.entity_report` with what `model.predict_words(x)` returns, or `model.evaluate(x, y)`"
        raise ValueError(f"A report requires a classifier. Use {other}. Received: {type(model).__name__}")
    names, places = getattr(model, "label_names", None), None
    if names is None and hasattr(model, "classes_"):  # In scikit-learn, the labels are these values.
        names, y = ([str(value) for value in np.asarray(values).tolist()] for values in (model.classes_, y))
        places = positions_of(y, names)
    label_names = names if label_names is None else label_names
    if names is not None:
        rule = f"`label_names` must be {len(names)} names, as the model has."
        expect(len(label_names) == len(names), rule, label_names=label_names)
    y = y if places is None else [label_names[place] for place in places]
    options = {"texts": columns, "label_names": label_names, "slices": slices, "seed": seed}
    options |= {"num_examples": num_examples, "resamples": resamples, "confidence": confidence}
    if getattr(model, "multi_label", False):
        rule = "`from_logits` requires a model with one label for each row. Leave it out."
        expect(from_logits is None, rule, from_logits=from_logits)
        probabilities = model.predict_proba(x)
        predicted = multi_hot(model.labels_of(probabilities), names)
        return MultiLabelReport(y, predicted, probabilities=probabilities, **options)
    probabilities = _class_probabilities(model, x, True if from_logits is None else from_logits)
    return ClassificationReport(y, probabilities, from_logits=False, **options)


def _class_probabilities(model, x, from_logits):
    """Returns the probabilities [rows, classes] that a model predicts, as an array."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x))
    expect(isinstance(model, keras.Model), "`model` must be a Keras model or have `predict_proba`.", model=model)
    outputs = model.predict(x, verbose=0)
    rule = "The outputs of the model must have the shape [rows, classes], with at least two classes."
    expect(np.ndim(outputs) == 2 and np.shape(outputs)[1] > 1, rule, getattr(outputs, "shape", type(outputs).__name__))
    return softmax(outputs) if from_logits else outputs
