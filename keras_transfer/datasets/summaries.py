"""Articles and their summaries: XSum and CNN/Daily Mail, in the forms in which they are common."""

import hashlib
import os
import pathlib

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import get, read_lines
from keras_transfer.core.tables import Table
from keras_transfer.datasets.parallel_texts import ParallelTexts, checked_texts, read_parallel
from keras_transfer.datasets.sources import existing_file, require, split_files
from keras_transfer.datasets.splits import Splits

NAMES = {"train": ("train",), "validation": ("validation", "val", "valid", "dev"), "test": ("test",)}
FILES = {
    split: [
        f"{name}.{kind}{end}" for name in names for end in ("", ".gz") for kind in ("jsonl", "json", "csv", "source")
    ]
    for split, names in NAMES.items()
}
HIGHLIGHT = "@highlight"


def load_xsum(folder: str | os.PathLike, *, skip_empty: bool = False) -> Splits:
    """Reads XSum (Narayan et al. 2018), articles of the BBC with summaries of one sentence.

    Args:
        folder: Path of a folder with a file for each split, named `train`, `validation` (or `val`, `valid` or `dev`)
            and `test`: JSON Lines (`.jsonl` or `.json`) or `.csv` with the columns `document` and `summary`, also
            compressed (`.gz`), or two files `.source` and `.target` with a text on each line.
        skip_empty: Boolean. Whether to leave out rows of which a text is empty, and log how many. Defaults to `False`,
            for which such a row is an error.

    Returns:
        `Splits` of `ParallelTexts`: `train` with 204,045 rows, `validation` with 11,332 and `test` with 11,334, for the
        files that exist.

    Raises:
        FileNotFoundError: If the folder has none of these files, or `.source` without `.target`.
        ValueError: If a split has several files, if a row lacks a column or a text, or if a file is cut, has no rows or
            is not in UTF-8.

    Example:
    ```python
    with open("train.jsonl", "w") as file:
        file.write('{"document": "It rained all day in Leeds.", "summary": "A wet day."}\\n')
    keras_transfer.datasets.load_xsum(".").train.targets  # ["A wet day."]
    ```

    Source: https://aclanthology.org/D18-1206
    """
    return _load(folder, ("document", "summary"), "xsum", skip_empty)


def load_cnn_dailymail(folder: str | os.PathLike, *, skip_empty: bool = False) -> Splits:
    """Reads CNN/Daily Mail (Hermann et al. 2015, See et al. 2017), news articles with their highlights as summaries.

    The highlights of an article are on lines of their own in JSON and CSV files, as `metrics.Rouge` expects for
    ROUGE-Lsum. `read_stories` reads the original stories.

    Args:
        folder: Path of a folder as for `load_xsum`, with the columns `article` and `highlights`.
        skip_empty: Boolean. Whether to leave out rows with an empty text, and log how many. Defaults to `False`, for
            which such a row is an error.

    Returns:
        `Splits` of `ParallelTexts`: `train` with 287,113 rows, `validation` with 13,368 and `test` with 11,490 in
        version 3, for the files that exist.

    Raises:
        FileNotFoundError: If the folder has none of these files, or `.source` without `.target`.
        ValueError: If a split has several files, if a row lacks a column or a text, or if a file is cut, has no rows or
            is not in UTF-8.

    Example:
    ```python
    with open("test.csv", "w") as file:
        file.write('id,article,highlights\\n1,"It rained, all day.","Rain .\\nMore rain ."\\n')
    keras_transfer.datasets.load_cnn_dailymail(".").test.targets  # ["Rain .\\nMore rain ."]
    ```

    Source: https://aclanthology.org/P17-1099
    """
    return _load(folder, ("article", "highlights"), "cnn_dailymail", skip_empty)


