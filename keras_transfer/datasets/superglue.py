"""The tasks of SuperGLUE, from the official files."""

import os
import pathlib
from typing import NamedTuple

from keras_transfer.core.lines import get, read_json_lines
from keras_transfer.core.names import look_up
from keras_transfer.datasets.dataset import Split
from keras_transfer.datasets.multiple_choice import Choices, copa_row
from keras_transfer.datasets.sources import split_files
from keras_transfer.datasets.splits import Splits, from_rows, positions, shown_by_columns

FILES = {"train": ["train.jsonl"], "validation": ["val.jsonl"], "test": ["test.jsonl"]}
BOOLEANS = ["false", "true"]
# Columns of the pairs and names of the labels, in the order of Hugging Face's and TensorFlow's datasets `super_glue`.
PAIRS = {
    "BoolQ": (("question", "passage"), BOOLEANS),
    "CB": (("premise", "hypothesis"), ["entailment", "contradiction", "neutral"]),
    "RTE": (("premise", "hypothesis"), ["entailment", "not_entailment"]),
    "AX-b": (("sentence1", "sentence2"), ["entailment", "not_entailment"]),
    "AX-g": (("premise", "hypothesis"), ["entailment", "not_entailment"]),
}


@shown_by_columns
class AnswersToGrade(NamedTuple):
    """MultiRC: paragraphs, each with a question and an answer that is right or wrong.

    Attributes:
        texts: Tuple of two lists of strings: the paragraphs, and each question, a space, and an answer.
        labels: List of integers, 1 for right answers. `None` for test data.
        questions: List of integers. Numbers of the questions, for metrics over all answers of a question.
    """

    texts: tuple
    labels: list
    questions: list


@shown_by_columns
class ClozeQuestions(NamedTuple):
    """ReCoRD: passages, and statements about them with a gap for one of their entities.

    Attributes:
        passages: List of strings. A passage has its highlights in lines that start with `@highlight`.
        queries: List of strings with the gap `@placeholder`.
        entities: List of lists of strings. The entities of the passage, without duplicates.
        answers: List of lists of strings, the right entities. `None` for test data.
    """

    passages: list
    queries: list
    entities: list
    answers: list


@shown_by_columns
class WordsInContext(NamedTuple):
    """WiC: words in two sentences, where they have the same meaning or different ones.

    Attributes:
        words: List of strings. Lemmas of the words.
        sentences: Tuple of two lists of strings.
        spans: Tuple of two lists of `(start, end)`. Places of the words in the sentences, in characters.
        labels: List of integers, 1 for the same meaning. `None` for test data.
    """

    words: list
    sentences: tuple
    spans: tuple
    labels: list


@shown_by_columns
class Coreferences(NamedTuple):
    """WSC: a noun phrase and a pronoun in a text, which may or may not refer to the same thing.

    Attributes:
        texts: List of strings.
        phrases: Tuple of two lists of strings: the noun phrases, and the pronouns.
        places: Tuple of two lists of integers. Positions of their first words in `text.split(" ")`.
        labels: List of integers, 1 if the pronoun refers to the noun phrase. `None` for test data.
    """

    texts: list
    phrases: tuple
    places: tuple
    labels: list


