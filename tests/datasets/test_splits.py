"""Splits by name, with label names and the closest name for one that does not exist."""

import copy
import pickle

import numpy as np
import pytest

from keras_transfer import datasets
from keras_transfer.datasets import Split, Splits


def make_splits():
    return Splits({"train": Split(["a", "b"], [1, 0]), "validation_matched": Split(["c"], [1])}, ["no", "yes"])


def test_splits_are_items_and_attributes_in_order():
    data = make_splits()
    assert data["train"] is data.train and list(data) == ["train", "validation_matched"]
    assert data.label_names == ["no", "yes"] and data.validation_matched.texts == ["c"]
    assert repr(data) == "Splits(train, validation_matched; label_names=['no', 'yes'])"


def test_a_split_that_does_not_exist_is_an_error_with_the_closest_name():
    data = make_splits()
    names = r"\['train', 'validation_matched'\]"
    message = rf"no split 'validation_match'. Did you mean 'validation_matched'\? Expected one of {names}"
    with pytest.raises(KeyError, match=message):
        data["validation_match"]
    with pytest.raises(AttributeError, match=message):
        data.validation_match  # noqa: B018
    assert data.get("test") is None and not hasattr(data, "test")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_splits_can_be_copied_and_pickled(duplicate):
    data = duplicate(make_splits())
    assert data == make_splits() and data.label_names == ["no", "yes"]


@pytest.mark.parametrize(
    "split",
    [
        datasets.Split(["a text"] * 700, [1] * 700),
        datasets.Split((["a text"] * 700, ["another"] * 700), None),
        datasets.Split(np.array(["a text"] * 700), np.ones(700)),
        datasets.ParallelTexts(["a text"] * 700, ["ein Text"] * 700),
        datasets.TaggedSentences([["a", "text"] * 500] * 700, [["DET", "NOUN"] * 500] * 700),
        datasets.Choices(["a text"] * 700, ["b"] * 700, [["c", "d"]] * 700, [0] * 700),
    ],
    ids=lambda split: type(split).__name__,
)
def test_a_split_prints_its_size_and_its_first_row(split):
    assert repr(split).startswith(f"{type(split).__name__} of 700 rows. The first one is") and "a" in repr(split)
    assert len(repr(split)) < 300


def test_an_empty_split_prints_its_size():
    assert repr(datasets.Split([], [])) == "Split of 0 rows"


def test_many_names_of_classes_are_shortened():
    assert repr(datasets.Splits({}, [str(number) for number in range(12)])).endswith("'9', ... and 2 more])")
