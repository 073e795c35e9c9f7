"""Texts in memory become batches of similar lengths without losing any text."""

import tracemalloc
from types import SimpleNamespace

import keras
import numpy as np
import pandas
import pytest

from keras_transfer.data.planning import Options, choose_lengths, lengths_for, plan
from keras_transfer.distribute.replicas import share
from keras_transfer.text import BertPreprocessor, batches
from keras_transfer.text.inputs import is_text, to_columns
from tests.errors import check_errors

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
    for inputs, labels in (dataset[i] for i in range(len(dataset))):
        for ids, mask, label in zip(inputs["token_ids"], inputs["padding_mask"], labels):
            found.append((int(label), tuple(ids[mask == 1].tolist())))
    return sorted(found)


def test_every_text_occurs_once_per_epoch_with_its_label(preprocessor, texts):
    dataset = batches(texts, np.arange(101), preprocessor=preprocessor, batch_size=8, seed=0)
    ids = preprocessor.tokenize(texts)
    expected = sorted((i, (2, *ids[i].numpy().tolist(), 3)) for i in range(101))
    assert rows(dataset) == expected
    dataset.on_epoch_end()
    assert rows(dataset) == expected


def test_each_batch_is_as_long_as_its_longest_text_and_the_number_of_batches_is_known(preprocessor, texts):
    dataset = batches(texts, np.arange(101), preprocessor=preprocessor, batch_size=8, seed=0)
    assert len(dataset) == 13
    masks = [dataset[i][0]["padding_mask"] for i in range(len(dataset))]
    assert all(mask.shape[1] == mask.sum(1).max() in dataset.options.lengths for mask in masks)
    assert sorted(len(mask) for mask in masks) == [5] + [8] * 12


def test_the_same_batches_can_be_padded_to_six_lengths(preprocessor, texts):
    dataset = batches(texts, np.arange(101), preprocessor=preprocessor, batch_size=8, seed=0)
    few = dataset.few_lengths()
    assert (
        len(few.options.lengths) == 6
        and all(length % 8 == 0 for length in few.options.lengths)
        and few.few_lengths() is few
    )
    assert {few[i][0]["token_ids"].shape[1] for i in range(13)} <= set(few.options.lengths)
    assert rows(few) == rows(dataset)
    assert share(SimpleNamespace(jit_compile=True), dataset, "fit").options.lengths == few.options.lengths
    assert share(SimpleNamespace(jit_compile=False), dataset, "fit").options.lengths == dataset.options.lengths


def test_a_change_of_what_batches_do_not_have_is_an_error(preprocessor, texts):
    with pytest.raises(TypeError, match="neither an option nor a column 'shufle'. Received: {'shufle': False}"):
        batches(texts, np.arange(101), preprocessor=preprocessor).replace(shufle=False)


def test_copies_have_the_order_of_the_epoch_whichever_of_them_is_shuffled_or_set_back(preprocessor, texts):
    dataset, fresh = (batches(texts, np.arange(101), preprocessor=preprocessor, batch_size=1, seed=0) for _ in range(2))
    copies = [dataset.few_lengths(), dataset.replace(replicas=2, repeat="even")]
    first = [data.order.tolist() for data in (dataset, *copies)]
    copies[0].on_epoch_end()
    second = [data.order.tolist() for data in (dataset, *copies)]
    assert all(one != other for one, other in zip(first, second))
    assert [
        data.order.tolist() for data in (dataset.few_lengths(), dataset.replace(replicas=2, repeat="even"))
    ] == second[1:]
    fresh.epoch = 1
    assert fresh.order.tolist() == second[0]
    for epoch, expected in ((0, first), (1, second)):
        dataset.epoch = epoch
        assert [data.order.tolist() for data in (dataset, *copies)] == expected
        copies[0].epoch = epoch
        assert copies[0].order.tolist() == expected[1]


