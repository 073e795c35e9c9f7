"""`keras-transfer evaluate`, `predict` and `classify`: run a trained model on texts."""

import contextlib
import csv
import functools
import io
import itertools
import json
import pathlib
import sys

import keras
import numpy as np

from keras_transfer import adaptation, analysis
from keras_transfer.cli.checks import PREDICTIONS
from keras_transfer.cli.exported import ExportedModel
from keras_transfer.cli.labelled_texts import SEPARATOR
from keras_transfer.cli.progress import Progress
from keras_transfer.cli.scores import describe_numbers, scores_of_numbers
from keras_transfer.core.arrays import check_numbers
from keras_transfer.core.files import atomic_file
from keras_transfer.core.names import listed
from keras_transfer.data import multi_hot, positions_of

ROWS = 1024  # Number of rows that are predicted at once.


def run_evaluation(path, kind, data, texts, labels, slice_words=(), report=None, adapter=None):
    """Evaluates a model on labeled texts, and prints the report.

    Args:
        slice_words: List of strings. The texts with each of these words are also evaluated separately.
    """
    model = _load(path, kind, data, adapter)
    if kind == "classification":  # This check precedes the reading of the texts.
        positions_of(labels, model.label_names)
    elif kind == "multi-label":
        labels = multi_hot(labels, model.label_names)
    outputs, predicted = [], []
    with Progress("texts") as progress:
        for start in range(0, len(texts), ROWS):
            found = _outputs(model, kind, texts[start : start + ROWS])
            outputs.append(found[0])
            predicted += found[1]
            done = min(start + ROWS, len(texts))
            progress.update(done, done / len(texts))
    outputs = np.concatenate(outputs)
    if kind == "regression":
        print(describe_numbers(scores_of_numbers(labels, outputs), len(labels)))
        return
    slices = {f"with {word!r}": word for word in slice_words}
    options = {"texts": texts, "label_names": model.label_names, "slices": slices}
    if kind == "multi-label":
        found = analysis.MultiLabelReport(labels, predicted, probabilities=outputs, **options)
    else:
        found = analysis.ClassificationReport(labels, outputs, from_logits=False, **options)
    print(found)
    if report is not None:
        print(f"\nThe report with pictures is in {found.to_html(report, title=f'Evaluation of {path}')}")


def run_predictions(path, kind, table, text, output=None, map_in_order=None, adapter=None):
    """Writes the rows of a table with their predictions: labels and their probabilities, or numbers.

    Args:
        output: Path of the file to write, atomically. Defaults to `None`, for standard output.
        map_in_order: Function that `processes.start` yields, for predictions in several processes. Defaults to `None`,
            for this process.
    """
    parts, done, columns = _parts(table, text, PREDICTIONS[kind]), 0, PREDICTIONS[kind]
    if map_in_order is None:
        model = _load(path, kind, table.path, adapter)
        answered = ((kept, _answers(model, kind, texts)) for kept, texts in parts)
    else:
        answered = map_in_order(functools.partial(_answers_in_process, path, kind, table.path, adapter), parts)
    with (
        contextlib.nullcontext(sys.stdout.buffer) if output is None else atomic_file(output) as file,
        Progress("texts") as progress,
    ):
        if table.dialect is not None and table.header is not None:
            file.write(_lines(table, [{name: name for name in [*table.names, *columns]}], columns))
        for (rows, fraction), found in answered:
            file.write(_lines(table, [{**row, **dict(zip(columns, new))} for row, new in zip(rows, found)], columns))
            file.flush()
            done += len(rows)
            progress.update(done, fraction)


def _parts(table, text, columns):
    """Yields `((rows, fraction of the table), texts)`, parts of a table whose rows have no `columns` yet."""
    numbered = iter(table)
    while chunk := list(itertools.islice(numbered, ROWS)):
        for number, row in chunk:
            if not isinstance(row[text], str):
                raise ValueError(
                    f"{table.path}, {table.unit} {number}: Expected a text. Received: {text}={row[text]!r:.80}"
                )
            if taken := [name for name in columns if name in row]:
                raise ValueError(
                    f"{table.path}, {table.unit} {number}: The columns of predictions must not exist. Received: {taken}"
                )
        yield ([row for _, row in chunk], table.fraction), [row[text] for _, row in chunk]


