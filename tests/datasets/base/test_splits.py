"""Splits by name, with label names and the closest name for one that does not exist."""

import copy
import pickle

import pytest

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
