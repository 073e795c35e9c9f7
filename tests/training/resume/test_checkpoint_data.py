"""`Checkpoint`: the data of a resumed run come in the same order as without the interruption."""

import random
import shutil

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters, set_active_adapter
from keras_transfer.adaptation.adapters.base import head_weights
from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import batches
from keras_transfer.training.resume.checkpoint import Checkpoint
from tests.tasks import tiny
from tests.training.resume.checkpoint_runs import BATCHES, Crash, X, Y, assert_same, fit, linear


def letters(texts):
    """A preprocessor in plain numpy: letters as ids."""
    token_ids = np.zeros((len(texts), 16), "int32")
    for row, text in enumerate(texts):
        ids = [ord(letter) - ord("a") + 5 for letter in text.replace(" ", "")[:16]]
        token_ids[row, : len(ids)] = ids
    return {"token_ids": token_ids, "padding_mask": (token_ids > 0).astype("int32")}


def classifier():
    keras.utils.set_random_seed(0)
    encoder = TransformerEncoder(40, 1, 1, 4, 4, max_sequence_length=16)
    model = TextClassifier(encoder, 2, preprocessor=letters)
    model.compile(keras.optimizers.Adam(1e-2), run_eagerly=True)
    return model


@pytest.mark.slow
def test_a_task_passes_its_batches_to_the_callback(tmp_path):
    texts, labels = tiny.examples(40)

    def go(folder):
        model, checkpoint = classifier(), Checkpoint(tmp_path / folder, save_every=3, keep=100)
        np.random.seed(None)  # so that only the checkpoint contains the seed of the batches
        model.fit(texts, labels, batch_size=4, epochs=3, verbose=0, callbacks=[checkpoint])
        return model

    whole = go("whole")
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "whole" / "epoch-0001-batch-000005.safetensors", tmp_path / "again")
    assert_same(go("again"), whole)


def test_the_heads_of_adapters_that_are_not_active_are_restored(tmp_path):
    texts, labels = tiny.examples(4)

    def go(head):
        model = classifier()
        for name in ("first", "second"):
            add_adapters(model, "houlsby:2", name)
        for value in model.adapter_heads["first"]:  # as if it had been trained before the second was added
            value[:] = head
        model.compile("sgd", run_eagerly=True)
        model.fit(texts, labels, callbacks=[Checkpoint(tmp_path)], verbose=0)
        return set_active_adapter(model, "first")

    model, resumed = go(head=3.0), go(head=0.0)
    assert all((value == 3).all() for value in map(keras.ops.convert_to_numpy, head_weights(resumed)))
    assert_same(resumed, model)


def plain_classifier():
    keras.utils.set_random_seed(0)
    inputs = {name: keras.Input((None,), name=name, dtype="int32") for name in ("token_ids", "padding_mask")}
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(40, 4)(inputs["token_ids"]))
    model = keras.Model(inputs, keras.layers.Dense(2)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss, run_eagerly=True)
    return model


@pytest.mark.slow
def test_so_does_another_model(tmp_path):
    texts, labels = tiny.examples(40)

    def go(model, *callbacks):
        train = batches(texts, labels, letters, batch_size=4, seed=3)
        # Keras also draws the order of the batches, from Python's random numbers.
        fit(model, *callbacks, Checkpoint(tmp_path / "run"), data=train, shuffle=True)

    whole, model = plain_classifier(), plain_classifier()
    fit(whole, data=batches(texts, labels, letters, batch_size=4, seed=3), shuffle=True)
    with pytest.raises(KeyError):
        go(plain_classifier(), Crash(15))
    model = plain_classifier()
    random.seed(9)
    go(model)
    assert_same(model, whole)


class Noise(keras.utils.PyDataset):
    """Batches in a random order, with noise that is drawn when they are made."""

    def __len__(self):
        return BATCHES

    def on_epoch_begin(self):
        self.rows = np.array(random.sample(range(40), 40))

    def __getitem__(self, index):
        rows = getattr(self, "rows", np.arange(40))[4 * index : 4 * index + 4]
        return X[rows] + np.random.normal(size=(4, 4)).astype("float32"), Y[rows]


@pytest.mark.slow
@pytest.mark.parametrize("data", ["noise", "arrays", "tf.data"])
def test_data_from_global_random_numbers_are_drawn_again_identically(data, tmp_path):
    def go(model, *callbacks):
        if data == "tf.data":
            import tensorflow as tf

            stream = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(40, seed=1, reshuffle_each_iteration=False)
        source = {"noise": Noise, "arrays": lambda: (X, Y), "tf.data": lambda: stream.batch(4)}[data]()
        fit(model, *callbacks, data=source, shuffle=data == "arrays")

    whole, model = linear(), linear()
    go(whole)
    with pytest.raises(KeyError):
        go(linear(), Checkpoint(tmp_path, save_every=3), Crash(18))
    if data == "noise":
        random.seed(5), np.random.seed(5)
    go(model, Checkpoint(tmp_path))
    assert_same(model, whole)


def test_data_that_continue_through_the_epochs_give_a_warning(tmp_path, caplog):
    import tensorflow as tf

    endless = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4).repeat()
    fit(linear(), Checkpoint(tmp_path), data=endless, steps_per_epoch=3)
    assert [record.message.split(".")[0] for record in caplog.records] == [
        "The iterator of the data is not restarted in each epoch"
    ] * 2
    caplog.clear()
    fit(linear(), Checkpoint(tmp_path / "other"), data=endless.take(BATCHES))
    assert [record for record in caplog.records if record.name == "keras_transfer"] == []