def answer_texts(path, kind, texts, adapter=None):
    """Returns `(answer, probability)` for each text, where only a single label has a probability."""
    answers = _answers(_load_any(path, adapter), kind, texts)
    return answers if kind == "classification" else [(answer[0], None) for answer in answers]


def load_model(path):
    """Returns the model in a `.keras` file."""
    try:
        return keras.saving.load_model(path, compile=False)
    except (KeyError, TypeError) as error:  # The class of the encoder is not registered.
        [problem] = str(error).splitlines()[:1] or [""]
        raise ValueError(f"The model cannot be loaded. Received: {path}, {problem}") from None


def _load_any(path, adapter):
    """Returns the model in a `.keras` file, with other active adapters if they are named, or an exported model."""
    if pathlib.Path(path).is_dir():
        return ExportedModel(path, adapter)
    model = load_model(path)
    return model if adapter is None else adaptation.set_active_adapter(model, adapter)


def _load(path, kind, data, adapter):
    """Returns a model, after checking that the format of the table `data` can contain its labels."""
    model = _load_any(path, adapter)
    joined = kind == "multi-label" and pathlib.Path(data).suffix.lower() not in (".jsonl", ".json")
    if joined and SEPARATOR in "".join(model.label_names):
        raise ValueError(
            f"Names of labels must not contain {SEPARATOR!r}, which joins the labels of a text. Use a .jsonl file. "
            f"Received: {listed(model.label_names)}"
        )
    return model


_load_once = functools.cache(_load)  # For processes that use a single model.


def _answers_in_process(path, kind, data, adapter, texts):
    return _answers(_load_once(path, kind, data, adapter), kind, texts)


def _outputs(model, kind, texts):
    """Returns the probabilities [texts, classes] or the numbers [texts] that a model predicts, and a list of labels."""
    if isinstance(model, ExportedModel):
        return model.predict(texts)
    if kind == "regression":
        return check_numbers(model.predict(texts, verbose=0)[:, 0]), []
    outputs = model.predict_proba(texts)
    return outputs, model.labels_of(outputs)


def _answers(model, kind, texts):
    """Returns a tuple of the values of the added columns for each text, which are lists for several labels."""
    outputs, labels = _outputs(model, kind, texts)
    rounded = outputs.astype("float64").round(6).tolist()
    if kind == "regression":
        return [(value,) for value in rounded]
    if kind == "classification":
        return [(label, max(row)) for label, row in zip(labels, rounded)]
    rows = [dict(zip(model.label_names, row)) for row in rounded]
    return [(names, [row[name] for name in names]) for names, row in zip(labels, rows)]


def _lines(table, rows, columns):
    """Returns rows with added columns in the format of the table, as bytes."""
    lines = io.StringIO(newline="")
    if table.dialect is None:
        lines.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    else:
        # Python quotes the characters that end lines, and a lone "\r" also ends a row if fields may be quoted.
        end = "\n" if table.dialect.get("quoting") == csv.QUOTE_NONE else "\r\n"
        try:
            for row in rows:
                part = io.StringIO(newline="")
                csv.writer(part, lineterminator=end, **table.dialect).writerow(
                    [_as_field(row[name]) for name in (*table.names, *columns)]
                )
                lines.write(part.getvalue().removesuffix(end) + "\n")
        except csv.Error as error:  # The name of a label contains a tab.
            raise ValueError(
                f"{table.path}: A prediction cannot be written in this format. Received: {error}"
            ) from None
    return lines.getvalue().encode("utf-8")


def _as_field(value):
    return SEPARATOR.join(map(str, value)) if isinstance(value, list) else value