def read_stories(
    folder: str | os.PathLike, *, urls: str | os.PathLike | None = None, skip_empty: bool = False
) -> ParallelTexts:
    """Reads the stories of CNN or the Daily Mail (Hermann et al. 2015), one file for each article.

    The paragraphs of an article are joined by spaces, and its highlights, each of which follows a line `@highlight`, by
    line ends. Nothing else is changed.

    Args:
        folder: Path of the folder of files `NAME.story`, such as `cnn/stories`, or a list of such folders.
        urls: Path of a list of addresses, such as `all_val.txt` of See et al. (2017). Only their stories are read, in
            this order: the name of a file is the SHA-1 of its address. Defaults to `None`, all stories in the order of
            their names.
        skip_empty: Boolean. Whether to leave out stories without an article or without highlights, and log how many.
            Defaults to `False`, for which such a story is an error.

    Returns:
        `ParallelTexts`.

    Raises:
        FileNotFoundError: If there are no stories, or if the story of an address or `urls` does not exist.
        ValueError: If a highlight has no text, if a story has no article or no highlights, or if a file is not in
            UTF-8.

    Example:
    ```python
    import pathlib

    pathlib.Path("stories").mkdir()
    pathlib.Path("stories/1.story").write_text("It rained.\\n\\nAll day.\\n\\n@highlight\\n\\nA wet day\\n")
    keras_transfer.datasets.read_stories("stories").sources  # ["It rained. All day."]
    ```

    Source: https://arxiv.org/abs/1506.03340
    """
    folders = [pathlib.Path(each) for each in (folder if isinstance(folder, (list, tuple)) else [folder])]
    found = {path.stem: path for each in folders for path in sorted(each.glob("*.story"))}
    require(found, folders[0], "files NAME.story", "cnn_dailymail")
    if urls is None:
        paths = [found[name] for name in sorted(found)]
    else:
        paths = []
        for number, url in enumerate(read_lines(existing_file(urls)), 1):
            name = hashlib.sha1(url.strip().encode(), usedforsecurity=False).hexdigest()
            if name not in found:
                raise FileNotFoundError(
                    f"{urls}, line {number}: Expected an address whose story {name}.story is in the folder. "
                    f"Received: {url[:80]!r}"
                )
            paths.append(found[name])
    return checked_texts([_story(path) for path in paths], lambda row, _: f"{paths[row]}", urls or folder, skip_empty)


def _story(path):
    """Returns `(article, highlights)` of a story."""
    article, highlights = [], None  # A list of lists of lines from the first highlight on.
    for number, line in enumerate(read_lines(path), 1):
        line = line.strip()
        if line == HIGHLIGHT:
            highlights = [] if highlights is None else highlights
            has_text, where = not highlights or highlights[-1], f"{path}, line {number}"
            expect(has_text, "Expected the text of a highlight.", line, where=where)
            highlights.append([])
        elif line:
            (article if highlights is None else highlights[-1]).append(line)
    is_whole = not highlights or highlights[-1]
    expect(is_whole, "Expected the text of the last highlight.", received="the end of the file", where=path)
    return " ".join(article), "\n".join(map(" ".join, highlights or []))


def _load(folder, columns, dataset, skip_empty):
    """Returns the splits of a folder, which are tables with two columns or pairs of files."""
    splits, expected = {}, "files such as train.jsonl, train.csv, or train.source and train.target"
    for split, path in split_files(folder, dataset, FILES, expected).items():
        if ".source" in path.suffixes:
            target = path.with_name(path.name.replace(".source", ".target"))
            splits[split] = read_parallel(path, target, skip_empty=skip_empty)
        else:
            splits[split] = _read_table(path, columns, skip_empty)
    return Splits(splits)


def _read_table(path, columns, skip_empty):
    """Returns two columns of a JSON Lines or CSV file as `ParallelTexts`."""
    rows = list(Table(path))
    texts = [[get(row, name, f"{path}, line {number}") for name in columns] for number, row in rows]
    return checked_texts(texts, lambda row, _: f"{path}, line {rows[row][0]}", path, skip_empty)
