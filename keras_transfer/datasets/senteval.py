"""The probing tasks of SentEval from their official files."""

import os

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import read_lines
from keras_transfer.datasets.dataset import Split
from keras_transfer.datasets.sources import existing_file
from keras_transfer.datasets.splits import Splits

_SPLITS = {"tr": "train", "va": "validation", "te": "test"}


def read_senteval(path: str | os.PathLike) -> Splits:
    """Reads a probing task of SentEval (Conneau et al. 2018), such as `sentence_length.txt`.

    Each line has a split (`tr`, `va` or `te`), a label and a sentence, separated by tabs.

    Args:
        path: Path of the file.

    Returns:
        `Splits` of `Split`s: `train`, `validation` and `test`. The label names are sorted.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line has another form, or if a split has no lines.

    Example:
    ```python
    with open("past_present.txt", "w") as file:
        file.write("tr\\tPAST\\tHe slept .\\nva\\tPRES\\tHe sleeps .\\nte\\tPAST\\tShe slept .\\n")
    keras_transfer.datasets.read_senteval("past_present.txt").label_names  # ["PAST", "PRES"]
    ```

    Source: https://arxiv.org/abs/1805.01070; https://github.com/facebookresearch/SentEval.
    """
    path, found = existing_file(path), {name: [] for name in _SPLITS}
    for number, line in enumerate(read_lines(path), 1):
        split, *row = line.split("\t", 2)
        rule = f"Expected one of {list(_SPLITS)}, a label and a sentence, separated by tabs."
        expect(split in _SPLITS and len(row) == 2 and row[0], rule, line, where=f"{path}, line {number}")
        found[split].append(row)
    names = sorted({label for rows in found.values() for label, _ in rows})
    for split, rows in found.items():
        expect(rows, f"Expected at least one line of the split {split!r}.", received="lines=0", where=path)
    splits = {
        name: Split([text for _, text in found[key]], [names.index(label) for label, _ in found[key]])
        for key, name in _SPLITS.items()
    }
    return Splits(splits, names)
