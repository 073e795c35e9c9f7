"""Datasets of labelled texts, which the readers return."""

from typing import NamedTuple


class Split(NamedTuple):
    """Texts and their labels.

    Attributes:
        texts: List of strings.
        labels: List of integers. Positions in the dataset's `label_names`.
    """

    texts: list
    labels: list


class Dataset(NamedTuple):
    """A labelled dataset with a training and a test part.

    Attributes:
        train: `Split`.
        test: `Split`.
        label_names: List of strings, in alphabetical order.
    """

    train: Split
    test: Split
    label_names: list


def make_dataset(train, test):
    """Returns a `Dataset` from two lists of `(text, label name)`.

    Raises:
        ValueError: If a label of the test part is missing from the training part.
    """
    names = sorted({label for _, label in train})
    if unknown := sorted({label for _, label in test} - set(names)):
        raise ValueError(
            f"Labels of the test data must occur in the training data. Expected some of {names}. Received: {unknown}"
        )
    parts = [Split([text for text, _ in part], [names.index(label) for _, label in part]) for part in (train, test)]
    return Dataset(*parts, names)
