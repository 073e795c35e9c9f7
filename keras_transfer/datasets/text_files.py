"""Texts for language models: WikiText, and minimal pairs of BLiMP, of any table, and of subject-verb agreement."""

import os
import pathlib
from typing import Any, NamedTuple

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import get, read_json_lines, read_lines
from keras_transfer.datasets.sources import existing_file, require, split_files
from keras_transfer.datasets.splits import Splits, from_rows, shown_by_columns
from keras_transfer.datasets.table import read_table


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


def read_minimal_pairs(source: Any, good: str, bad: str, phenomenon: str | None = None) -> MinimalPairs:
    """Reads minimal pairs from any table, such as the files of RuBLiMP.

    Args:
        source: Path of a table, or another table of `read_table`.
        good: String. Column of the acceptable sentences.
        bad: String. Column of the unacceptable sentences.
        phenomenon: String. Column of the phenomena. Defaults to `None`, for one phenomenon, `"pairs"`.

    Returns:
        `MinimalPairs`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a column is missing, or if a sentence is.

    Example:
    ```python
    with open("pairs.csv", "w") as file:
        file.write("good,bad,kind\\nThe dog barks.,The dog bark.,agreement\\n")
    keras_transfer.datasets.read_minimal_pairs("pairs.csv", "good", "bad", "kind")
    ```
    """
    (rights, wrongs), phenomena = read_table(source, good, phenomenon, pair_column=bad)
    return MinimalPairs(rights, wrongs, ["pairs"] * len(rights) if phenomena is None else [*map(str, phenomena)])


def read_agreement(path: str | os.PathLike) -> MinimalPairs:
    """Reads sentences that test the agreement of subject and verb, in the format of Gulordava et al. (2018).

    Their files are `generated.text`, with sentences that make no sense, and `subj_agr_filtered.text`, a part of the
    sentences of Linzen et al. (2016). Each line of `.text` is a sentence, whose words are separated by spaces. The same
    line of the `.gold` file beside it has the position of the verb from 0, its right and its wrong form, and the number
    of attractors, nouns of the other number between subject and verb.

    Args:
        path: Path of the `.text` file.

    Returns:
        `MinimalPairs`, whose phenomena are the numbers of attractors, such as `"2 attractors"`. `<eos>` is left out.

    Raises:
        FileNotFoundError: If one of the files does not exist.
        ValueError: If the files differ in their number of lines, or if a line of `.gold` does not fit its sentence.

    Example:
    ```python
    with open("some.text", "w") as text, open("some.gold", "w") as gold:
        text.write("the keys to the cabinet are here <eos>\\n")
        gold.write("5\\tare\\tis\\t1\\n")
    keras_transfer.datasets.read_agreement("some.text").bad  # ["the keys to the cabinet is here"]
    ```

    Source: https://arxiv.org/abs/1803.11138, https://arxiv.org/abs/1611.01368
    """
    path = pathlib.Path(path)
    texts, rows = (read_lines(existing_file(path.with_suffix(suffix))) for suffix in (".text", ".gold"))
    expect(len(texts) == len(rows), "Both files must have the same number of lines.", lines=(len(texts), len(rows)))
    pairs = []
    for number, (text, row) in enumerate(zip(texts, rows), 1):
        words, fields = text.split(), row.split("\t")
        fits = len(fields) == 4 and fields[0].isdecimal() and fields[3].isdecimal() and fields[1] != fields[2]
        fits = fits and int(fields[0]) < len(words)
        rule = "Expected the position of the verb, its right form, its wrong form, and the number of attractors."
        expect(fits, rule, row, where=f"{path.with_suffix('.gold')}, line {number}")
        place, count = int(fields[0]), int(fields[3])
        forms = ([*words[:place], form, *words[place + 1 :]] for form in fields[1:3])
        both = [" ".join(word for word in each if word != "<eos>") for each in forms]
        pairs.append([*both, f"{count} attractor{'' if count == 1 else 's'}"])
    return from_rows(MinimalPairs, pairs)
