"""What a classifier with several labels for each row gets right and wrong: scores with intervals, also of labels."""

import numpy as np

from keras_transfer.analysis import scores, tables
from keras_transfer.tasks.class_names import are_empty, has_names, multi_hot
from keras_transfer.tasks.data_checks import check_multi_hot


class MultiLabelReport:
    """A report on the predictions of any classifier with several labels for each row, which `report` returns.

    `print(report)` shows it as text.

    Args:
        labels: Lists of names, or an array [rows, labels] of zeros and ones.
        predicted: What the classifier predicts, in one of these forms.
        label_names: List of strings. Names of the labels.
        seed, resamples, confidence: As for `report`.

    Attributes:
        metrics: Dict from `"micro_f1"` (over all labels of all rows), `"macro_f1"` (the mean over the labels that occur
            in labels or predictions) and `"subset_accuracy"` (the fraction of rows with exactly the right labels) to
            `(value, low, high)`. The interval of the subset accuracy is Wilson's. The others are percentile bootstrap
            intervals.
        classes: Dict from the name of each label to a dict of its `precision` and `recall`, its `f1` as
            `(value, low, high)`, and its number of rows, `count`. Scores are 0 where undefined, also in resamples
            without the label.
        labels, predicted: Boolean arrays [rows, labels].

    Raises:
        ValueError: If the rows do not match, if there are none, if a label is unknown, if a value is neither 0 nor 1,
            such as a probability, or if another argument is invalid.

    Example:
    ```python
    labels, predicted = [["film"], ["film", "fun"], []], [["film"], ["film"], ["fun"]]
    report = keras_transfer.analysis.MultiLabelReport(labels, predicted, ["film", "fun"])
    report.metrics["micro_f1"].value, report.classes["film"]["f1"].value  # 0.667, 1.0
    ```
    """

    def __init__(self, labels, predicted, label_names, seed=0, resamples=1000, confidence=0.95):
        scores.check_resampling(resamples, confidence)
        self.label_names = [str(name) for name in label_names]
        if not self.label_names or len(set(self.label_names)) < len(self.label_names):
            raise ValueError(f"`label_names` must be different names, at least one. Received: {self.label_names}")
        self.labels, self.predicted = (
            _chosen(rows, self.label_names, argument)
            for argument, rows in (("labels", labels), ("predicted", predicted))
        )
        if not len(self.labels) or len(self.labels) != len(self.predicted):
            raise ValueError(
                "Each row must have labels and predictions, and there must be at least one row. "
                f"Received: labels of {len(self.labels)} rows, and predictions of {len(self.predicted)}"
            )
        self.confidence = confidence

        chosen = (self.labels & self.predicted, self.labels, self.predicted)
        columns = scores.scores_of_counts(*(each.sum(axis=0) for each in chosen))
        chosen = [each.astype("float64") for each in chosen]  # since sums of booleans are slow

        def score(rows):
            times = np.bincount(rows, minlength=len(rows)).astype("float64")  # that each row was drawn
            # A product by `@` is so small that the threads of BLAS would wait for each other if a core is busy.
            counts = [np.einsum("r,rl->l", times, each) for each in chosen]
            f1, occurs = scores.scores_of_counts(*counts)["f1"], counts[1] + counts[2] > 0
            return {
                "micro_f1": scores.scores_of_counts(*(each.sum() for each in counts))["f1"].item(),
                "macro_f1": f1[occurs].mean().item() if occurs.any() else 0.0,
                **dict(enumerate(f1.tolist())),
            }

        found = scores.scores_with_intervals(score, len(self.labels), resamples, confidence, seed)
        self.classes = {
            name: {
                "precision": columns["precision"][place].item(),
                "recall": columns["recall"][place].item(),
                "f1": found.pop(place),
                "count": int(self.labels[:, place].sum()),
            }
            for place, name in enumerate(self.label_names)
        }
        exact = (self.labels == self.predicted).all(axis=1)
        found["subset_accuracy"] = scores.fraction_with_interval(int(exact.sum()), len(exact), confidence)
        self.metrics = found

    def __str__(self):
        right = int((self.labels == self.predicted).all(axis=1).sum())
        title = f"{len(self.labels):,} rows, {len(self.label_names)} labels, {right:,} have exactly the right labels"
        head = tables.interval_head(self)
        rows = [
            [name, f"{values['precision']:.3f}", f"{values['recall']:.3f}", f"{values['f1'].value:.3f}"]
            + [tables.interval(values["f1"]), f"{values['count']:,}"]
            for name, values in self.classes.items()
        ]
        overall = tables.Table(title, ["", "value", head], tables.scores_rows(self))
        labels = tables.Table("Labels", ["label", "precision", "recall", "F1", head, "rows"], rows)
        return f"{overall.to_text()}\n\n{labels.to_text()}"

    __repr__ = __str__


def _chosen(rows, names, argument):
    """Returns lists of names, or zeros and ones, as a boolean array [rows, labels]."""
    try:
        if has_names(rows) or are_empty(rows):
            return multi_hot(rows, names) > 0.5
        check_multi_hot(rows, len(names))
    except ValueError as error:
        raise ValueError(f"Invalid value for argument `{argument}`. {error}") from None
    values = np.asarray(rows).reshape(-1, len(names))
    fractions = np.argwhere((values > 0) & (values < 1))
    if len(fractions):
        place = tuple(fractions[0].tolist())
        raise ValueError(
            f"`{argument}` must be lists of names, or zeros and ones. For probabilities, pass "
            f"`model.labels_of(probabilities)`. Received: {values[place]} at position {place}"
        )
    return values > 0
