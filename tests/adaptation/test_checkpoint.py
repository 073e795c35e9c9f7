"""`Checkpoint`: a run that ended on the way goes on to the same end, and what cannot be is one clear error."""

import logging
import os
import random
import signal
import threading

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import GradualUnfreezing, LayerwiseOptimizer
from keras_transfer.adaptation.checkpoint import Checkpoint
from keras_transfer.text import batches
from tests.processes import run as run_child
from tests.tasks import tiny

numbers = np.random.default_rng(0)
X = numbers.normal(size=(40, 4)).astype("float32")
Y = numbers.integers(0, 3, 40)
BATCHES = 10  # of four


def build(optimizer=None, hidden=8, policy=None, **compiled):
    """A small model with dropout and three groups, the same each time."""
    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Dense(hidden, activation="relu", dtype=policy),
        keras.layers.Dropout(0.2, dtype=policy),
        keras.layers.Dense(hidden, activation="relu", dtype=policy),
        keras.layers.Dense(3, dtype=policy),
    ]
    model = keras.Sequential([keras.Input((4,)), *layers])
    optimizer = keras.optimizers.Adam(1e-2) if optimizer is None else optimizer(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"], **compiled)
    return model


def fit(model, *callbacks, epochs=3, data=(X, Y), shuffle=False, **options):
    data = {"x": data[0], "y": data[1], "batch_size": 4} if isinstance(data, tuple) else {"x": data}
    return model.fit(**data, epochs=epochs, verbose=0, shuffle=shuffle, callbacks=list(callbacks), **options).history


class Crash(keras.callbacks.Callback):
    """Ends a run with an error, or does something else, after a step of the run; the first is 1."""

    def __init__(self, step, action=None):
        super().__init__()
        self.step, self.action, self.steps = step, action, 0

    def on_train_begin(self, logs=None):
        self.steps = None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch * BATCHES + batch + 1 == self.step:
            if self.action is None:
                raise KeyError("crash")
            self.action(self.model)


def crash(folder, step, save_every=3, make=build, callbacks=(), **options):
    """A run with checkpoints that ends with an error after a step."""
    with pytest.raises(KeyError, match="crash"):
        fit(make(), *callbacks, Checkpoint(folder, save_every=save_every), Crash(step), **options)


def term(model):
    os.kill(os.getpid(), signal.SIGTERM)


def state(model):
    return [keras.ops.convert_to_numpy(v).copy() for v in (*model.variables, *model.optimizer.variables)]


def assert_same(model, expected):
    ours, theirs = state(model), state(expected) if isinstance(expected, keras.Model) else expected
    assert len(ours) == len(theirs) > 10
    assert [i for i, (a, b) in enumerate(zip(ours, theirs)) if not np.array_equal(a, b)] == []


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# === Going on ===

OPTIMIZERS = {
    "adam": lambda model: keras.optimizers.Adam(1e-2),
    "a schedule": lambda model: keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 30), momentum=0.9),
    "moving averages": lambda model: keras.optimizers.Adam(1e-2, use_ema=True, ema_momentum=0.9),
    "gathered gradients": lambda model: keras.optimizers.Adam(1e-2, gradient_accumulation_steps=2),
    "a scaled loss": lambda model: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-2), 64.0, 5),
    "rates by group": lambda model: LayerwiseOptimizer(keras.optimizers.AdamW(1e-2), model, decay=0.5),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("stages", [False, True], ids=["", "gradual unfreezing"])
def test_a_run_that_crashed_three_times_ends_as_if_it_had_not(optimizer, stages, tmp_path):
    def make():
        return build(OPTIMIZERS[optimizer])

    callbacks = [GradualUnfreezing(share=0.8)] if stages else []
    whole, model = make(), make()
    whole_logs = fit(whole, *callbacks)
    for step in (5, 14, 20):
        crash(tmp_path, step, make=make, callbacks=callbacks)
    logs = fit(model, *callbacks, Checkpoint(tmp_path, save_every=3))
    assert_same(model, whole)
    # What the epoch in which it goes on has learned before counts: the second, from batch 8 on.
    assert logs == {name: values[1:] for name, values in whole_logs.items()}


