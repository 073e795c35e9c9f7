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
        source: Path of a table, or another single table of `read_table`.
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
    """Reads sentences that test the agreement of a word with another, in the formats of Gulordava et al. (2018).

    Their files are `subj_agr_filtered.text`, sentences of Linzen et al. (2016), and `generated.text`, sentences with
    others of the same syntax that make no sense. Each line of `.text` is a sentence, whose words are separated by
    spaces. The same line of the `.gold` file beside it has the position of the word from 0, its right and its wrong
    form, and the number of attractors, nouns of the other number before it; or in their second format, of twelve
    columns, the fourth, seventh and eighth are the position and the forms, and the third is 0 for a real sentence.

    Args:
        path: Path of the `.text` file.

    Returns:
        `MinimalPairs`, whose phenomena are the numbers of attractors, such as `"2 attractors"`, or `"original"` and
        `"nonce"`. `<eos>` is left out, and so are lines whose two forms are the same.

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
        of_nonce = len(fields) == 12
        columns = (3, 6, 7, 2) if of_nonce else range(4)
        place, *forms, count = [fields[i] for i in columns] if len(fields) in (4, 12) else ["", ""]
        fits = place.isdecimal() and count.isdecimal() and int(place) < len(words)
        rule = "Expected the position of a word, its right form, its wrong form, and the number of attractors."
        expect(fits, rule, row, where=f"{path.with_suffix('.gold')}, line {number}")
        kind = ("nonce" if int(count) else "original") if of_nonce else f"{count} attractor{'s' * (count != '1')}"
        if forms[0] != forms[1]:
            both = ([*words[: int(place)], form, *words[int(place) + 1 :]] for form in forms)
            pairs.append([*(" ".join(word for word in each if word != "<eos>") for each in both), kind])
    return from_rows(MinimalPairs, pairs)
