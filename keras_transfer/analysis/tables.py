"""The tables of a report, which are the same in the text and on the page."""

import unicodedata
from typing import NamedTuple

import numpy as np

from keras_transfer.analysis import scores

MAX_CLASSES = 20  # Number of classes that a confusion matrix or a table of classes shows at most.
MAX_CONFUSIONS = 20  # Number of confusions that replace the matrix of more classes.
METRICS = {
    "accuracy": "accuracy",
    "micro_f1": "micro F1",
    "subset_accuracy": "subset accuracy",
    "macro_f1": "macro F1",
    "matthews_correlation": "Matthews correlation",
    "log_loss": "log loss",
}
# These control characters reorder the text after them.
REORDERING = {"LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


class Table(NamedTuple):
    """A table with a title, and perhaps a note below it."""

    title: str
    heads: list
    rows: list
    note: str = ""
    texts: bool = False  # Whether the last column contains texts, which are aligned to the left.

    def __str__(self):
        return "\n".join([self.title, *self.lines(), *filter(None, [self.note])])

    def lines(self):
        """Returns the header and the rows as aligned lines."""
        cells = [[shorten(cell, 100) for cell in row] for row in [self.heads, *self.rows]]
        widths = [max(map(len, column)) for column in zip(*cells)]
        left = {0, len(widths) - 1} if self.texts else {0}
        return [
            "  ".join(
                cell.ljust(width) if i in left else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in cells
        ]


def metrics_table(report, title):
    """Returns the scores of all rows."""
    rows = [[METRICS[name], f"{score.value:.4f}", interval(score)] for name, score in report.metrics.items()]
    if report.reliability is not None:
        rows.append(["calibration error", f"{report.calibration_error:.4f}", ""])
    return Table(title, ["", "value", interval_head(report)], rows)


def interval_head(report):
    """Returns the header of a column of intervals."""
    return f"{100 * report.confidence:g}% interval"


def classes_table(report, one="class", several="classes"):
    """Returns the scores of each class, at most those with the lowest F1. The F1 of labels has an interval."""

    def numbers(name):
        values = report.classes[name]
        return values["precision"], values["recall"], getattr(values["f1"], "value", values["f1"])

    names, note = list(report.classes), ""
    if len(names) > MAX_CLASSES:
        names = [name for name in names if report.classes[name]["count"]]
        names = sorted(names, key=lambda name: numbers(name)[2])[:MAX_CLASSES]
        note = f"The {len(names)} of {len(report.classes):,} {several} with the lowest F1, of those in the data."
    rows = [[name, *(f"{value:.3f}" for value in numbers(name))] for name in names]
    heads = [one, "precision", "recall", "F1"]
    if one == "label":
        heads.append(interval_head(report))
        rows = [[*row, interval(report.classes[row[0]]["f1"])] for row in rows]
    rows = [[*row, f"{report.classes[row[0]]['count']:,}"] for row in rows]
    return Table(several.capitalize(), [*heads, "rows"], rows, note)


def confusion_table(report):
    """Returns the confusion matrix, or for many classes the most frequent confusions."""
    names, matrix = report.label_names, report.confusion_matrix
    if len(names) <= MAX_CLASSES:
        rows = [[name, *(f"{count:,}" for count in matrix[place])] for place, name in enumerate(names)]
        return Table("Confusion matrix, labels in rows and predictions in columns", ["", *names], rows)
    wrong = matrix.copy()
    np.fill_diagonal(wrong, 0)
    most = np.argsort(-wrong, axis=None, kind="stable")[:MAX_CONFUSIONS]
    rows = []
    for label, predicted in zip(*np.unravel_index(most, wrong.shape)):
        if wrong[label, predicted] > 0:
            rows.append([names[label], names[predicted], f"{wrong[label, predicted]:,}"])
    return Table("Most frequent confusions", ["label", "predicted", "rows"], rows)


def reliability_table(report):
    """Returns the predictions by their confidence, without empty bins."""
    rows = [
        [f"{part.low:.2f} to {part.high:.2f}", f"{part.count:,}", f"{part.confidence:.3f}", f"{part.accuracy:.3f}"]
        for part in report.reliability
        if part.count
    ]
    note = "Each label of each row counts, as predicted if its probability is above 0.5." * (report.labels.ndim == 2)
    return Table("Reliability", ["confidence", report.COUNTED, "mean confidence", "accuracy"], rows, note)


def slices_table(report):
    """Returns the scores of each slice."""
    main, other = (METRICS[name] for name in report.SLICE_METRICS)
    heads = ["slice", "rows", main, "interval", other, "interval"]
    heads += [] if report.reliability is None else ["calibration error"]
    rows, mean = [], report.metrics[report.SLICE_METRICS[0]].value
    for part in report.slices:
        cells = [part.name, f"{len(part.rows):,}"]
        if part.metrics:
            score, f1 = (part.metrics[name] for name in report.SLICE_METRICS)
            mark = "" if score.low <= mean <= score.high else " *"
            cells += [f"{score.value:.3f}{mark}", interval(score), f"{f1.value:.3f}", interval(f1)]
            cells += [] if report.reliability is None else [f"{part.calibration_error:.3f}"]
        rows.append(cells + [""] * (len(heads) - len(cells)))
    marked = any(row[2].endswith("*") for row in rows)
    return Table("Slices", heads, rows, f"* Its interval does not contain the {main} of all rows." if marked else "")


def gains_table(slices, before, after, confidence):
    """Returns how many rows of each slice are right before and after a change, given two boolean arrays `[rows]`."""
    rows = []
    for name, places in slices.items():
        pair, cells = (before[places], after[places]), [name, f"{len(places):,}"]
        if len(places):
            score = scores.difference_with_interval(*pair, confidence)
            mark = "" if score.low <= 0 <= score.high else " *"
            cells += [f"{int((first < second).sum()):,}" for first, second in (pair, pair[::-1])]
            cells += [f"{part.mean():.3f}" for part in pair]
            cells += [f"{score.value:+.3f}{mark}", interval(score)]
        rows.append(cells + [""] * (8 - len(cells)))
    marked = any(row[6].endswith("*") for row in rows)
    heads = ["slice", "rows", "gained", "lost", "before", "after", "difference", f"{100 * confidence:g}% interval"]
    return Table("Rows that are right", heads, rows, "* Its interval does not contain 0." if marked else "")


def example_tables(report):
    """Returns the hardest examples and the most confident mistakes as a dict of tables, once if they are the same."""
    label = "label" if report.labels.ndim == 1 else "labels"
    titles = {
        "hardest": f"Hardest examples: the lowest probability of the {label}",
        "confident_mistakes": "Most confident mistakes",
    }
    if [example.position for example in report.hardest] == [e.position for e in report.confident_mistakes]:
        titles = {"hardest": "Hardest examples, which are also the most confident mistakes"}
    heads = ["position", label, "predicted", "probability", f"of the {label}", "text"]
    return {
        kind: Table(title, heads, [_example(example) for example in getattr(report, kind)], texts=True)
        for kind, title in titles.items()
        if getattr(report, kind)
    }


def _example(example):
    names = (
        name if isinstance(name, str) else " | ".join(name) or "(none)" for name in (example.label, example.predicted)
    )
    numbers = (
        f"{value:.3f}" if value >= 0.001 or not value else f"{value:.0e}"
        for value in (example.probability, example.label_probability)
    )
    return [str(example.position), *names, *numbers, " | ".join(example.text or ())]


def interval(score):
    """Returns the interval of a score as a string."""
    return f"[{score.low:.4f}, {score.high:.4f}]"


def visible(text):
    """Returns a text in which U+FFFD replaces surrogates and control characters of terminals and text direction."""
    return "".join("\ufffd" if _is_control(character) else character for character in text)


def _is_control(character):
    if character in "\n\t\r" or character.isprintable():
        return False
    return unicodedata.category(character) in ("Cc", "Cs") or unicodedata.bidirectional(character) in REORDERING


def shorten(text, length):
    """Returns a text in one line without control characters, at most `length` characters long."""
    text = visible(" ".join(text[: 4 * length].split()))
    return text if len(text) <= length else text[: length - 1] + "…"
