"""The base class of metrics that compare generated texts with references, and the checks of these texts."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.saved_arguments import SavedByArguments


class TextMetric(SavedByArguments, keras.metrics.Metric):
    """Base class of metrics that compare generated texts with references.

    The texts are kept until `reset_state`, because most of these metrics are computed from all of them together, and
    not as a mean over rows. A subclass implements `score`. Its config is the attributes that are named like the
    constructor's arguments. To compute a metric while a model trains, pass it to `callbacks.GenerationMetrics`. It does
    not work in `compile`, because a model returns logits and not texts.

    Args:
        name: String. Name of the metric.

    Attributes:
        result_names: List of strings. The names of the results: `[name]`, or the keys if `score` returns a dict.
        monitor_mode: `"max"` if higher results are better, or else `"min"`, the `mode` of Keras's callbacks that
            monitor a result. A class attribute.

    Call arguments:
        - `y_true`: List `[rows]` with the reference of each row, a string, or with a list of several references.
        - `y_pred`: List of strings `[rows]`. The generated text of each row.

    Raises:
        ValueError: If `y_true` and `y_pred` differ in length, if one of them has an invalid type, or if there are
            sample weights.

    Example:
    ```python
    class SameLength(keras_transfer.metrics.TextMetric):
        def score(self, y_true, y_pred):
            same = [len(text) in map(len, references) for references, text in zip(y_true, y_pred)]
            return sum(same) / len(same)

    SameLength(name="same_length")(["a dog", ["a cat", "cats"]], ["a cow", "bird"])  # 1.0
    ```
    """

    needs_references = True  # Whether each text must have one.
    monitor_mode = "max"

    def __init__(self, name: str | None = None):
        super().__init__(name=name)
        self.reset_state()

    @property
    def result_names(self) -> list[str]:
        """List of strings. The names of the results."""
        return [self.name]

    def score(self, y_true: Any, y_pred: Any) -> Any:
        """Computes the result for all texts, of which there is at least one.

        Args:
            y_true: List of lists of strings. The references of each row.
            y_pred: List of strings.

        Returns:
            A float, or a dict from `result_names` to floats.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `score`.")

    def update_state(self, y_true, y_pred, sample_weight=None):
        rule = (
            f"`{type(self).__name__}` is computed from all texts together, without weights. Expected "
            "`sample_weight=None`."
        )
        expect(sample_weight is None, rule, sample_weight=sample_weight)
        for argument, values in (("y_true", y_true), ("y_pred", y_pred)):
            if keras.ops.is_tensor(values) or isinstance(values, keras.KerasTensor):
                raise ValueError(
                    f"`{type(self).__name__}` compares lists of strings. To compute it in `fit`, pass it to "
                    f"`callbacks.GenerationMetrics`, not to `compile`. Received: a tensor as `{argument}`"
                )
        references, texts = self.references(y_true, "y_true"), list_of_texts(y_pred, "y_pred")
        check_counts(references, texts, "y_true", "y_pred")
        self._references_seen += references
        self._texts += texts

    def references(self, rows: Sequence, argument: str) -> list[list[str]]:
        """Checks references and converts them to lists.

        Args:
            rows: List with a string or a list of strings for each text.
            argument: String. Name of the argument, for errors.

        Returns:
            A list of lists of strings.

        Raises:
            ValueError: If there is something else in a row.
        """
        rows = [[row] if isinstance(row, str) else row for row in _as_list(rows, argument)]
        for position, row in enumerate(rows):
            is_list = isinstance(row, (list, tuple)) and all(isinstance(each, str) for each in row)
            if not is_list or (self.needs_references and not row):
                raise ValueError(
                    f"`{argument}` must have a string, or a list of at least one string, for each text. "
                    f"Received: {row!r:.100} at position {position}"
                )
        return [list(row) for row in rows]

    def result(self):
        """Returns the result for all texts since `reset_state`, a float or a dict of floats. It is NaN without any."""
        if self._texts:
            return self.score(self._references_seen, self._texts)
        empty = dict.fromkeys(self.result_names, math.nan)
        return empty[self.name] if list(empty) == [self.name] else empty

    def reset_state(self):
        self._references_seen, self._texts = [], []


def list_of_texts(texts, argument):
    """Returns texts as a list of strings."""
    texts = _as_list(texts, argument)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"`{argument}` must be a list of strings. Received: {text!r:.100} at position {position}")
    return texts


def check_counts(first, second, *arguments):
    """Raises a `ValueError` if two lists differ in length. `arguments` are their names."""
    if len(first) != len(second):
        names = " and ".join(f"`{argument}`" for argument in arguments)
        raise ValueError(f"{names} must have the same number of rows. Received: {len(first)} and {len(second)}")


def _as_list(values, argument):
    values = values.tolist() if isinstance(values, np.ndarray) else values
    rule = f"`{argument}` must be a list with one row for each text."
    expect(not isinstance(values, (str, bytes, dict)) and hasattr(values, "__iter__"), rule, **{argument: values})
    return list(values)


def missing_package(cls, package, error):
    """Returns the error to raise if an optional package that a metric requires is not installed."""
    return ImportError(f"`{cls.__name__}` requires {package}: `pip install {package}`. Received: {error}")
