"""`TrainingCheckpoint`: the data of a resumed run come in the same order as without the interruption."""

import random
import shutil

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters, set_active_adapter
from keras_transfer.adaptation.adapters.adapters import head_weights
from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import batches
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.helpers import with_slots
from tests.tasks import tiny
from tests.training.resume.checkpoint_runs import BATCHES, Crash, X, Y, assert_same, fit, linear, names
from tests.training.rows import Rows


def letters(texts):
    """A preprocessor in plain numpy: letters as ids."""
    token_ids = np.zeros((len(texts), 16), "int32")
    for row, text in enumerate(texts):
        ids = [ord(letter) - ord("a") + 5 for letter in text.replace(" ", "")[:16]]
        token_ids[row, : len(ids)] = ids
    return {"token_ids": token_ids, "padding_mask": (token_ids > 0).astype("int32")}


def classifier():
    keras.utils.set_random_seed(0)
    encoder = TransformerEncoder(
        40, num_layers=1, num_heads=1, hidden_dim=4, intermediate_dim=4, max_sequence_length=16
    )
    model = TextClassifier(encoder, num_classes=2, preprocessor=letters)
    model.compile(keras.optimizers.Adam(1e-2), run_eagerly=True)
    return model


@pytest.mark.slow
def test_a_task_passes_its_batches_to_the_callback(tmp_path):
    texts, labels = tiny.examples(40)

    def go(folder):
        model, checkpoint = classifier(), TrainingCheckpoint(tmp_path / folder, save_every=3, keep=100)
        np.random.seed(None)  # so that only the checkpoint contains the seed of the batches
        model.fit(texts, labels, batch_size=4, epochs=3, verbose=0, callbacks=[checkpoint])
        return model

    whole = go("whole")
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "whole" / "epoch-0001-batch-000005.safetensors", tmp_path / "again")
    assert_same(go("again"), whole)


def test_a_resumed_epoch_may_end_within_steps_that_run_together(tmp_path):
    texts, labels = tiny.examples(18)

    def go(folder):
        keras.utils.set_random_seed(0)
        model = tiny.of_vectors()
        model.compile(keras.optimizers.Adam(1e-2), steps_per_execution=2)
        checkpoint = TrainingCheckpoint(tmp_path / folder, save_every=2, keep=9)
        model.fit(texts, labels, batch_size=4, epochs=2, verbose=0, callbacks=[checkpoint])  # 5 batches per epoch
        return with_slots(model)

    whole = go("whole")
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "whole" / "epoch-0000-batch-000002.safetensors", tmp_path / "again")
    assert_same(go("again"), whole)


def test_the_heads_of_adapters_that_are_not_active_are_restored(tmp_path):
    texts, labels = tiny.examples(4)

    def go(head):
        model = classifier()
        for name in ("first", "second"):
            add_adapters(model, "houlsby:2", name=name)
        for value in model.head_adapters.heads["first"]:  # as if it had been trained before the second was added
            value[:] = head
        model.compile("sgd", run_eagerly=True)
        model.fit(texts, labels, callbacks=[TrainingCheckpoint(tmp_path)], verbose=0)
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


class Drawn(keras.utils.PyDataset):
    """Batches in an order and with noise that Python's and NumPy's random numbers decide."""

    def __len__(self):
        return BATCHES

    def on_epoch_begin(self):
        self.rows = np.array(random.sample(range(40), 40))

    def __getitem__(self, index):
        rows = getattr(self, "rows", np.arange(40))[4 * index : 4 * index + 4]
        return X[rows] + np.random.normal(size=(4, 4)).astype("float32"), Y[rows]


class Shuffled(Rows):
    """Batches whose order a generator of their own decides, when an epoch ends."""

    def __init__(self):
        super().__init__(X, Y)
        self.generator, self.order = np.random.default_rng(3), np.arange(40)

    def __getitem__(self, index):
        rows = self.order[4 * (self.first + index) :][:4]
        return X[rows], Y[rows]

    def on_epoch_end(self):
        super().on_epoch_end()
        self.generator.shuffle(self.order)

    def state_dict(self):
        return {**super().state_dict(), "order": self.order, "generator": self.generator.bit_generator.state}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.order, self.generator.bit_generator.state = state["order"], state["generator"]


