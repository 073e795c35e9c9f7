"""The nine tasks of GLUE, from the official files."""

import os
import pathlib
from typing import NamedTuple

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import checked_rows, log, read_rows, warn_about_size
from keras_transfer.core.names import look_up
from keras_transfer.datasets.dataset import Split
from keras_transfer.datasets.sources import split_files
from keras_transfer.datasets.splits import Splits, positions, score

FILES = {"train": ["train.tsv"], "validation": ["dev.tsv"], "test": ["test.tsv"]}
MNLI_FILES = {
    "train": ["train.tsv"],
    **{
        f"{split}_{genres}": [f"{name}_{genres}.tsv"]
        for split, name in (("validation", "dev"), ("test", "test"))
        for genres in ("matched", "mismatched")
    },
}
COLA_HEADER = ["source", "label", "original label", "sentence"]  # The files of CoLA have none, except for test.tsv.


class Format(NamedTuple):
    """The columns and the labels of a task.

    Attributes:
        texts: Tuple of strings. Columns of the text, or of the two texts of a pair.
        sizes: Tuple of integers. Official numbers of rows of the splits, in the order of `files`.
        files: Dict from splits to lists of file names.
    """

    texts: tuple
    label: str
    names: list | None
    sizes: tuple
    files: dict = FILES


SENTENCES = ("sentence1", "sentence2")
# The order of the names is that of the datasets `glue` of Hugging Face and of TensorFlow. Files with numbers instead of
# names use this order too.
GLUE_TASKS = {
    "CoLA": Format(("sentence",), "label", ["unacceptable", "acceptable"], (8551, 1043, 1063)),
    "SST-2": Format(("sentence",), "label", ["negative", "positive"], (67349, 872, 1821)),
    "MRPC": Format(("#1 String", "#2 String"), "Quality", ["not_equivalent", "equivalent"], (3668, 408, 1725)),
    "QQP": Format(("question1", "question2"), "is_duplicate", ["not_duplicate", "duplicate"], (363846, 40430, 390965)),
    "STS-B": Format(SENTENCES, "score", None, (5749, 1500, 1379)),
    "MNLI": Format(
        SENTENCES,
        "gold_label",
        ["entailment", "neutral", "contradiction"],
        (392702, 9815, 9832, 9796, 9847),
        MNLI_FILES,
    ),
    "QNLI": Format(("question", "sentence"), "label", ["entailment", "not_entailment"], (104743, 5463, 5463)),
    "RTE": Format(SENTENCES, "label", ["entailment", "not_entailment"], (2490, 277, 3000)),
    "WNLI": Format(SENTENCES, "label", ["not_entailment", "entailment"], (635, 71, 146)),
}


def load_glue(folder: str | os.PathLike, task: str) -> Splits:
    """Reads a task of GLUE (Wang et al. 2019) from the official files.

    | task | texts | label names, in order |
    | --- | --- | --- |
    | `"CoLA"` | sentence | unacceptable, acceptable |
    | `"SST-2"` | sentence | negative, positive |
    | `"MRPC"` | pair of sentences | not_equivalent, equivalent |
    | `"QQP"` | pair of questions | not_duplicate, duplicate |
    | `"STS-B"` | pair of sentences | none: floats from 0 to 5 |
    | `"MNLI"` | premise and hypothesis | entailment, neutral, contradiction |
    | `"QNLI"` | question and sentence | entailment, not_entailment |
    | `"RTE"` | premise and hypothesis | entailment, not_entailment |
    | `"WNLI"` | pair of sentences | not_entailment, entailment |

    Quotes are a part of the text. Broken rows of QQP, which have too few fields, are skipped with a warning, as in the
    official tools. Another warning says if a file does not have the official number of rows.

    Args:
        folder: Path of a folder with the folders of the tasks, such as `glue_data` with `SST-2/train.tsv`.
        task: String. Name of the task, as in the table. Case and hyphens make no difference.

    Returns:
        `Splits` of `Split`s: `train`, `validation` and `test`, for the files that exist. MNLI has `train`,
        `validation_matched`, `validation_mismatched`, `test_matched` and `test_mismatched`. The labels of the test
        splits are `None`.

    Raises:
        FileNotFoundError: If none of the files exists.
        ValueError: If the task is unknown, or if a file has another format.

    Example:
    ```python
    data = keras_transfer.datasets.load_glue("glue", "RTE")
    premises, hypotheses = data.validation.texts
    data.label_names[data.validation.labels[0]]  # "not_entailment"
    ```

    Source: https://gluebenchmark.com
    """
    task = look_up(task, GLUE_TASKS, "GLUE task")
    form = GLUE_TASKS[task]
    sizes, splits = dict(zip(form.files, form.sizes)), {}
    for split, path in split_files(pathlib.Path(folder) / task, "glue", form.files).items():
        splits[split] = _read(path, task, form, labelled=not split.startswith("test"))
        texts = splits[split].texts
        warn_about_size(path, len(texts) if len(form.texts) == 1 else len(texts[0]), sizes[split])
    return Splits(splits, form.names and list(form.names))


def _read(path, task, form, labelled):
    header, rows = read_rows(path, COLA_HEADER if task == "CoLA" and labelled else None)
    if task == "QQP":
        whole = [row for row in rows if len(row[1]) >= len(header)]
        if len(whole) < len(rows):
            log.warning("%s: skipped %s broken rows, as the official tools do.", path, len(rows) - len(whole))
        rows = whole
    rows = list(checked_rows(path, header, rows))
    columns = {name: place for place, name in enumerate(header)}
    for name in (*form.texts, form.label) if labelled else form.texts:
        expect(name in columns, f"Expected the column {name!r} of {task}.", header, where=path)
    texts = tuple([fields[columns[name]] for _, fields in rows] for name in form.texts)
    labels = _labels([(i, row[columns[form.label]]) for i, row in rows], form.names, path) if labelled else None
    return Split(texts if len(texts) == 2 else texts[0], labels)


def _labels(rows, names, path):
    if names is None:
        return [score(text, 0.0, 5.0, f"{path}, line {number}") for number, text in rows]
    return positions([text for _, text in rows], names, lambda row: f"{path}, line {rows[row][0]}")
