"""`keras-transfer evaluate`, `predict` and `classify`: run a trained model on texts."""

import contextlib
import csv
import functools
import io
import itertools
import json
import os
import pathlib
import sys

import numpy as np

from keras_transfer import analysis
from keras_transfer.cli import worker_pool
from keras_transfer.cli.ask import print_answers
from keras_transfer.cli.labelled_texts import SEPARATOR, Table, read_texts
from keras_transfer.cli.models import open_model
from keras_transfer.cli.progress import Progress
from keras_transfer.cli.scores import check_writable, describe_numbers, scores_of_numbers
from keras_transfer.core.files import atomic_file
from keras_transfer.core.names import listed
from keras_transfer.data import multi_hot, positions_of

ROWS = 1024  # Number of rows that are predicted at once.


def evaluate(model, data, text_column, label_column, adapter, slice_words, report, label_separator=None, **form):
    """Evaluates a model on labeled texts, and prints the report."""
    check_writable("--report", report, new_folders=True)
    path, model = model, open_model(model, adapter)
    if model.kind == "regression" and (slice_words or report is not None):
        raise ValueError(
            "`--slice-words` and `--report` require a model that predicts labels. "
            "Received: a model that predicts numbers"
        )
    texts, labels = read_texts(data, text_column, label_column, model.kind, label_separator, **form)
    _check_names(model, Table(data, [text_column], **form), label_separator or SEPARATOR)
    if model.kind == "classification":  # This check precedes the prediction.
        positions_of(labels, model.label_names)
    elif model.kind == "multi-label":
        labels = multi_hot(labels, model.label_names)
    outputs, predicted = [], []
    with Progress("texts") as progress:
        for start in range(0, len(texts), ROWS):
            found = model.predict(texts[start : start + ROWS])
            outputs.append(found[0])
            predicted += found[1]
            done = min(start + ROWS, len(texts))
            progress.update(done, done / len(texts))
    outputs = np.concatenate(outputs)
    if model.kind == "regression":
        print(describe_numbers(scores_of_numbers(labels, outputs), len(labels)))
        return
    slices = {f"with {word!r}": word for word in slice_words}
    options = {"texts": texts, "label_names": model.label_names, "slices": slices}
    if model.kind == "multi-label":
        found = analysis.MultiLabelReport(labels, predicted, probabilities=outputs, **options)
    else:
        found = analysis.ClassificationReport(labels, outputs, from_logits=False, **options)
    print(found)
    if report is not None:
        print(f"\nThe report is in {found.to_html(report, title=f'Evaluation of {path}')}")


def predict(model, data, text_column, adapter, output, overwrite, workers, **form):
    """Writes the rows of a table with their predictions: labels and their probabilities, or numbers."""
    path, model, table = model, open_model(model, adapter), Table(data, [text_column], **form)
    columns = ("prediction",) if model.kind == "regression" else ("prediction", "probability")
    _check_predictions(table, columns, output, overwrite)
    _check_names(model, table)
    done, [text_column] = 0, table.columns
    with (
        worker_pool.start(workers) if workers > 1 else contextlib.nullcontext(_one_by_one) as map_in_order,
        contextlib.nullcontext(sys.stdout.buffer) if output is None else atomic_file(output) as file,
        Progress("texts") as progress,
    ):
        if table.dialect is not None and table.header is not None:
            file.write(_lines(table, [{name: name for name in [*table.names, *columns]}], columns))
        answer = (
            functools.partial(_answers_in_process, path, adapter) if workers > 1 else functools.partial(_answers, model)
        )
        for (rows, fraction), found in map_in_order(answer, _parts(table, text_column, columns)):
            file.write(_lines(table, [{**row, **dict(zip(columns, new))} for row, new in zip(rows, found)], columns))
            file.flush()
            done += len(rows)
            progress.update(done, fraction)


def classify(model, texts, adapter):
    """Prints what a model predicts for texts, with the probability of a single label."""
    model = open_model(model, adapter)
    answers = _answers(model, texts)
    print_answers(texts, answers if model.kind == "classification" else [(answer[0], None) for answer in answers])


def _check_predictions(table, columns, output, overwrite):
    """Raises an error if predictions cannot be added to a table, or cannot be written."""
    if taken := [name for name in columns if name in table.names]:
        raise ValueError(
            f"{table.path}: The columns {list(columns)} are added to the table and must not exist. "
            f"Received: a table with {taken}"
        )
    if output is None:
        return
    if pathlib.Path(output).suffix.lower() != table.kind:
        raise ValueError(f"The output must be a {table.kind} file for this table. Received: {output}")
    if os.path.lexists(output) and not overwrite:
        raise FileExistsError(f"The output exists. Choose another file, or pass --overwrite. Received: {output}")
    check_writable("--output", output)


def _check_names(model, table, separator=SEPARATOR):
    """Raises a `ValueError` if the format of a table cannot contain the labels of a model."""
    joined = model.kind == "multi-label" and not table.typed
    if joined and separator in "".join(model.label_names):
        raise ValueError(
            f"Names of labels must not contain {separator!r}, which joins the labels of a text. Use a .jsonl file. "
            f"Received: {listed(model.label_names)}"
        )


def _one_by_one(function, parts):
    """Yields `(kept, function(argument))` for each part `(kept, argument)`, as `worker_pool.start` does."""
    return ((kept, function(argument)) for kept, argument in parts)


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


_open_once = functools.cache(open_model)  # For processes that use a single model.


def _answers_in_process(path, adapter, texts):
    return _answers(_open_once(path, adapter), texts)


def _answers(model, texts):
    """Returns a tuple of the values of the added columns for each text, which are lists for several labels."""
    outputs, labels = model.predict(texts)
    rounded = outputs.astype("float64").round(6).tolist()
    if model.kind == "regression":
        return [(value,) for value in rounded]
    if model.kind == "classification":
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