def load_superglue(folder: str | os.PathLike, task: str) -> Splits:
    """Reads a task of SuperGLUE (Wang et al. 2019) from the official files.

    | task | splits | label names, in order |
    | --- | --- | --- |
    | `"BoolQ"` | `Split`s: question and passage | false, true |
    | `"CB"` | `Split`s: premise and hypothesis | entailment, contradiction, neutral |
    | `"COPA"` | `Choices` | none: positions of the choices |
    | `"MultiRC"` | `AnswersToGrade` | false, true |
    | `"ReCoRD"` | `ClozeQuestions` | none |
    | `"RTE"` | `Split`s: premise and hypothesis | entailment, not_entailment |
    | `"WiC"` | `WordsInContext` | false, true |
    | `"WSC"` | `Coreferences` | false, true |
    | `"AX-b"`, `"AX-g"` | `Split`s of pairs, only `test`, with labels | entailment, not_entailment |

    Args:
        folder: Path of a folder with the folders of the tasks, such as `superglue` with `CB/train.jsonl`.
        task: String. Name of the task, as in the table. Case and hyphens make no difference.

    Returns:
        `Splits`: `train`, `validation` and `test`, for the files that exist.

    Raises:
        FileNotFoundError: If none of the files exists.
        ValueError: If the task is unknown, or if a file has another format.

    Example:
    ```python
    import json, pathlib

    row = {"premise": "It rained.", "hypothesis": "It was wet.", "label": "entailment", "idx": 0}
    pathlib.Path("superglue/CB").mkdir(parents=True)
    pathlib.Path("superglue/CB/val.jsonl").write_text(json.dumps(row))
    keras_transfer.datasets.load_superglue("superglue", "CB").validation.labels  # [0]
    ```

    Source: https://super.gluebenchmark.com
    """
    task = look_up(task, [*PAIRS, *READERS], "SuperGLUE task")
    files = {"test": [f"{task}.jsonl"]} if task.startswith("AX") else FILES
    splits = {}
    for split, path in split_files(pathlib.Path(folder) / task, "superglue", files).items():
        rows = [(row, f"{path}, line {number}") for number, row in read_json_lines(path)]
        labelled = split != "test" or task.startswith("AX")
        splits[split] = READERS[task](rows, labelled) if task in READERS else _pairs(rows, labelled, *PAIRS[task])
    label_names = PAIRS[task][1] if task in PAIRS else BOOLEANS if task in ("MultiRC", "WiC", "WSC") else None
    return Splits(splits, label_names and list(label_names))


def _labels(rows, names, labelled):
    if not labelled:
        return None
    values = [get(row, "label", where, object) for row, where in rows]
    values = [str(value).lower() if isinstance(value, bool) else value for value in values]
    return positions(values, names, lambda row: rows[row][1])


def _column(rows, name, kind=str):
    return [get(row, name, where, kind) for row, where in rows]


def _pairs(rows, labelled, columns, names):
    return Split(tuple(_column(rows, name) for name in columns), _labels(rows, names, labelled))


def _copa(rows, labelled):
    names = ("premise", "question", "choice1", "choice2")
    found = [(*copa_row(row, names, where), None) for row, where in rows]
    return from_rows(Choices, found)._replace(labels=_labels(rows, names[2:], labelled))


def _multirc(rows, labelled):
    texts, numbers, graded, count = ([], []), [], [], 0
    for row, where in rows:
        passage = get(row, "passage", where, dict)
        for question in get(passage, "questions", where, list):
            for answer in get(question, "answers", where, list):
                texts[0].append(get(passage, "text", where))
                texts[1].append(f"{get(question, 'question', where)} {get(answer, 'text', where)}")
                numbers.append(count)
                graded.append((answer, where))
            count += 1
    return AnswersToGrade(texts, _labels(graded, BOOLEANS, labelled), numbers)


def _record(rows, labelled):
    found = []
    for row, where in rows:
        passage = get(row, "passage", where, dict)
        text = get(passage, "text", where)
        spans = [
            (get(each, "start", where, int), get(each, "end", where, int))
            for each in get(passage, "entities", where, list)
        ]
        entities = list(dict.fromkeys(text[start : end + 1] for start, end in spans))  # The end is inclusive.
        for question in get(row, "qas", where, list):
            given = get(question, "answers", where, list) if labelled else []
            answers = list(dict.fromkeys(get(answer, "text", where) for answer in given))
            found.append((text, get(question, "query", where), entities, answers))
    result = from_rows(ClozeQuestions, found)
    return result if labelled else result._replace(answers=None)


def _wic(rows, labelled):
    sentences = (_column(rows, "sentence1"), _column(rows, "sentence2"))
    spans = tuple(list(zip(_column(rows, f"start{i}", int), _column(rows, f"end{i}", int))) for i in (1, 2))
    return WordsInContext(_column(rows, "word"), sentences, spans, _labels(rows, BOOLEANS, labelled))


def _wsc(rows, labelled):
    targets = [(get(row, "target", where, dict), where) for row, where in rows]
    phrases = (_column(targets, "span1_text"), _column(targets, "span2_text"))
    places = (_column(targets, "span1_index", int), _column(targets, "span2_index", int))
    return Coreferences(_column(rows, "text"), phrases, places, _labels(rows, BOOLEANS, labelled))


READERS = {"COPA": _copa, "MultiRC": _multirc, "ReCoRD": _record, "WiC": _wic, "WSC": _wsc}
