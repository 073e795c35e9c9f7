"""`keras-transfer evaluate` and `predict`: a trained classifier on the texts of a table."""

import contextlib
import csv
import io
import itertools
import json
import sys

import keras

from keras_transfer import analysis, tasks
from keras_transfer.cli.arguments import PREDICTIONS
from keras_transfer.cli.progress import Progress
from keras_transfer.files import atomic_file
from keras_transfer.tasks.class_names import positions_of

ROWS = 1024  # that are predicted at once
DIALECTS = {  # as `datasets.lines` reads them
    ".csv": {"delimiter": ","},
    ".tsv": {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None},
}


def run_evaluation(path, texts, labels, words=(), report=None):
    """Evaluates a classifier on labelled texts, and prints the report.

    Args:
        path: Path of a `.keras` file.
        texts, labels: Lists of strings.
        words: List of strings. Words whose texts are also evaluated. Defaults to `()`.
        report: Path of the page to write, or None. Defaults to `None`.

    Raises:
        ValueError: If the file does not contain a text classifier, or if the classifier does not know a label.
    """
    model = _load(path)
    positions = positions_of(labels, model.label_names)  # before the texts are read
    probabilities = []
    with Progress("texts") as progress:
        for start in range(0, len(texts), ROWS):
            probabilities += model.predict_proba(texts[start : start + ROWS]).tolist()
            progress.update(len(probabilities), len(probabilities) / len(texts))
    found = analysis.ClassificationReport(
        positions,
        probabilities,
        texts,
        model.label_names,
        slices={f"with {word!r}": word for word in words},
        from_logits=False,
    )
    print(found)
    if report is not None:
        print(f"\nThe report with pictures is in {found.to_html(report, title=f'Evaluation of {path}')}")


def run_predictions(path, table, text, output=None):
    """Writes the rows of a table with the predicted label and its probability.

    Args:
        path: Path of a `.keras` file.
        table: `Table` of the texts.
        text: String. Column of the texts.
        output: Path of the file to write, which is written completely or not at all. Defaults to `None`, for standard
            output.

    Raises:
        ValueError: If the file does not contain a text classifier, or if a row of the table is damaged, has no text, or
            has predictions.
    """
    model, rows, done = _load(path), iter(table), 0
    with (
        contextlib.nullcontext(sys.stdout.buffer) if output is None else atomic_file(output) as file,
        Progress("texts") as progress,
    ):
        file.write(_header(table))
        while chunk := list(itertools.islice(rows, ROWS)):
            for number, row in chunk:
                if not isinstance(row[text], str):
                    raise ValueError(
                        f"{table.path}, line {number}: Expected a text. Received: {text}={row[text]!r:.80}"
                    )
                if taken := [name for name in PREDICTIONS if name in row]:
                    raise ValueError(
                        f"{table.path}, line {number}: The columns of predictions must not exist. Received: {taken}"
                    )
            probabilities = model.predict_proba([row[text] for _, row in chunk])
            labels = [model.label_names[place] for place in probabilities.argmax(axis=-1)]
            found = zip(labels, probabilities.max(axis=-1).astype("float64").round(6).tolist())
            file.write(_lines(table, [{**row, **dict(zip(PREDICTIONS, new))} for (_, row), new in zip(chunk, found)]))
            file.flush()
            done += len(chunk)
            progress.update(done, table.fraction)


def _load(path):
    try:
        model = keras.saving.load_model(path, compile=False)
    except (KeyError, TypeError) as error:  # a zip file of something else, or a class that is not registered
        [problem] = str(error).splitlines()[:1] or [""]
        raise ValueError(
            f"The model must be a .keras file of a `TextClassifier`. Received: {path}, {problem}"
        ) from None
    if not isinstance(model, tasks.TextClassifier) or model.multi_label:
        raise ValueError(
            f"The model must be a `TextClassifier` with one label for each text. Received: {path}, a "
            f"`{type(model).__name__}`{' with multi_label=True' if getattr(model, 'multi_label', False) else ''}"
        )
    return model


def _header(table):
    return b"" if table.kind == ".jsonl" else _lines(table, [{name: name for name in [*table.names, *PREDICTIONS]}])


def _lines(table, rows):
    """Returns rows in the format of the table, as bytes."""
    lines = io.StringIO(newline="")
    if table.kind == ".jsonl":
        lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        writer = csv.DictWriter(lines, [*table.names, *PREDICTIONS], lineterminator="\n", **DIALECTS[table.kind])
        try:
            writer.writerows(rows)
        except csv.Error as error:  # The name of a label contains a tab.
            raise ValueError(
                f"{table.path}: A prediction cannot be written in this format. Received: {error}"
            ) from None
    return lines.getvalue().encode("utf-8")