def test_mixed_precision_goes_on_with_its_scale(tmp_path):
    def make():
        return build(policy="mixed_float16")

    # As Keras does for a model that is mixed itself.
    def wrapped():
        model = make()
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-2), 2.0**12, 4)
        model.compile(optimizer, model.loss)
        return model

    whole, model = wrapped(), wrapped()
    fit(whole)
    crash(tmp_path, 17, make=wrapped)
    fit(model, Checkpoint(tmp_path))
    assert_same(model, whole)
    assert float(model.optimizer.dynamic_scale) > 2.0**12


@pytest.mark.parametrize("save_every", ["epoch", 4])
def test_several_steps_in_one_execution_stay_together(save_every, tmp_path):
    def make():
        return build(steps_per_execution=4)

    whole, model = make(), make()
    fit(whole)
    crash(tmp_path, 18, save_every, make)
    assert names(tmp_path)[-1] == ("epoch-0001-batch-000000" if save_every == "epoch" else "epoch-0001-batch-000004") + (
        ".safetensors"
    )
    fit(model, Checkpoint(tmp_path))
    assert_same(model, whole)


def test_a_batch_that_was_seen_is_passed_over_without_training(tmp_path):
    class Counting(keras.Sequential):
        def train_step(self, data):
            trained.append(data)
            return super().train_step(data)

    def make():
        keras.utils.set_random_seed(0)
        model = Counting([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(3)])
        model.compile(keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(), run_eagerly=True)
        return model

    trained = []
    crash(tmp_path, 18, make=make)
    assert len(trained) == 18
    trained.clear()
    fit(make(), Checkpoint(tmp_path))
    # After batch 8 of the second epoch there are 12 left; the last of the 8 is trained on too, and its effect undone.
    assert len(trained) == 12 + 1


