"""Texts for language models: WikiText, and the minimal pairs of BLiMP."""

import os
import pathlib
from typing import NamedTuple

from keras_transfer.core.lines import get, read_json_lines, read_lines
from keras_transfer.datasets.sources import existing_file, require, split_files
from keras_transfer.datasets.splits import Splits, from_rows, shown_by_columns


def load_wikitext(folder: str | os.PathLike) -> Splits:
    """Reads WikiText-2 or WikiText-103 (Merity et al. 2017) from the official files.

    A line is a paragraph, a heading such as `= Robert <unk> =`, or empty. Its words are separated by spaces. With
    `<eos>` at the end of each line, including empty ones, the numbers of tokens equal the paper's: 2,088,628,
    217,646 and 245,569 for WikiText-2.

    Args:
        folder: Path of a folder with `wiki.train.tokens`, `wiki.valid.tokens` and `wiki.test.tokens`, or with the raw
            files, such as `wiki.train.raw`.

    Returns:
        `Splits` of lists of strings, the lines without the spaces around them: `train`, `validation` and `test`, for
        the files that exist.

    Raises:
        FileNotFoundError: If none of the files exists.
        ValueError: If a split has two files, or if a file is not in UTF-8.

    Example:
    ```python
    data = keras_transfer.datasets.load_wikitext("wikitext-2")
    sum(len(line.split()) + 1 for line in data.validation)  # 217646
    paragraphs = [line for line in data.validation if line and not line.startswith("=")]
    ```

    Source: https://arxiv.org/abs/1609.07843
    """
    files = split_files(folder, "wikitext", expected="files such as wiki.train.tokens")
    return Splits({split: [line.strip(" ") for line in read_lines(path)] for split, path in files.items()})


@shown_by_columns
class MinimalPairs(NamedTuple):
    """Pairs of sentences that differ as little as possible: one is acceptable, the other is not.

    Attributes:
        good: List of strings. The acceptable sentences.
        bad: List of strings. The unacceptable sentences.
        phenomena: List of strings. The phenomenon that each pair tests, such as `"anaphor_agreement"`.
    """

    good: list
    bad: list
    phenomena: list


def load_blimp(path: str | os.PathLike) -> MinimalPairs | Splits:
    """Reads BLiMP (Warstadt et al. 2020) from the official files.

    Args:
        path: Path of a file, such as `anaphor_gender_agreement.jsonl`, or of a folder of such files.

    Returns:
        `MinimalPairs`, 1,000 for each file. For a folder, `Splits` of them by the names of the files without `.jsonl`.

    Raises:
        FileNotFoundError: If the file does not exist, or if the folder has no files `*.jsonl`.
        ValueError: If a line is not a JSON object with `sentence_good`, `sentence_bad` and `linguistics_term`.

    Example:
    ```python
    data = keras_transfer.datasets.load_blimp("blimp")
    data.anaphor_gender_agreement.good[0]  # "Katherine can't help herself."
    ```

    Source: https://arxiv.org/abs/1912.00582
    """
    path = pathlib.Path(path)
    if path.is_dir():
        paths = sorted(path.glob("*.jsonl"))
        require(paths, path, "files *.jsonl", "blimp")
        return Splits({file.stem: load_blimp(file) for file in paths})
    rows, names = read_json_lines(existing_file(path, "blimp")), ("sentence_good", "sentence_bad", "linguistics_term")
    rows = [[get(row, name, f"{path}, line {number}") for name in names] for number, row in rows]
    return from_rows(MinimalPairs, rows)
