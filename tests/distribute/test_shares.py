"""Batches that replicas can split evenly: no text is lost, and no text has two predictions."""

import keras
import numpy as np
import pytest

from keras_transfer.data.planning import Options
from keras_transfer.distribute.processes import Share
from keras_transfer.distribute.remainders import cut_off
from keras_transfer.text import BertPreprocessor, batches

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]


@pytest.fixture(scope="module")
def texts():
    """101 texts of 1 to 55 words."""
    random = np.random.default_rng(0)
    return [" ".join(random.choice(list("abcdefghij"), size)) for size in random.integers(1, 56, 101)]


def dataset(texts, **options):
    preprocessor = BertPreprocessor(VOCABULARY, sequence_length=64)
    return batches(texts, np.arange(len(texts)), preprocessor=preprocessor, **{"batch_size": 8, "seed": 0, **options})


def rows(data):
    return [len(data[i][1]) for i in range(len(data))]


def labels(data):
    return np.concatenate([data[i][1] for i in range(len(data))]).tolist()


def test_a_short_batch_is_filled_up_with_its_own_texts_and_no_text_is_lost(texts):
    data = dataset(texts).replace(replicas=4, repeat="even")
    for _ in range(3):
        assert sorted(rows(data)) == [8] * 13  # 101 = 12 * 8 + 5, and 5 become 8
        assert set(labels(data)) == set(range(101))
        filled = [data[i][1].tolist() for i in range(13) if len(set(data[i][1].tolist())) < 8]
        assert [len(set(batch)) for batch in filled] == [5]
        data.on_epoch_end()


def test_devices_of_jax_get_a_full_batch_of_which_a_step_cuts_off_what_was_added(texts):
    alone, shared = dataset(texts, shuffle=False), dataset(texts, shuffle=False).replace(replicas=4, filled=True)
    shares = [shared.replace(share=Share(index, 2)) for index in range(2)]
    for index in (0, 12):  # of 8 and of 5 rows
        inputs, targets = cut_off(shared[index])
        assert [len(shares[process][index][1]) for process in range(2)] == [4, 4]
        assert targets.tolist() == alone[index][1].tolist() and inputs.keys() == alone[index][0].keys()
        for name, values in alone[index][0].items():
            np.testing.assert_array_equal(inputs[name], values)


def test_fewer_texts_than_replicas_are_repeated_to_fill_a_batch(texts):
    for repeat in ("even", "few"):
        assert labels(dataset(texts[:1]).replace(replicas=4, repeat=repeat)) == [0, 0, 0, 0]
    assert sorted(rows(dataset(texts[:21]).replace(replicas=4, repeat="few"))) == [7, 8, 8]


@pytest.mark.parametrize("replicas", range(1, 9))
def test_no_replica_of_tensorflow_has_an_empty_part_of_a_batch(replicas):
    options = Options(replicas=replicas, repeat="few")
    for count in range(1, 40):
        rows = options.rows_of(count)
        assert rows >= count
        assert rows > -(-rows // replicas) * (replicas - 1)


def test_full_batches_and_their_order_do_not_change(texts):
    for repeat in ("even", "few", None):
        alone, shared = dataset(texts[:96]), dataset(texts[:96]).replace(replicas=4, repeat=repeat)
        for _ in range(3):
            assert labels(alone) == labels(shared)
            alone.on_epoch_end()
            shared.on_epoch_end()


def test_without_repeating_every_text_occurs_once(texts):
    for count, expected in {101: [8, 5], 5: [5], 3: [3]}.items():
        data = dataset(texts[:count]).replace(replicas=4, repeat="even").replace(replicas=4, repeat=None)
        assert rows(data)[:2] == expected
        assert sorted(labels(data)) == list(range(count))


def test_a_repeated_text_has_one_row_in_a_prediction(texts):
    data = dataset(texts).replace(replicas=4, repeat="even")
    outputs = np.array(labels(data))[:, None]
    assert data.restorer()(outputs)[:, 0].tolist() == list(range(101))


def test_the_order_of_batches_depends_only_on_their_seed(texts):
    from tests.tasks import tiny

    class Order(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(round(logs["loss"], 6))

    orders = []
    model = tiny.for_replicas()
    model.compile(keras.optimizers.SGD(0.0))
    for seed in (1, 2):
        losses = []
        keras.utils.set_random_seed(seed)
        words, targets = tiny.examples(64)
        data = batches(words, targets, preprocessor=model.preprocessor, batch_size=8, seed=0)
        model.fit(data, epochs=2, verbose=0, callbacks=[Order()])
        orders.append(losses)
    assert len(set(orders[0])) > 5 and orders[0][:8] != orders[0][8:]
    assert orders[0] == orders[1]