def test_other_callbacks_see_the_batches_that_are_passed_over_and_the_figures_of_the_run(tmp_path):
    class See(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((batch, dict(logs)))

    seen = []
    fit(build(), See())
    whole = seen[BATCHES : 2 * BATCHES]
    crash(tmp_path, 17)
    seen.clear()
    fit(build(), Checkpoint(tmp_path), See())
    assert [batch for batch, _ in seen[:BATCHES]] == list(range(BATCHES))
    assert [logs for _, logs in seen[:4]] == [{}] * 4
    assert seen[4:BATCHES] == whole[4:]


def test_what_callbacks_before_it_do_at_an_epochs_end_and_beginning_is_kept(tmp_path):
    class Rates(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.learning_rate = 0.01 / (epoch + 1)

        def on_epoch_end(self, epoch, logs=None):
            self.model.layers[0].kernel.assign_add(np.full((4, 8), 0.01))

    whole, model = build(), build()
    fit(whole, Rates())
    crash(tmp_path, 13, "epoch", callbacks=[Rates()])
    fit(model, Rates(), Checkpoint(tmp_path))
    assert_same(model, whole)


def test_validation_does_not_disturb_it(tmp_path):
    options = {"validation_data": (X[:12], Y[:12]), "validation_batch_size": 4}
    whole, model = build(), build()
    whole_logs = fit(whole, **options)
    crash(tmp_path, 20, 10, **options)  # after the last batch of an epoch, and before its validation
    assert names(tmp_path) == ["epoch-0000-batch-000010.safetensors", "epoch-0001-batch-000010.safetensors"]
    logs = fit(model, Checkpoint(tmp_path), **options)
    assert_same(model, whole)
    assert logs == {name: values[1:] for name, values in whole_logs.items()}


# === Where the data are ===


def task_and_texts():
    texts, labels = tiny.examples(48)
    model = tiny.classifier()
    model.compile(keras.optimizers.Adam(1e-2))
    return model, texts, labels


@pytest.mark.parametrize("seeded", [True, False])
def test_a_task_hands_over_the_batches_of_its_texts(seeded, tmp_path):
    orders = []

    class Order(keras.callbacks.Callback):
        def __init__(self, checkpoint):
            super().__init__()
            self.checkpoint = checkpoint

        def on_train_batch_end(self, batch, logs=None):
            orders.append(self.checkpoint.dataset.order.tolist())
            if len(orders) == stop:
                raise KeyError("crash")

    def go(seed):
        model, texts, labels = task_and_texts()
        if not seeded:  # what the batches draw from is then in the checkpoint alone
            np.random.seed(seed)
        checkpoint = Checkpoint(tmp_path / str(stop is None), save_every=2)
        model.fit(texts, labels, batch_size=8, epochs=3, verbose=0, callbacks=[checkpoint, Order(checkpoint)])
        return model

    stop = None
    whole = go(1)
    expected, stop = orders, 9
    orders = []
    with pytest.raises(KeyError):
        go(1)
    (tmp_path / "False").rename(tmp_path / "True again")
    (tmp_path / "True").rename(tmp_path / "whole")
    (tmp_path / "True again").rename(tmp_path / "True")
    orders, stop = [], None
    model = go(2)
    assert orders == expected[6:] and len({tuple(order) for order in orders}) == 2
    assert_same(model, whole)


def test_another_model_is_told_the_dataset(tmp_path):
    model, texts, labels = task_and_texts()
    preprocessor = model.preprocessor

    def make():
        keras.utils.set_random_seed(0)
        inputs = {name: keras.Input((None,), name=name, dtype="int32") for name in ("token_ids", "padding_mask")}
        x = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(20, 4)(inputs["token_ids"]))
        model = keras.Model(inputs, keras.layers.Dense(2)(x))
        model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    def go(model, *callbacks, folder=tmp_path):
        train = batches(texts, labels, preprocessor, batch_size=8, seed=3)
        # Keras also draws the order of the batches, from Python's random numbers.
        fit(model, Checkpoint(folder, save_every=5, dataset=train), *callbacks, data=train, shuffle=True)

    whole, model = make(), make()
    go(whole, folder=tmp_path / "whole")
    with pytest.raises(KeyError):
        go(make(), Crash(BATCHES + 2), folder=tmp_path / "crashed")
    random.seed(9)
    go(model, folder=tmp_path / "crashed")
    assert_same(model, whole)


class Noise(keras.utils.PyDataset):
    """Batches that come in an order of their own, with noise drawn when they are made."""

    def __init__(self):
        super().__init__()
        self.rows = np.arange(40)

    def __len__(self):
        return BATCHES

    def on_epoch_begin(self):
        random.shuffle(self.rows)

    def __getitem__(self, index):
        rows = self.rows[4 * index : 4 * index + 4]
        return X[rows] + np.random.normal(size=(4, 4)).astype("float32"), Y[rows]


@pytest.mark.parametrize("data", ["noise", "arrays shuffled", "tf.data shuffled once"])
def test_what_draws_from_global_random_numbers_draws_the_same_again(data, tmp_path):
    def make():
        if data == "noise":
            dataset = Noise()
            dataset.rows = np.arange(40)
            return dataset
        if data == "arrays shuffled":
            return X, Y
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensor_slices((X, Y))
        return dataset.shuffle(40, seed=1, reshuffle_each_iteration=False).batch(4)

    def go(model, *callbacks, **options):
        return fit(model, *callbacks, data=make(), shuffle=data == "arrays shuffled", **options)

    whole, model = build(), build()
    go(whole)
    with pytest.raises(KeyError):
        go(build(), Checkpoint(tmp_path, save_every=3), Crash(9))
    model = build()
    if data == "noise":
        np.random.seed(5)
    go(model, Checkpoint(tmp_path))
    if data == "noise":  # its own rows were shuffled once, not twice, before this epoch: the first it is
        assert names(tmp_path)[0].startswith("epoch-0002")
    assert_same(model, whole)


def test_data_that_go_on_through_the_epochs_are_warned_of(tmp_path, caplog):
    import tensorflow as tf

    endless = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4).repeat()
    fit(build(), Checkpoint(tmp_path), data=endless, steps_per_epoch=3)
    assert [record.message for record in caplog.records] == [
        "the data go on through the epochs: a run that goes on from a checkpoint sees them from their beginning, not as "
        "it would have"
    ] * 2
    caplog.clear()
    fit(build(), Checkpoint(tmp_path / "other"), data=endless.take(BATCHES))
    assert caplog.records == []


