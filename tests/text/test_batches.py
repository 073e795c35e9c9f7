"""Texts in memory become batches of a few lengths, and nothing is lost on the way."""

import keras
import numpy as np
import pandas
import pytest

from keras_transfer.text import BertPreprocessor, batches, is_text, to_columns
from keras_transfer.text.batches import choose_lengths

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]


@pytest.fixture(scope="module")
def preprocessor():
    return BertPreprocessor(VOCABULARY, sequence_length=64)


@pytest.fixture(scope="module")
def texts():
    """101 texts of 1 to 55 words."""
    random = np.random.default_rng(0)
    return [" ".join(random.choice(list("abcdefghij"), size)) for size in random.integers(1, 56, 101)]


def rows(dataset):
    """Every real row of one epoch: its label, and its ids without padding."""
    found = []
    for inputs, labels, weights in (dataset[i] for i in range(len(dataset))):
        for ids, mask, label, weight in zip(inputs["token_ids"], inputs["padding_mask"], labels, weights):
            if weight:
                found.append((int(label), tuple(ids[mask == 1].tolist())))
    return sorted(found)


def test_every_text_comes_once_an_epoch_with_its_own_label(preprocessor, texts):
    dataset = batches(texts, np.arange(101), preprocessor, batch_size=8, seed=0)
    ids = preprocessor.tokenize(texts)
    expected = sorted((i, (2, *ids[i].numpy().tolist(), 3)) for i in range(101))
    assert rows(dataset) == expected
    dataset.on_epoch_end()
    assert rows(dataset) == expected


def test_there_are_at_most_six_lengths_and_the_number_of_batches_is_known(preprocessor, texts):
    dataset = batches(texts, np.arange(101), preprocessor, batch_size=8, seed=0)
    assert len(dataset) == 13
    shapes = {dataset[i][0]["token_ids"].shape for i in range(len(dataset))}
    assert len(dataset.lengths) <= 6 and shapes <= {(8, length) for length in dataset.lengths}


def test_the_last_batch_is_filled_up_with_rows_of_weight_0_and_no_tokens(preprocessor):
    inputs, _, weights = batches(["a b", "c", "d"], [0, 1, 0], preprocessor, batch_size=4, shuffle=False)[0]
    assert weights.tolist() == [1, 1, 1, 0]
    assert inputs["padding_mask"].sum(axis=1).tolist() == [4, 3, 3, 0]


def test_the_same_seed_gives_the_same_batches_and_another_seed_others(preprocessor, texts):
    def order(seed):
        return batches(texts, np.arange(101), preprocessor, batch_size=8, seed=seed).order.tolist()

    assert order(3) == order(3) != order(4)


def test_without_a_seed_the_batches_follow_set_random_seed(preprocessor, texts):
    orders = []
    for _ in range(2):
        keras.utils.set_random_seed(7)
        orders.append(batches(texts, np.arange(101), preprocessor, batch_size=8).order.tolist())
    assert orders[0] == orders[1]


def test_every_epoch_deals_the_texts_out_anew_only_when_shuffling(preprocessor, texts):
    for shuffle in (True, False):
        dataset = batches(texts, np.arange(101), preprocessor, batch_size=8, shuffle=shuffle, seed=0)
        before = dataset.order.tolist()
        dataset.on_epoch_end()
        assert (dataset.order.tolist() != before) == shuffle


def test_the_first_two_batches_differ_in_length_because_keras_reads_the_shape_off_them(preprocessor, texts):
    for seed in range(10):
        dataset = batches(texts, np.arange(101), preprocessor, batch_size=8, seed=seed)
        assert dataset[0][0]["token_ids"].shape != dataset[1][0]["token_ids"].shape


def test_sample_and_class_weights_multiply(preprocessor):
    dataset = batches(["a", "b", "c"], [0, 1, 1], preprocessor, batch_size=4, shuffle=False, sample_weight=[1, 2, 3])
    assert dataset[0][2].tolist() == [1, 2, 3, 0]
    assert dataset.with_class_weight({0: 10, 1: 0.5})[0][2].tolist() == [10, 1, 1.5, 0]
    assert dataset[0][2].tolist() == [1, 2, 3, 0]
    with pytest.raises(ValueError, match=r"Missing: \[1\]"):
        dataset.with_class_weight({0: 1.0})


