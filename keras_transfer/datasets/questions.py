"""Questions classified by the type of their answer: TREC, and a packaged dataset of the same kind."""

import csv
import importlib.resources
import os

from keras_transfer.core.expect import expect
from keras_transfer.core.names import listed
from keras_transfer.datasets.dataset import Split
from keras_transfer.datasets.sources import split_files
from keras_transfer.datasets.splits import Splits


def load_demo_questions() -> Splits:
    """Returns the packaged questions: 720, written for this project, in TREC's six classes.

    Returns:
        `Splits` of `Split`s: `train`, and `test` with a fifth of the questions. The label names are ABBR, DESC, ENTY,
        HUM, LOC and NUM.

    Example:
    ```python
    data = keras_transfer.datasets.load_demo_questions()
    data.train.texts[0], data.label_names[data.train.labels[0]]
    ```
    """
    parts = {"train": [], "test": []}
    text = importlib.resources.files(__package__).joinpath("questions.tsv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
        parts[row["split"]].append((row["question"], row["label"]))
    return _splits(parts)


def load_trec6(folder: str | os.PathLike) -> Splits:
    """Returns TREC's questions with their six coarse classes (Li & Roth 2002).

    Args:
        folder: Path of a folder with `train_5500.label` and `TREC_10.label` from
            https://cogcomp.seas.upenn.edu/Data/QA/QC/. The lines are `COARSE:fine question`, in ISO-8859-1.

    Returns:
        `Splits` of `Split`s: `train` with 5,452 questions and `test` with 500. The label names are ABBR, DESC, ENTY,
        HUM, LOC and NUM.

    Raises:
        FileNotFoundError: If one of the files does not exist.
        ValueError: If a line has another form, or if the test data have a label that the training data lack.

    Example:
    ```python
    data = keras_transfer.datasets.load_trec6("trec6")
    len(data.train.texts)  # 5452
    ```
    """
    files = split_files(folder, "trec6")
    return _splits({split: _read_trec(path) for split, path in files.items()})


def _splits(rows):
    """Returns `Splits` of lists of `(text, label name)`. The label names are sorted."""
    names = sorted({label for _, label in rows["train"]})
    unknown = sorted({label for _, label in rows["test"]} - set(names))
    rule = f"Labels of the test data must occur in the training data. Expected some of {listed(names)}."
    expect(not unknown, rule, labels=unknown)
    splits = {
        name: Split([text for text, _ in part], [names.index(label) for _, label in part])
        for name, part in rows.items()
    }
    return Splits(splits, names)


def _read_trec(path):
    rows = []
    for number, line in enumerate(path.read_text("iso-8859-1").splitlines(), 1):
        label, _, question = line.partition(" ")
        coarse, colon, _ = label.partition(":")
        expect(coarse and colon and question, "Expected 'COARSE:fine question'.", line, where=f"{path}, line {number}")
        rows.append((question, coarse))
    return rows