# === The end of a run, and further runs ===


def test_a_complete_run_trains_nothing_and_has_the_weights_of_its_end(tmp_path, caplog):
    whole = build(OPTIMIZERS["moving averages"])
    fit(whole, Checkpoint(tmp_path, save_every=7))
    assert names(tmp_path)[-1] == "epoch-0003-batch-000000.safetensors"
    model = build(OPTIMIZERS["moving averages"])
    assert fit(model, GradualUnfreezing(), Checkpoint(tmp_path)) == {}
    assert_same(model, whole)
    assert "the run is complete, nothing is trained: 3 of 3 epochs" in caplog.text
    # Nothing of it is left: the next `fit` without it trains.
    assert len(fit(model, epochs=1)["loss"]) == 1


def test_with_more_epochs_a_complete_run_goes_on(tmp_path):
    whole, model = build(), build()
    fit(whole, epochs=4)
    checkpoint = Checkpoint(tmp_path)
    assert len(fit(model, checkpoint, epochs=2)["loss"]) == 2
    assert len(fit(model, checkpoint, epochs=4)["loss"]) == 2
    assert_same(model, whole)


def test_keras_begins_in_the_epoch_that_the_callback_sets(tmp_path):
    # It is a private name of Keras's, `Trainer._initial_epoch`, which its own `BackupAndRestore` sets as well.
    assert build()._initial_epoch is None
    begun = []
    see = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: begun.append(epoch))
    fit(build(), Checkpoint(tmp_path), epochs=2)
    model = build()
    fit(model, Checkpoint(tmp_path), see, epochs=5)
    assert begun == [2, 3, 4] and model._initial_epoch is None
    begun.clear()
    fit(model, see, epochs=2)
    assert begun == [0, 1]


def test_a_run_that_another_callback_stops_in_the_middle_goes_on_there(tmp_path):
    def stop(model):
        model.stop_training = True

    whole, model = build(), build()
    fit(whole)
    fit(build(), Crash(14, stop), Checkpoint(tmp_path), validation_data=(X, Y))
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors", "epoch-0001-batch-000004.safetensors"]
    fit(model, Checkpoint(tmp_path))
    assert_same(model, whole)
    # After it in the list the callback stops the run unseen: then the last checkpoint stays as it is.
    fit(build(), Checkpoint(tmp_path / "other"), Crash(14, stop))
    assert names(tmp_path / "other") == ["epoch-0001-batch-000000.safetensors"]


def test_early_stopping_ends_a_run_at_an_epochs_end(tmp_path):
    early = keras.callbacks.EarlyStopping("loss", min_delta=100, patience=1)
    fit(build(), early, Checkpoint(tmp_path, save_every=1000), epochs=9)
    assert names(tmp_path) == ["epoch-0002-batch-000000.safetensors"]


# === Signals ===


@pytest.fixture
def handler():
    """What SIGTERM does otherwise in these tests: it is counted."""
    calls = []

    def count(number, frame):
        calls.append(number)

    before = signal.signal(signal.SIGTERM, count)
    yield count, calls
    signal.signal(signal.SIGTERM, before)


def test_a_signal_in_the_middle_of_an_epoch_writes_a_checkpoint_and_ends_the_run(tmp_path, caplog, handler):
    whole, model = build(), build()
    fit(whole)
    stopped, checkpoint = build(), Checkpoint(tmp_path)
    logs = fit(stopped, Crash(14, term), checkpoint, validation_data=(X, Y))
    assert checkpoint.stopped_by == "SIGTERM" and len(logs["val_loss"]) == 2
    # None for the end of the second epoch, although Keras validates and says that it ended.
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors", "epoch-0001-batch-000004.safetensors"]
    assert [r.message for r in caplog.records] == [f"SIGTERM: the run stops; to go on, run it again with {tmp_path}"]
    assert signal.getsignal(signal.SIGTERM) is handler[0] and handler[1] == []
    fit(model, Checkpoint(tmp_path))
    assert_same(model, whole)