def test_lengths_waste_no_more_padding_than_any_other_choice():
    import itertools

    real = np.random.default_rng(1).integers(1, 97, 200)
    chosen = choose_lengths(real, 96)

    def padded(lengths):
        return np.array(lengths)[np.searchsorted(lengths, real)].sum()

    candidates = range(8, 96, 8)
    best = min(padded([*some, 96]) for k in range(6) for some in itertools.combinations(candidates, k))
    assert len(chosen) <= 6 and chosen[-1] == 96 and padded(chosen) == best


def test_given_lengths_are_taken_and_must_reach_the_longest_text(preprocessor):
    assert batches(["a", "b c d e f g h i j"], [0, 1], preprocessor, lengths=[16, 32]).lengths == [16, 32]
    with pytest.raises(ValueError, match=r"longest text, of 11 tokens. Received: \[8\]"):
        batches(["a", "b c d e f g h i j"], [0, 1], preprocessor, lengths=[8])


def test_pairs_are_a_tuple_of_two_columns(preprocessor):
    inputs, _, _ = batches((["a", "b c"], ["d", "e"]), [0, 1], preprocessor, batch_size=2, shuffle=False)[0]
    assert inputs["token_ids"][1, :7].tolist() == [2, 6, 7, 3, 9, 3, 0]
    assert inputs["segment_ids"][1, :7].tolist() == [0, 0, 0, 0, 1, 1, 0]


COLUMNS = {
    "list": list,
    "object array": lambda x: np.array(x, object),
    "string array": np.array,
    "bytes array": lambda x: np.array([t.encode() for t in x]),
    "pandas column": pandas.Series,
    "pandas object column": lambda x: pandas.Series(x, dtype=object),
    "pandas categorical column": lambda x: pandas.Series(x, dtype="category"),
    "tensor": lambda x: __import__("tensorflow").constant(x),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_texts_may_come_in_any_column(kind):
    column = COLUMNS[kind](["a b", "ç", "d"])
    assert is_text(column)
    assert to_columns(column).tolist() == ["a b", "ç", "d"]


def test_numbers_and_dicts_are_not_texts():
    for x in (np.ones((2, 3)), [[1, 2], [3, 4]], {"token_ids": [[1]]}, None, [1, 2], (np.ones(2), np.ones(2))):
        assert not is_text(x)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (["a", None, "b", None], [0, 1, 0, 1], r"2 of 4 texts are no strings, the first at \[1, 3\].*Received: \[None"),
        (["a", float("nan")], [0, 1], r"first at \[1\].*Received: \[nan\]"),
        (["a", 3], [0, 1], r"first at \[1\].*Received: \[3\]"),
        (("a", "b", "c"), [0, 1, 0], "a tuple is a pair .* Received: a tuple of 3"),
        ([b"caf\xe9"], [0], "texts must be UTF-8"),
        ([], [], "there are no texts"),
        (["a", "b"], [0], "Received: 1 labels, 2 texts"),
        ((["a", "b"], ["c"]), [0, 1], "Received: 2 and 1 texts"),
    ],
)
def test_bad_texts_and_labels_are_one_clear_error(preprocessor, texts, labels, message):
    with pytest.raises(ValueError, match=message):
        batches(texts, labels, preprocessor)


def test_weights_of_another_number_are_an_error(preprocessor):
    with pytest.raises(ValueError, match="Received: 1 sample weights, 2 texts"):
        batches(["a", "b"], [0, 1], preprocessor, sample_weight=[1.0])


def test_a_missing_preprocessor_and_a_batch_size_of_0_are_errors(preprocessor):
    with pytest.raises(ValueError, match=r"needs a preprocessor.*Received: None"):
        batches(["a"], [0])
    with pytest.raises(ValueError, match="Received: 0"):
        batches(["a"], [0], preprocessor, batch_size=0)
