"""Splits by name, with label names and the closest name for one that does not exist."""

import copy
import pickle

import pytest

from keras_transfer.datasets import Split, Splits


def make_splits():
    return Splits({"train": Split(["a", "b"], [1, 0]), "dev_matched": Split(["c"], [1])}, ["no", "yes"])


def test_splits_are_items_and_attributes_in_order():
    data = make_splits()
    assert data["train"] is data.train and list(data) == ["train", "dev_matched"]
    assert data.label_names == ["no", "yes"] and data.dev_matched.texts == ["c"]
    assert repr(data) == "Splits(train, dev_matched; label_names=['no', 'yes'])"


def test_a_split_that_does_not_exist_is_an_error_with_the_closest_name():
    data = make_splits()
    message = r"no split 'dev_match'. Did you mean 'dev_matched'\? Expected one of \['train', 'dev_matched'\]"
    with pytest.raises(KeyError, match=message):
        data["dev_match"]
    with pytest.raises(AttributeError, match=message):
        data.dev_match  # noqa: B018
    assert data.get("test") is None and not hasattr(data, "test")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_splits_can_be_copied_and_pickled(duplicate):
    data = duplicate(make_splits())
    assert data == make_splits() and data.label_names == ["no", "yes"]