def test_there_are_few_lengths_where_keras_compiles_a_step_for_each(preprocessor, texts, monkeypatch):
    import tensorflow as tf

    assert len(batches(texts, None, preprocessor=preprocessor).options.lengths) > 6
    for module, name, value in (
        (tf.config, "list_physical_devices", [SimpleNamespace(device_type="GPU")]),
        (keras.backend, "backend", "jax"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda value=value: value)
            assert len(lengths_for(np.arange(60), 64)) == 6


def test_padding_is_at_most_that_of_the_length_grouping_of_transformers(preprocessor):
    random = np.random.default_rng(0)
    texts = [" ".join("a" * size) for size in np.minimum(random.lognormal(2.3, 0.7, 2000).astype(int) + 1, 60)]
    dataset = batches(texts, np.arange(2000), preprocessor=preprocessor, seed=0)
    real = dataset.inputs["padding_mask"].sum(1)
    expected = 0
    for part in np.array_split(random.permutation(2000), range(480, 2000, 480)):  # of 2000 // (4 * 32) batches
        part = np.sort(real[part])[::-1]
        expected += sum(part[start : start + 32].size * part[start] for start in range(0, len(part), 32))
    assert sum(dataset[i][0]["token_ids"].size for i in range(len(dataset))) <= 1.01 * expected


def test_either_the_batches_of_each_epoch_differ_in_length_or_those_of_none_do():
    for real, drops in (
        ([3] * 8 + [6], True),
        ([3] * 3 + [6] * 40, False),
        ([3] * 30 + [6] * 30, False),
        ([3, 6], False),
    ):
        options = Options(4, (3, 4, 5, 6, 7, 8, 9), shuffle=True, drop_remainder=drops)
        found = {
            len({length for length, _ in plan(np.array(real), options, seed=0, epoch=epoch)[:2]}) for epoch in range(40)
        }
        assert len(found) == 1


def test_with_drop_remainder_all_batches_are_full_and_shuffling_leaves_out_other_texts(preprocessor, texts):
    dataset = batches(texts, np.arange(101), preprocessor=preprocessor, batch_size=8, seed=0, drop_remainder=True)
    assert len(dataset) == 12 and {len(dataset[i][1]) for i in range(12)} == {8}
    before = set(dataset.order.tolist())
    dataset.on_epoch_end()
    assert set(dataset.order.tolist()) != before
    with pytest.raises(ValueError, match="at least one full batch of 8 texts. Received: texts=2"):
        batches(texts[:2], [0, 1], preprocessor=preprocessor, batch_size=8, drop_remainder=True)


def test_the_batches_follow_the_seed(preprocessor, texts):
    def order(seed):
        return batches(texts, np.arange(101), preprocessor=preprocessor, batch_size=8, seed=seed).order.tolist()

    assert order(3) == order(3) != order(4)


def test_without_a_seed_the_batches_follow_set_random_seed(preprocessor, texts):
    orders = []
    for _ in range(2):
        keras.utils.set_random_seed(7)
        orders.append(batches(texts, np.arange(101), preprocessor=preprocessor, batch_size=8).order.tolist())
    assert orders[0] == orders[1]


def test_every_epoch_has_new_batches_only_when_shuffling(preprocessor, texts):
    for shuffle in (True, False):
        dataset = batches(texts, np.arange(101), preprocessor=preprocessor, batch_size=8, shuffle=shuffle, seed=0)
        before = dataset.order.tolist()
        dataset.on_epoch_end()
        assert (dataset.order.tolist() != before) == shuffle


@pytest.mark.parametrize("count", [101, 96])
def test_the_first_two_batches_show_keras_every_axis_that_varies(preprocessor, texts, count):
    for seed in range(10):
        dataset = batches(texts[:count], np.arange(count), preprocessor=preprocessor, batch_size=8, seed=seed)
        first, second = (dataset[i][0]["token_ids"].shape for i in range(2))
        assert first[1] != second[1]
        assert (first[0] != second[0]) == (count == 101)


def test_sample_weights_go_with_their_texts(preprocessor):
    dataset = batches(
        ["a b", "b", "c"], [0, 1, 1], preprocessor=preprocessor, batch_size=2, shuffle=False, sample_weight=[1, 2, 3]
    )
    weights = np.concatenate([dataset[i][2] for i in range(2)])
    assert weights.tolist() == [[1, 2, 3][i] for i in dataset.order]
    with pytest.raises(ValueError, match="`sample_weight` requires `y`"):
        batches(["a"], None, preprocessor=preprocessor, sample_weight=[1])


def test_batches_without_shuffling_do_not_draw_random_numbers(preprocessor):
    np.random.seed(0)
    expected = np.random.random()
    np.random.seed(0)
    batches(["a"], [0], preprocessor=preprocessor, shuffle=False)
    assert np.random.random() == expected


def test_choosing_among_many_lengths_needs_little_memory():
    real = np.arange(8, 8 * 3000, 8)
    tracemalloc.start()
    chosen = choose_lengths(real, 8 * 3000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(chosen) == 6 and np.ptp(np.diff([0, *chosen])) <= 16
    assert peak < 60e6  # A table of all pairs of lengths alone has 72 MB.


def test_given_lengths_are_used_and_must_reach_the_longest_text(preprocessor):
    for lengths, expected in (([32], 32), ([16, 32], 16)):
        dataset = batches(["a", "b c d e f g h i j"], [0, 1], preprocessor=preprocessor, lengths=lengths)
        assert dataset[0][0]["token_ids"].shape == (2, expected)
    with pytest.raises(ValueError, match=r"1 to 6 .* Received: lengths=\[\]"):
        batches(["a"], [0], preprocessor=preprocessor, lengths=[])
    with pytest.raises(ValueError, match=r"longest text, which has 11 tokens. Received: lengths=\[8\]"):
        batches(["a", "b c d e f g h i j"], [0, 1], preprocessor=preprocessor, lengths=[8])
    with pytest.raises(ValueError, match="`lengths` must be an integer of at least 1. Received: lengths=-2"):
        batches(["a"], [0], preprocessor=preprocessor, lengths=[-2, 16])


def test_pairs_are_a_tuple_of_two_columns(preprocessor):
    inputs, _ = batches((["a", "b c"], ["d", "e"]), [0, 1], preprocessor=preprocessor, batch_size=2, shuffle=False)[0]
    assert inputs["token_ids"][1].tolist() == [2, 6, 7, 3, 9, 3]
    assert inputs["segment_ids"][1].tolist() == [0, 0, 0, 0, 1, 1]


COLUMNS = {
    "list": list,
    "object array": lambda x: np.array(x, object),
    "string array": np.array,
    "bytes array": lambda x: np.array([t.encode() for t in x]),
    "pandas column": pandas.Series,
    "pandas object column": lambda x: pandas.Series(x, dtype=object),
    "pandas categorical column": lambda x: pandas.Series(x, dtype="category"),
    "tensor": lambda x: __import__("tensorflow").constant(x),
    "bytes": lambda x: [t.encode() for t in x],
    "arrow column": lambda x: pytest.importorskip("pyarrow").chunked_array([x[:1], x[1:]]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_texts_can_be_any_kind_of_column(kind):
    column = COLUMNS[kind](["a b", "ç", "d"])
    assert is_text(column)
    assert to_columns(column).tolist() == ["a b", "ç", "d"]


def test_the_values_of_a_dict_are_a_column_of_texts():
    assert to_columns({0: "a b", 1: "ç"}.values()).tolist() == ["a b", "ç"]


def test_numbers_and_dicts_are_not_texts():
    for x in (np.ones((2, 3)), [[1, 2], [3, 4]], {"token_ids": [[1]]}, None, [1, 2], (np.ones(2), np.ones(2))):
        assert not is_text(x)


test_bad_texts_and_labels_are_one_clear_error = check_errors(
    ((("a", "b", "c"), [0, 1, 0]), "must be a pair ", " Received: a tuple of 3"),
    (([b"caf\xe9"], [0]), "Texts in bytes must be UTF-8"),
    (([], []), "`texts` must contain at least one text"),
    ((["a", "b"], 1), "Received: 1, 2 texts"),
    (((["a", "b"], [0, 1]), None), "as a separate argument", "Received: list [0, 1] as the second"),
    call=lambda texts, labels, preprocessor: batches(texts, labels, preprocessor=preprocessor),
)


def test_another_number_of_weights_than_texts_is_an_error(preprocessor):
    with pytest.raises(ValueError, match="Received: 1 sample weights, 2 texts"):
        batches(["a", "b"], [0, 1], preprocessor=preprocessor, sample_weight=[1.0])


def test_a_missing_preprocessor_and_a_batch_size_of_0_are_errors(preprocessor):
    with pytest.raises(ValueError, match=r"requires a preprocessor.*Received: preprocessor=None"):
        batches(["a"], [0])
    with pytest.raises(ValueError, match="Received: preprocessor='minilm-l6'"):
        batches(["a"], [0], preprocessor="minilm-l6")
    with pytest.raises(ValueError, match="Received: batch_size=0"):
        batches(["a"], [0], preprocessor=preprocessor, batch_size=0)


def test_padding_on_the_left_is_an_error_that_names_the_text():
    def preprocessor(texts):
        mask = np.array([[0] * (8 - len(text)) + [1] * len(text) for text in texts])
        return {"token_ids": 5 * mask, "padding_mask": mask}

    assert batches(["a" * 8, "b" * 8], [0, 1], preprocessor=preprocessor)[0][0]["token_ids"].shape == (2, 8)
    with pytest.raises(ValueError, match=r"on the right.*padding_mask=\[0 0 0 0 0 0 1 1\] for the text at position 1"):
        batches(["a" * 8, "bb"], [0, 1], preprocessor=preprocessor)


def test_ids_without_a_padding_mask_are_an_error():
    with pytest.raises(ValueError, match=r"must return a `padding_mask`. Received: only \['token_ids'\]"):
        batches(["a"], [0], preprocessor=lambda texts: {"token_ids": np.ones((len(texts), 8))})
