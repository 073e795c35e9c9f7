"""The layout of rows: what is spread over the rows of inputs is restored from them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_transfer.data import Layout
from keras_transfer.data.layout import preprocess_words
from keras_transfer.text import WordPreprocessor

counts = st.lists(st.integers(0, 12), min_size=1, max_size=6)


@given(counts=counts, length=st.integers(4, 8))
def test_the_answers_that_are_spread_over_the_rows_of_inputs_are_restored(counts, length):
    sentences = [["a"] * count for count in counts]
    inputs, layout = preprocess_words(sentences, WordPreprocessor(["a"], sequence_length=length))
    answers = np.arange(sum(counts))
    table = layout.spread_answers(answers, inputs["padding_mask"].shape[1], -1)
    assert (inputs["padding_mask"][table >= 0] == 1).all() and sorted(table[table >= 0]) == answers.tolist()
    found = layout.restore([values[layout.positions(row)] for row, values in enumerate(table)])
    assert [len(row) for row in found] == counts
    np.testing.assert_array_equal(np.concatenate(found), answers)


def test_the_values_of_the_users_rows_are_those_of_their_rows_of_inputs():
    layout = Layout("windows", np.array([0, 0, 2]))
    assert layout.spread(np.array([1.5, 2.0, 0.5])).tolist() == [1.5, 1.5, 0.5]
    assert Layout("parts").in_parts and not layout.in_parts
