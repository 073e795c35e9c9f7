"""Properties of labels: names and positions of any classes give each other back, in every form that users have."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keras_transfer.data.label_names import (
    checked_names,
    in_order_of_names,
    keys_as_positions,
    label_ids,
    multi_hot,
    names_in,
    positions_of,
    positions_of_numbers,
    weights_of_words,
)
from keras_transfer.tasks.class_labels import ClassNames, MultiHot
from tests.properties import words


def different(names):
    """Returns whether names are accepted: they differ by more than their Unicode form and spaces."""
    try:
        return bool(checked_names(names) and names_in(names))
    except ValueError:
        return False


names = st.lists(words, min_size=2, max_size=6, unique=True).filter(different)
numbered = st.lists(st.integers(-5, 20), min_size=2, max_size=6, unique=True).map(lambda found: [str(n) for n in found])


@given(names=names, data=st.data())
def test_names_become_positions_that_are_these_names(names, data):
    places = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=9))
    labels = [names[place] for place in places]
    for given_labels in (labels, np.array(labels), np.array(labels, object), [label.encode() for label in labels]):
        assume(not isinstance(given_labels, np.ndarray) or given_labels.tolist() == labels)  # NumPy cuts zeros off
        assert positions_of(given_labels, names).tolist() == places


@given(labels=st.lists(words, min_size=1, max_size=9).filter(lambda labels: len(set(labels)) > 1))
def test_the_names_that_occur_are_sorted_and_cover_all_labels(labels):
    assume(different(list(dict.fromkeys(labels))))
    found = names_in(labels)
    assert found == sorted(set(labels)) == names_in(np.array(labels, object)) == names_in(set(labels))
    assert [found[place] for place in positions_of(labels, found)] == labels


@given(names=names, data=st.data())
def test_lists_of_names_become_zeros_and_ones(names, data):
    rows = data.draw(st.lists(st.lists(st.sampled_from(names), unique=True), min_size=1, max_size=6))
    assume(any(rows))
    found = np.asarray(multi_hot(rows, names))
    assert found.shape == (len(rows), len(names))
    assert [{names[place] for place in np.flatnonzero(row)} for row in found] == [set(row) for row in rows]


@given(names=numbered, data=st.data())
def test_numbers_are_never_read_as_the_name_of_another_class(names, data):
    """Numbers that are names become their positions, and those that may be either are refused."""
    labels = data.draw(st.lists(st.sampled_from([int(name) for name in names]), min_size=1, max_size=9))
    try:
        found = np.asarray(positions_of_numbers(labels, names))
    except ValueError as error:
        assert "both names" in str(error)
        assert any(label in range(len(names)) and names[label] != str(label) for label in labels)
        return
    as_names = [str(label) for label in labels]
    assert [names[place] for place in found] == as_names


@given(names=names, data=st.data())
def test_labels_of_words_are_positions_of_their_names(names, data):
    rows = data.draw(st.lists(st.lists(st.sampled_from(names), max_size=5), min_size=1, max_size=5))
    assume(any(rows))
    sentences = [["w"] * len(row) for row in rows]
    flat = [name for row in rows for name in row]
    assert [names[place] for place in label_ids(sentences, rows, names)] == flat
    places = [[names.index(name) for name in row] for row in rows]
    assert label_ids(sentences, places, names).tolist() == [place for row in places for place in row]


@given(names=names, data=st.data())
def test_weights_of_classes_reach_the_words_of_these_classes(names, data):
    weights = data.draw(st.dictionaries(st.sampled_from(names), st.floats(0, 9, width=32)))
    ids = np.array(data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=9)))
    expected = [weights.get(names[place], 1.0) for place in ids]
    assert weights_of_words(weights, names, ids).tolist() == pytest.approx(expected)
    assert keys_as_positions(weights, names) == [names.index(name) for name in weights]


@given(names=names, data=st.data())
def test_the_columns_of_a_table_are_read_in_the_order_of_the_names(names, data):
    pandas = pytest.importorskip("pandas")
    order = data.draw(st.permutations(names))
    assume(not {str(place) for place in range(len(names))} & set(names))
    values = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 1), min_size=len(names), max_size=len(names)), min_size=1))
    )
    table = pandas.DataFrame(values, columns=order)
    found = np.asarray(in_order_of_names(table, names))
    assert found.tolist() == np.asarray(table[names]).tolist()


@given(names=names, data=st.data())
def test_classes_that_are_encoded_are_decoded(names, data):
    labels, places = ClassNames(names), data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=9))
    encoded = np.asarray(labels.encode([names[place] for place in places]))
    assert encoded.tolist() == places
    assert labels.names_of(np.eye(len(names))[encoded]) == [names[place] for place in places]


@given(names=names, data=st.data())
def test_sets_of_classes_that_are_encoded_are_decoded(names, data):
    rows = data.draw(st.lists(st.lists(st.sampled_from(names), unique=True), min_size=1, max_size=6))
    assume(any(rows))
    labels = MultiHot(names)
    encoded = np.asarray(labels.encode(rows))
    assert [set(row) for row in labels.names_of(encoded.astype("float32"))] == [set(row) for row in rows]
