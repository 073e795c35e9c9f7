"""Multiple choice: SWAG, COPA and RACE, from the official files."""

import os
import pathlib
import xml.etree.ElementTree
from typing import NamedTuple

from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.core.lines import checked_rows, get, read_rows, read_whole_json
from keras_transfer.datasets.sources import require, split_files
from keras_transfer.datasets.splits import Splits, from_rows, shown_by_columns

CONJUNCTIONS = {"cause": "because", "effect": "so"}  # COPA asks for either.
SWAG_COLUMNS = ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")
RACE_FOLDERS = {"train": "train", "validation": "dev", "test": "test"}


@shown_by_columns
class Choices(NamedTuple):
    """Contexts, each with a question and several choices. One of the choices is right.

    Attributes:
        contexts: List of strings.
        questions: List of strings. The text between a context and a choice: the beginning of the choices (SWAG),
            `"cause"` or `"effect"` (COPA), or a question, which may have a gap `_` (RACE).
        choices: List of lists of strings.
        labels: List of integers. Positions of the right choices. `None` for test data without labels.
    """

    contexts: list
    questions: list
    choices: list
    labels: list

    @property
    def inputs(self) -> tuple[list[str], list[list[str]]]:
        """Returns `(contexts, endings)`: a list of strings, and a list of lists of strings.

        An ending combines a choice with its question, as in the papers. For SWAG and RACE, the choice follows the
        question and a space. If a question of RACE has a gap, the choice replaces the gap. For COPA, the choice follows
        "because" or "so".
        """
        rows = zip(self.questions, self.choices)
        return self.contexts, [[_ending(question, choice) for choice in choices] for question, choices in rows]


def _ending(question, choice):
    if question in CONJUNCTIONS:
        return f"{CONJUNCTIONS[question]} {choice}"
    return question.replace("_", choice) if "_" in question else f"{question} {choice}".strip()


def load_swag(folder: str | os.PathLike) -> Splits:
    """Reads SWAG (Zellers et al. 2018) from the official files: a sentence, and four endings of the next one.

    Args:
        folder: Path of a folder with `train.csv`, `val.csv` and `test.csv`.

    Returns:
        `Splits` of `Choices`: `train` with 73,546 rows, `validation` with 20,006 and `test` with 20,005, for the files
        that exist. The labels of `test` are `None`.

    Raises:
        FileNotFoundError: If none of the files exists.
        ValueError: If a file has another format.

    Example:
    ```python
    with open("val.csv", "w") as file:
        print(",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label", file=file)
        print("0,v,1,She sits down. She,She sits down.,She,gold,reads.,flies.,melts.,rains.,0", file=file)
    data = keras_transfer.datasets.load_swag(".")
    contexts, endings = data.validation.inputs
    endings[0][data.validation.labels[0]]  # "She reads."
    ```

    Source: https://arxiv.org/abs/1808.05326
    """
    files = split_files(folder, "swag")
    return Splits({split: _read_swag(path, split != "test") for split, path in files.items()})


def _read_swag(path, labelled):
    header, rows = read_rows(path)
    found = []
    for number, fields in checked_rows(path, header, rows):
        row, where = dict(zip(header, fields)), f"{path}, line {number}"
        context, question, *choices = (get(row, name, where) for name in SWAG_COLUMNS)
        label = _label(get(row, "label", where), "0123", where) if labelled else None
        found.append((context, question, choices, label))
    result = from_rows(Choices, found)
    return result if labelled else result._replace(labels=None)


def load_copa(folder: str | os.PathLike) -> Splits:
    """Reads COPA (Roemmele et al. 2011) from the official files: a sentence, and two choices of its cause or effect.

    For the files of SuperGLUE, which have other splits, use `load_superglue(folder, "COPA")`.

    Args:
        folder: Path of a folder with `copa-dev.xml` and `copa-test.xml`.

    Returns:
        `Splits` of `Choices`: `validation` and `test` with 500 rows each, for the files that exist.

    Raises:
        FileNotFoundError: If none of the files exists.
        ValueError: If a file has another format.

    Example:
    ```python
    with open("copa-dev.xml", "w") as file:
        file.write(
            '<copa-corpus><item id="1" asks-for="effect" most-plausible-alternative="2"><p>It rained.</p>'
            "<a1>The sun rose.</a1><a2>The street got wet.</a2></item></copa-corpus>"
        )
    keras_transfer.datasets.load_copa(".").validation.inputs  # ["It rained."], [["so The sun rose.", ...]]
    ```

    Source: https://asgordon.github.io/copa.html
    """
    files = split_files(folder, "copa")
    return Splits({split: _read_copa(path) for split, path in files.items()})


