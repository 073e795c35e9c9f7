"""Classified texts from the official files: IMDB's reviews and AG's news."""

import os
import pathlib

from keras_transfer.core.expect import expect
from keras_transfer.core.lines import checked_rows, read_rows, read_text, warn_about_size
from keras_transfer.datasets.dataset import Split
from keras_transfer.datasets.sources import require, split_files
from keras_transfer.datasets.splits import Splits

IMDB_NAMES = ["neg", "pos"]  # In Keras's `load_data`, 0 is negative, too.
AG_NEWS_NAMES = ["World", "Sports", "Business", "Sci/Tech"]  # The official classes.txt has this order.


def load_imdb(folder: str | os.PathLike) -> Splits:
    """Reads the Large Movie Review Dataset (Maas et al. 2011) from the official folder `aclImdb`.

    The texts are unchanged, and contain `<br />` where lines end. Logs a warning if a folder does not have the official
    number of reviews.

    Args:
        folder: Path of the folder, with `train/neg`, `train/pos`, `test/neg` and `test/pos`.

    Returns:
        `Splits` of two `Split`s, `train` and `test`, with 25,000 reviews each: the negative ones first, and each
        class in the order of the numbers of its files. The label names are neg and pos.

    Raises:
        FileNotFoundError: If one of the folders is missing or has no reviews.
        ValueError: If a review is not valid UTF-8, or the name of its file is not `NUMBER_RATING.txt`.

    Example:
    ```python
    import pathlib

    for place in ("train/neg/0_1", "train/pos/0_9", "test/neg/0_2", "test/pos/0_10"):
        path = pathlib.Path(f"aclImdb/{place}.txt")
        path.parent.mkdir(parents=True)
        path.write_text("What a film!")
    keras_transfer.datasets.load_imdb("aclImdb").train.labels  # [0, 1]
    ```

    Source: https://ai.stanford.edu/~amaas/data/sentiment
    """
    splits = {}
    for split in ("train", "test"):
        texts, labels = [], []
        for label, name in enumerate(IMDB_NAMES):
            place = pathlib.Path(folder) / split / name
            paths = sorted(place.glob("*.txt"), key=_review_number)
            require(paths, folder, f"{split}/{name} with reviews", "imdb")
            warn_about_size(place, len(paths), 12500)
            texts += [read_text(path) for path in paths]
            labels += [label] * len(paths)
        splits[split] = Split(texts, labels)
    return Splits(splits, list(IMDB_NAMES))


def _review_number(path):
    number, _, rating = path.stem.partition("_")
    expect(number.isdecimal() and rating.isdecimal(), "Expected files NUMBER_RATING.txt.", path=path)
    return int(number)


def load_ag_news(folder: str | os.PathLike) -> Splits:
    """Reads AG's news (Zhang et al. 2015) from the official files.

    A text is the title, a space, and the description. Backslashes, which stand for line ends in the files, are not
    changed.

    Args:
        folder: Path of a folder with `train.csv` and `test.csv`.

    Returns:
        `Splits` of `Split`s: `train` with 120,000 texts and `test` with 7,600, for the files that exist. The label
        names are World, Sports, Business and Sci/Tech, which the files number from 1 to 4.

    Raises:
        FileNotFoundError: If none of the files exists.
        ValueError: If a row does not have three fields, or its class is not a number from 1 to 4.

    Example:
    ```python
    with open("train.csv", "w") as file:
        file.write('"3","Shares rise","Markets end the week higher."')
    data = keras_transfer.datasets.load_ag_news(".")
    data.train.texts[0], data.label_names[data.train.labels[0]]  # Business
    ```

    Source: https://arxiv.org/abs/1509.01626
    """
    files = split_files(folder, "ag_news")
    return Splits({split: _read_news(path) for split, path in files.items()}, list(AG_NEWS_NAMES))


def _read_news(path):
    header, rows = read_rows(path, header=["class", "title", "description"])
    texts, labels = [], []
    for number, (label, title, description) in checked_rows(path, header, rows):
        expect(label in ("1", "2", "3", "4"), "Expected a class from 1 to 4.", label, where=f"{path}, line {number}")
        labels.append(int(label) - 1)
        texts.append(f"{title} {description}")
    return Split(texts, labels)