def test_a_signal_while_validating_ends_the_run_at_the_epochs_end(tmp_path, handler):
    whole, model = build(), build()
    fit(whole)
    in_validation = keras.callbacks.LambdaCallback()
    in_validation.on_test_batch_end = lambda batch, logs=None: term(None)
    in_validation.on_test_batch_end = lambda batch, logs=None: None if batch else term(None)
    checkpoint = Checkpoint(tmp_path, save_every=1000)
    fit(build(), checkpoint, in_validation, validation_data=(X, Y))
    assert checkpoint.stopped_by == "SIGTERM" and names(tmp_path) == ["epoch-0001-batch-000000.safetensors"]
    fit(model, Checkpoint(tmp_path))
    assert_same(model, whole)


def test_a_signal_while_batches_are_passed_over_leaves_the_checkpoint_and_the_model_in_its_state(tmp_path, handler):
    whole, model = build(), build()
    fit(whole)
    crash(tmp_path, 19)
    before, stopped, checkpoint = names(tmp_path), build(), Checkpoint(tmp_path)
    fit(stopped, Crash(12, term), checkpoint)
    assert checkpoint.stopped_by == "SIGTERM" and names(tmp_path) == before
    assert int(stopped.optimizer.iterations) == 18
    fit(model, Checkpoint(tmp_path))
    assert_same(model, whole)


def test_a_second_signal_acts_as_ever(tmp_path, handler):
    def twice(model):
        term(model)
        term(model)

    fit(build(), Crash(4, twice), Checkpoint(tmp_path))
    assert handler[1] == [signal.SIGTERM] and names(tmp_path) == ["epoch-0000-batch-000004.safetensors"]


def test_the_handler_is_given_back_when_a_step_fails(tmp_path, handler):
    class Failing(keras.Sequential):
        def train_step(self, data):
            raise KeyError("step")

    model = Failing([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(KeyError, match="step"):
        fit(model, Checkpoint(tmp_path))
    assert signal.getsignal(signal.SIGTERM) is handler[0]


def test_outside_the_main_thread_it_says_that_it_catches_no_signal(tmp_path, caplog, handler):
    model = build()
    thread = threading.Thread(target=lambda: fit(model, Checkpoint(tmp_path), epochs=1))
    thread.start()
    thread.join()
    assert "outside the main thread no signal can be caught, and ['SIGTERM'] writes no checkpoint" in caplog.text
    assert names(tmp_path) == ["epoch-0001-batch-000000.safetensors"]


# === Another model, optimizer, or data ===

OTHERS = {
    "width": ({"hidden": 9}, r"model/0/\w+/kernel', 'float32', \(4, 9\)\), in the checkpoint .*\(4, 8\)"),
    "optimizer": ({"optimizer": OPTIMIZERS["a schedule"]}, "variables of the optimizer, in the checkpoint 14"),
    "averages": ({"optimizer": OPTIMIZERS["moving averages"]}, "22 variables of the optimizer, in the checkpoint 14"),
    "setting": (
        {"optimizer": lambda model: keras.optimizers.Adam(1e-2, beta_1=0.8)},
        "beta_1 0.8, in the checkpoint 0.9",
    ),
    "schedule": (
        {"optimizer": lambda m: keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 9))},
        "variables of the optimizer",
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_model_or_optimizer_is_one_clear_error_and_changes_nothing(other, tmp_path, handler):
    options, message = OTHERS[other]
    crash(tmp_path, 14)
    model, files = build(**options), names(tmp_path)
    before = [keras.ops.convert_to_numpy(v) for v in model.variables]
    with pytest.raises(ValueError, match=f"the same model and the same optimizer.*Received: .*{message}"):
        fit(model, GradualUnfreezing(), Checkpoint(tmp_path))
    assert all(np.array_equal(a, keras.ops.convert_to_numpy(b)) for a, b in zip(before, model.variables))
    assert names(tmp_path) == files and signal.getsignal(signal.SIGTERM) is handler[0]
    assert len(fit(model, epochs=1)["loss"]) == 1 and model._initial_epoch is None


def test_another_schedule_is_an_error(tmp_path):
    def make(steps):
        return build(lambda model: keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, steps)))

    fit(make(30), Checkpoint(tmp_path), epochs=1)
    with pytest.raises(ValueError, match=r"learning_rate\.config\.decay_steps 40, in the checkpoint 30"):
        fit(make(40), Checkpoint(tmp_path))