@pytest.mark.parametrize("save_every", [3, "epoch"])
def test_data_with_a_state_continue_in_their_order(save_every, tmp_path):
    whole, model = linear(), linear()
    fit(whole, data=Shuffled())
    with pytest.raises(KeyError), TrainingCheckpoint(tmp_path, save_every=save_every) as checkpoint:
        fit(linear(), checkpoint, Crash(18), data=Shuffled())
    fit(model, TrainingCheckpoint(tmp_path), data=Shuffled())
    assert_same(model, whole)


@pytest.mark.parametrize("data", ["drawn", "tf.data"])
def test_data_without_a_state_begin_the_epoch_again(data, tmp_path, caplog):
    def source():
        if data == "drawn":
            return Drawn()
        import tensorflow as tf

        stream = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(40, seed=1, reshuffle_each_iteration=False)
        return stream.batch(4)

    whole, crashed, model = linear(), linear(), linear()
    random.seed(1), np.random.seed(1)
    fit(whole, data=source())
    random.seed(1), np.random.seed(1)
    with pytest.raises(KeyError), TrainingCheckpoint(tmp_path, save_every=3) as checkpoint:
        fit(crashed, checkpoint, Crash(18), data=source())
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors"]
    assert caplog.text.count("The state of the data is not stored. An interrupted run will repeat its epoch") == 1
    random.seed(5), np.random.seed(5)
    fit(model, TrainingCheckpoint(tmp_path), data=source())
    assert_same(model, whole)


def test_epochs_that_are_not_those_of_the_data_are_refused(tmp_path):
    checkpoint = TrainingCheckpoint(tmp_path)
    with pytest.raises(ValueError, match="Leave out `steps_per_epoch`.*steps_per_epoch=3, and data with 10 batches"):
        fit(linear(), checkpoint, steps_per_epoch=3)
    fit(linear(), checkpoint, steps_per_epoch=BATCHES, epochs=1)
    model = tiny.of_vectors()
    model.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match="Leave out `steps_per_epoch`.*steps_per_epoch=1, and data with 2 batches"):
        model.fit(
            *tiny.examples(8), batch_size=4, steps_per_epoch=1, callbacks=[TrainingCheckpoint(tmp_path)], verbose=0
        )


def test_without_data_and_callbacks_a_warning_says_so_once(tmp_path, caplog):
    linear().fit(X, Y, epochs=2, callbacks=[TrainingCheckpoint(tmp_path)], verbose=0)
    assert caplog.text.count("The state of the data and other callbacks is not stored") == 1


def test_text_batches_that_keras_shuffles_again_resume_between_epochs(tmp_path):
    texts, labels = tiny.examples(40)
    train = batches(texts, labels, preprocessor=letters, batch_size=4, seed=3)
    fit(plain_classifier(), TrainingCheckpoint(tmp_path, save_every=3, keep=9), data=train, shuffle=True, epochs=2)
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors", "epoch-0002-batch-000000.safetensors"]


@pytest.mark.core
def test_text_batches_restore_their_order_and_position():
    texts, labels = tiny.examples(40)
    data, other = (batches(texts, labels, preprocessor=letters, batch_size=4, seed=seed) for seed in (3, 4))
    data.on_epoch_end()
    assert data.state_dict() == {"seed": 3, "epoch": 1, "batch": 0}
    other.load_state_dict({**data.state_dict(), "batch": 7})
    assert len(other) == 3
    for ours, theirs in zip([other[i] for i in range(3)], [data[i] for i in range(7, 10)]):
        keras.tree.map_structure(np.testing.assert_array_equal, ours, theirs)
    other.on_epoch_end()
    assert len(other) == 10 and "batch" not in data.state_dict()  # They were not read in order.