def _read_copa(path):
    try:
        items = xml.etree.ElementTree.parse(path).getroot().findall("item")
    except xml.etree.ElementTree.ParseError as error:
        raise ValueError(f"{path}: Expected complete XML. The file may have been cut. Received: {error}") from None
    expect(items, "Expected at least one item.", received="no items", where=path)
    found = []
    for number, item in enumerate(items, 1):
        row, where = {**item.attrib, **{part.tag: part.text for part in item}}, f"{path}, item {number}"
        label = _label(get(row, "most-plausible-alternative", where), "12", where)
        found.append((*copa_row(row, ("p", "asks-for", "a1", "a2"), where), label))
    return from_rows(Choices, found)


def copa_row(row, names, where):
    """Returns the context, question and choices of a row of COPA, given the keys of these."""
    premise, question, *choices = (get(row, name, where) for name in names)
    expect(question in CONJUNCTIONS, f"Expected one of {list(CONJUNCTIONS)}.", question, where=where)
    return premise, question, choices


@expects(level=one_of("middle", "high", "all"))
def load_race(folder: str | os.PathLike, *, level: str = "all") -> Splits:
    """Reads RACE (Lai et al. 2017) from the official folder: articles, and questions with four choices.

    Args:
        folder: Path of the folder `RACE`, with `train`, `validation` and `test`.
        level: String. `"middle"`, `"high"` or `"all"`. Defaults to `"all"`.

    Returns:
        `Splits` of `Choices`, one row for each question: `train` with 87,866 rows, `validation` with 4,887 and `test`
        with 4,934 for all levels, for the folders that exist.

    Raises:
        FileNotFoundError: If a folder is missing or has no articles.
        ValueError: If a file has another format.

    Example:
    ```python
    import json, pathlib

    pathlib.Path("RACE/dev/high").mkdir(parents=True)
    article = {"article": "Tom has a dog.", "questions": ["Tom has a _ ."], "answers": ["B"]}
    article["options"] = [["cat", "dog", "cow", "hen"]]
    pathlib.Path("RACE/dev/high/1.txt").write_text(json.dumps(article))
    keras_transfer.datasets.load_race("RACE", level="high").validation.labels  # [1]
    ```

    Source: https://arxiv.org/abs/1704.04683
    """
    levels = ("middle", "high") if level == "all" else (level,)
    places = {split: pathlib.Path(folder) / name for split, name in RACE_FOLDERS.items()}
    splits = {split: _read_race(place, levels) for split, place in places.items() if place.is_dir()}
    require(splits, folder, "train, dev and test", "race")
    return Splits(splits)


def _read_race(folder, levels):
    found = []
    for place in (folder / level for level in levels):
        articles = sorted(place.glob("*.txt"), key=lambda path: (len(path.stem), path.stem))
        require(articles, place, "articles", "race")
        found += [row for path in articles for row in _rows_of(read_whole_json(path), path)]
    return from_rows(Choices, found)


def _rows_of(article, path):
    text = get(article, "article", path)
    columns = [get(article, name, path, list) for name in ("questions", "options", "answers")]
    counts = [len(column) for column in columns]
    expect(len({*counts}) == 1, "Expected as many options and answers as questions.", counts, where=path)
    for question, options, answer in zip(*columns):
        expect(isinstance(options, list) and len(options) == 4, "Expected four options.", options, where=path)
        texts = [question, *options]
        expect(all(isinstance(each, str) for each in texts), "Expected strings.", texts, where=path)
        yield text, question, options, _label(answer, "ABCD", path)


def _label(text, marks, where):
    """Returns the position of a label in the string of all labels."""
    expect(text in list(marks), f"Expected one of {list(marks)} as the right choice.", text, where=where)
    return marks.index(text)
