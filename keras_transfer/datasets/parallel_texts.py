"""Sources and targets, and their readers: two files with a text on each line, or one file with two columns."""

import os
from typing import NamedTuple

from keras_transfer.core.expect import expect, expects, integer, list_of
from keras_transfer.core.lines import log, read_lines, shorten
from keras_transfer.datasets.sources import existing_file
from keras_transfer.datasets.splits import from_rows, shown_by_columns


@shown_by_columns
class ParallelTexts(NamedTuple):
    """Source texts and the target of each, for a task that writes the target: `model.fit(*texts)`.

    Attributes:
        sources: List of strings, such as sentences to translate or articles to summarize.
        targets: List of strings of the same length, such as translations or summaries.
    """

    sources: list
    targets: list


def read_parallel(
    source_path: str | os.PathLike, target_path: str | os.PathLike, *, skip_empty: bool = False
) -> ParallelTexts:
    """Reads two files with a text on each line, of which line N of one belongs to line N of the other.

    OPUS (in Moses format), WMT, Tatoeba and most other collections of translations have such files, and also XSum and
    CNN/Daily Mail, as `train.source` and `train.target`. Only newlines end a line. Texts are not changed, except that
    spaces around them are removed.

    Args:
        source_path: Path of the file with the sources, in UTF-8, or a compressed one (`.gz`).
        target_path: Path of the file with the targets, as `source_path`.
        skip_empty: Boolean. Whether to leave out rows of which a text is empty, as many web corpora contain, and log
            how many. Defaults to `False`, for which such a row is an error.

    Returns:
        `ParallelTexts`.

    Raises:
        FileNotFoundError: If one of the files does not exist.
        ValueError: If the files differ in the number of lines, if they have none, if a text is empty, or if a file is
            cut or is not in UTF-8.

    Example:
    ```python
    for name, lines in {"train.en": "A dog.\\nTwo cats.\\n", "train.de": "Ein Hund.\\nZwei Katzen.\\n"}.items():
        with open(name, "w") as file:
            file.write(lines)
    data = keras_transfer.datasets.read_parallel("train.en", "train.de")
    data.sources, data.targets  # (["A dog.", "Two cats."], ["Ein Hund.", "Zwei Katzen."])
    ```
    """
    paths = [existing_file(path) for path in (source_path, target_path)]
    columns = [read_lines(path) for path in paths]
    counts = [len(column) for column in columns]
    shorter = counts.index(min(counts))
    where = f"{paths[shorter]}, line {min(counts) + 1:,}"
    expected = f"{max(counts):,} lines, as in {paths[1 - shorter]}. The file may have been cut"
    expect(counts[0] == counts[1], f"Expected {expected}.", received="the end of the file", where=where)
    rows = list(zip(*columns, strict=True))
    return checked_texts(rows, lambda row, column: f"{paths[column]}, line {row + 1}", paths[0], skip_empty)


@expects(columns=list_of(integer(0), 2))
def read_parallel_tsv(
    path: str | os.PathLike, *, columns: tuple | None = None, skip_empty: bool = False
) -> ParallelTexts:
    """Reads a file with a source, a tab and a target on each line, the format of grammatical error correction.

    Quotes are a part of the text. There is no header.

    Args:
        path: Path of the file, in UTF-8, or a compressed one (`.gz`).
        columns: Two integers. Positions of the source and the target, from 0, for files with further columns. Defaults
            to `None`, for files with two.
        skip_empty: Boolean. Whether to leave out rows of which a text is empty, and log how many. Defaults to `False`,
            for which such a row is an error.

    Returns:
        `ParallelTexts`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line does not have two columns, or with `columns`, as many as the first line; if a text is
            empty; or if the file has no lines, is cut or is not in UTF-8.

    Example:
    ```python
    with open("corrections.tsv", "w") as file:
        file.write("She go home .\\tShe goes home .\\n")
    keras_transfer.datasets.read_parallel_tsv("corrections.tsv").targets  # ["She goes home ."]
    ```
    """
    path, places = existing_file(path), [0, 1] if columns is None else list(columns)
    expect(len(places) == 2, "`columns` must be two positions, counted from 0.", columns=columns)
    rows, count = [], 2 if columns is None else None
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split("\t")
        count = max(len(fields), max(places) + 1) if count is None else count
        if len(fields) != count:
            advice = (
                "" if columns or len(fields) < 3 else " Pass `columns`, the positions of the source and the target."
            )
            raise ValueError(
                f"{path}, line {number}: Expected {count} columns, separated by tabs.{advice} "
                f"Received: {len(fields)} columns, {shorten(fields)}"
            )
        rows.append(tuple(fields[place] for place in places))
    return checked_texts(rows, lambda row, column: f"{path}, line {row + 1}", path, skip_empty)


def checked_texts(rows, where, path, skip_empty=False):
    """Returns rows of a source and a target as `ParallelTexts`, without the spaces around them.

    Args:
        where: Function from a row and a column to the beginning of an error message.
    """
    rows = [(source.strip(), target.strip()) for source, target in rows]
    empty = [(row, pair.index("")) for row, pair in enumerate(rows) if "" in pair]
    if empty and not skip_empty:
        raise ValueError(
            f"{where(*empty[0])}: Expected a text. Pass `skip_empty=True` to leave out such rows, of which there are "
            f"{len(empty):,}. Received: an empty {('source', 'target')[empty[0][1]]}"
        )
    if empty:
        log.warning("%s: %s of %s rows have an empty text and are left out.", path, f"{len(empty):,}", f"{len(rows):,}")
        rows = [pair for pair in rows if "" not in pair]
    expect(rows, "Expected at least one row.", received="no rows", where=path)
    return from_rows(ParallelTexts, rows)
