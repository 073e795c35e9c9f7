"""Several labels for each text as a table, or as lists that can be read in two ways."""

import numpy as np
import pytest

from keras_transfer.analysis import MultiLabelReport
from keras_transfer.data.label_names import in_order_of_names, names_in
from tests.tasks.tiny import WORDS, of_words

NAMES = ["funny", "sad", "long"]
HOT = np.array([[1, 0, 0], [0, 1, 1]])


def test_the_columns_of_a_table_are_read_by_name():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(HOT, columns=NAMES)[["sad", "long", "funny"]]
    model = of_words(WORDS, label_names=NAMES, multi_label=True)
    np.testing.assert_array_equal(model.labels.encode(table), HOT)
    found = MultiLabelReport(table, HOT, label_names=NAMES, resamples=10)
    np.testing.assert_array_equal(found.labels, HOT)


def test_the_columns_of_a_table_are_read_by_name_with_a_validation_split(eagerly):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.repeat(HOT, 2, axis=0), columns=NAMES)
    model = of_words(WORDS, label_names=NAMES, multi_label=True, dropout=0.0)
    model.compile("sgd")
    start, found = model.get_weights(), []
    for labels in (table, table[["sad", "long", "funny"]]):
        model.set_weights(start)
        found.append(model.fit(WORDS[:4], labels, validation_split=0.5, shuffle=False, verbose=0).history)
    assert found[0] == found[1]


def test_a_table_without_names_is_read_by_place():
    pandas = pytest.importorskip("pandas")
    plain, named = pandas.DataFrame(HOT), pandas.DataFrame(HOT, columns=NAMES)
    assert in_order_of_names(plain, NAMES) is plain
    assert in_order_of_names(named, ["0", "1", "2"]) is named


def test_a_table_whose_columns_have_other_names_is_an_error():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(HOT, columns=["funny", "sad", "short"])
    model = of_words(WORDS, label_names=NAMES, multi_label=True)
    with pytest.raises(
        ValueError, match=r"columns of a table.* \['funny', .*Received: columns=\['funny', 'sad', 'short'\]"
    ):
        model.labels.encode(table)


def test_lists_that_may_be_positions_or_zeros_and_ones_are_an_error():
    model, labels = of_words(WORDS, label_names=NAMES[:2], multi_label=True), [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match=r"positions as well as zeros and ones. .*np.array\(labels\)"):
        model.labels.encode(labels)
    with pytest.raises(ValueError, match="positions as well as zeros and ones"):
        MultiLabelReport(labels, labels, label_names=NAMES[:2])
    for clear in (np.array(labels), [[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 1]], [[False, True]]):
        assert model.labels.encode(clear) is clear


def test_the_columns_of_an_arrow_table_are_read_by_name():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({name: HOT[:, NAMES.index(name)] for name in ("sad", "long", "funny")})
    model = of_words(WORDS, label_names=NAMES, multi_label=True)
    np.testing.assert_array_equal(model.labels.encode(table), HOT)


def test_a_table_of_one_column_is_a_column_of_labels_and_a_dict_is_an_error():
    pandas = pytest.importorskip("pandas")
    model = of_words(WORDS, label_names=NAMES)
    np.testing.assert_array_equal(model.labels.encode(pandas.DataFrame({"label": ["sad", "funny"]})), [1, 0])
    assert names_in(pandas.DataFrame({"stars": [5, 1, 5]})) == names_in(np.array([[5], [1]])) == ["1", "5"]
    with pytest.raises(ValueError, match=r"must be a list.*Received: labels={'label'"):
        model.labels.encode({"label": ["sad", "funny"]})
    with pytest.raises(ValueError, match="must be a list, an array or a table column. Received: labels='sad'"):
        model.labels.encode("sad")
