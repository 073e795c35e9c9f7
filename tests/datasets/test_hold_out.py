"""Validation data are held out at random, the same on each machine."""

import numpy as np
import pytest

from keras_transfer.datasets import Split, hold_out
from tests.errors import check_errors

TEXTS = [f"text {i}" for i in range(10)]


def test_a_fraction_of_the_rows_is_held_out_in_order_and_no_row_is_in_both_parts():
    train, held_out = hold_out(Split(TEXTS, list(range(10))), validation_split=0.3, seed=1)
    assert isinstance(train, Split) and len(held_out.texts) == 3 and len(train.labels) == 7
    assert [TEXTS[i] for i in train.labels] == train.texts and [TEXTS[i] for i in held_out.labels] == held_out.texts
    assert sorted(train.labels + held_out.labels) == list(range(10))
    assert train.labels == sorted(train.labels) and held_out.labels == sorted(held_out.labels)
    assert hold_out((TEXTS, TEXTS), validation_split=0.3, seed=1) == ((train.texts,) * 2, (held_out.texts,) * 2)
    assert hold_out((TEXTS,), validation_split=0.3, seed=2)[1] != (held_out.texts,)


def test_arrays_remain_arrays_and_the_choice_never_changes():
    train, held_out = hold_out((np.arange(10.0), TEXTS))
    assert held_out[0].tolist() == [float(text.split()[1]) for text in held_out[1]]
    assert (len(train[0]), len(held_out[0])) == (8, 2)


test_a_mistake_is_one_error = check_errors(
    ((TEXTS, 0.2), "`split` must be a tuple of columns of the same length. Received: list"),
    (((TEXTS, [1]), 0.2), "Received: columns of lengths [10, 1]"),
    (((), 0.2), "Received: tuple"),
    (((TEXTS,), 0.0), "at least one row. Received: validation_split=0.0, lengths=[10]"),
    (((TEXTS,), 1.0), "at least one row. Received: validation_split=1.0, lengths=[10]"),
    call=hold_out,
)


def test_the_texts_of_pairs_are_divided_together_and_missing_labels_remain_missing():
    train, held_out = hold_out(Split((TEXTS, TEXTS[::-1]), None), validation_split=0.3)
    assert isinstance(train, Split) and train.labels is held_out.labels is None
    assert [len(column) for column in (*train.texts, *held_out.texts)] == [7, 7, 3, 3]
    for first, second in zip(*held_out.texts, strict=True):
        assert TEXTS.index(first) + TEXTS.index(second) == len(TEXTS) - 1


@pytest.mark.parametrize(
    "column", [lambda texts: texts, lambda texts: (texts, texts), lambda texts: [[t] for t in texts]]
)
def test_texts_in_both_parts_are_one_warning(column, caplog):
    hold_out(Split(column(TEXTS), list(range(10))))
    assert not caplog.records
    hold_out(Split(column(["same"] * 10), list(range(10))), validation_split=0.3)
    (record,) = caplog.records
    assert "3 of 3 held-out texts are also in the training part" in record.getMessage()


@pytest.mark.parametrize(("name", "hint"), [("test_size", "`validation_split=...`"), ("random_state", "`seed=...`")])
def test_an_argument_of_scikit_learn_gets_a_hint(name, hint):
    with pytest.raises(TypeError, match=f"`hold_out` has no argument `{name}`.*{hint}"):
        hold_out(Split(TEXTS, list(range(10))), **{name: 0.5})


def test_a_split_says_where_the_names_of_labels_are():
    with pytest.raises(AttributeError, match="no attribute `label_names`. The names belong to the whole dataset"):
        print(Split(TEXTS, None).label_names)


def test_the_rows_of_pandas_are_found_by_their_position_whatever_their_index():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS, "label": range(10)}, index=[*range(9, 4, -1)] * 2)
    expected = hold_out(Split(TEXTS, list(range(10))))
    assert hold_out(Split(table["text"], list(range(10)))) == hold_out(Split(table["text"], table["label"])) == expected
    train, held_out = hold_out(Split((table["text"], table["text"]), table[["label"]]))
    assert train.texts == (expected[0].texts,) * 2 and held_out.labels["label"].tolist() == expected[1].labels


@pytest.mark.parametrize("make", [list, np.array, lambda labels: [f"class {label}" for label in labels]])
def test_each_class_has_the_same_fraction_of_its_rows_in_both_parts(make):
    labels = [0] * 50 + [1] * 20 + [2] * 5  # sorted, as many files are
    for seed in range(5):
        train, held_out = hold_out((list(range(75)), make(labels)), 0.2, seed=seed)
        counts = [sum(label == each for label in held_out[1]) for each in make([0, 1, 2])]
        assert counts == [10, 4, 1] and len(train[0]) == 60 and sorted(train[0] + held_out[0]) == list(range(75))


def test_fractions_of_rows_are_rounded_to_the_number_of_rows_to_hold_out():
    for labels in ([0, 1, 2, 3] * 5, list("aabbbccccd"), [1.5, 2.5] * 5, [["a"], ["b"]] * 5, [True, False] * 5):
        train, held_out = hold_out((list(range(len(labels))), labels), 0.3)
        assert len(held_out[0]) == round(0.3 * len(labels)) and len(train[0]) + len(held_out[0]) == len(labels)