def test_another_learning_rate_is_warned_of_and_the_checkpoints_goes_on(tmp_path, caplog):
    reduce = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    first = build()
    fit(first, reduce, Checkpoint(tmp_path), epochs=1)
    fit(build(), Checkpoint(tmp_path), epochs=1)  # the script's, which was halved since
    fit(first, Checkpoint(tmp_path), epochs=1)
    assert "learning rate" not in caplog.text
    model = build(lambda model: keras.optimizers.Adam(0.5))
    fit(model, Checkpoint(tmp_path), epochs=2)
    assert "the checkpoint's learning rate goes on, [0.005" in caplog.text and "Received: [0.5]" in caplog.text
    assert float(model.optimizer.learning_rate) == pytest.approx(0.005)


def test_other_data_in_the_middle_of_an_epoch_are_an_error_and_at_its_beginning_a_warning(tmp_path, caplog):
    crash(tmp_path / "middle", 14)
    with pytest.raises(ValueError, match="same data in the same batches. Received: 5 batches, in the checkpoint 10"):
        fit(build(), Checkpoint(tmp_path / "middle"), data=(X[:20], Y[:20]))
    fit(build(), Checkpoint(tmp_path / "begin"), epochs=1)
    fit(build(), Checkpoint(tmp_path / "begin"), data=(X[:20], Y[:20]), epochs=2)
    assert "not quite as it would have: batches 5, in the checkpoint 10" in caplog.text


def test_data_that_end_before_the_checkpoints_place_are_an_error(tmp_path):
    import tensorflow as tf

    def data(count):  # of a length that Keras does not know
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4).take(count).filter(lambda x, y: True)

    with pytest.raises(KeyError):
        fit(build(), Checkpoint(tmp_path, save_every=3), Crash(8), data=data(10))
    with pytest.warns(UserWarning, match="ran out of data"), pytest.raises(ValueError, match="stands at batch 6 .*of 5"):
        fit(build(), Checkpoint(tmp_path), data=data(5))


def test_other_executions_and_initial_epochs_are_errors(tmp_path):
    crash(tmp_path, 6)
    with pytest.raises(ValueError, match="must end where the checkpoint stands, at batch 6.*Received: 4"):
        fit(build(steps_per_execution=4), Checkpoint(tmp_path))
    with pytest.raises(ValueError, match="goes on in epoch 0, counted from 0.*Received: epoch 1"):
        fit(build(), Checkpoint(tmp_path), initial_epoch=1)


def test_a_model_without_weights_yet_is_an_error(tmp_path):
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="build the model before `fit`"):
        fit(model, Checkpoint(tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"save_every": 0}, "'epoch' or a number of batches. Received: 0"),
        ({"save_every": "step"}, "Received: 'step'"),
        ({"keep": 0}, "above 0. Received: 0"),
        ({"signals": ["SIGKILL"]}, r"can be caught. Received: \['SIGKILL'\]"),
        ({"signals": "TERM"}, r"Received: \['TERM'\]"),
        ({"dataset": [1]}, r"an int that can be set. Received: \[1\]"),
    ],
)
def test_wrong_arguments_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        Checkpoint("folder", **options)


def test_its_config_brings_it_back():
    checkpoint = Checkpoint("folder", save_every=5, keep=3, signals=("SIGTERM", "SIGINT"))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(checkpoint))
    assert type(again) is Checkpoint and again.get_config() == checkpoint.get_config()
    assert checkpoint.get_config() == {
        "folder": "folder",
        "save_every": 5,
        "keep": 3,
        "signals": ["SIGTERM", "SIGINT"],
    }


# === Several replicas ===


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.distribute is TensorFlow's")
def test_two_replicas_go_on_to_the_same_end(tmp_path):
    report = run_child("-m", "tests.adaptation.checkpoint_mirrored", tmp_path)
    assert report == {"replicas": 2, "epochs": 2, "variables": report["variables"], "different": []}
    assert report["variables"] > 20
