"""`Checkpoint`: a run that ended on the way goes on to the same end, and what cannot be is one clear error."""

import os
import random
import shutil
import signal
import threading

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import GradualUnfreezing, LayerwiseOptimizer
from keras_transfer.adaptation.checkpoint import Checkpoint
from keras_transfer.encoders import TransformerEncoder
from keras_transfer.tasks import TextClassifier
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


def interrupted(folder, make, callbacks, crashes):
    """What a run's end and logs are without and with errors on the way."""
    whole, model = make(), make()
    whole_logs = fit(whole, *callbacks)
    for step in crashes:
        crash(folder, step, make=make, callbacks=callbacks)
    logs = fit(model, *callbacks, Checkpoint(folder, save_every=3))
    assert_same(model, whole)
    # What the epoch in which it goes on has learned before counts: it is the second.
    assert logs == {name: values[1:] for name, values in whole_logs.items()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_that_crashed_ends_as_if_it_had_not(optimizer, tmp_path):
    interrupted(tmp_path, lambda: build(OPTIMIZERS[optimizer]), [], [18])


@pytest.mark.parametrize("optimizer", ["moving averages", "gathered gradients", "rates by group"])
def test_so_does_one_that_trains_in_stages_and_crashed_in_each(optimizer, tmp_path):
    interrupted(tmp_path, lambda: build(OPTIMIZERS[optimizer]), [GradualUnfreezing(share=0.8)], [5, 14, 20])


def test_mixed_precision_goes_on_with_its_scale(tmp_path):
    def make():
        adam = keras.optimizers.Adam(1e-2)
        return build(lambda model: keras.optimizers.LossScaleOptimizer(adam, 2.0**12, 4), policy="mixed_float16")

    whole, model = make(), make()
    fit(whole)
    crash(tmp_path, 17, make=make)
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
    assert names(tmp_path)[-1] == f"epoch-0001-batch-00000{0 if save_every == 'epoch' else 8}.safetensors"
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


def letters(texts):
    """A preprocessor of numpy alone: letters as ids, as long as the texts."""
    token_ids = np.zeros((len(texts), 16), "int32")
    for row, text in enumerate(texts):
        ids = [ord(letter) - ord("a") + 5 for letter in text.replace(" ", "")[:16]]
        token_ids[row, : len(ids)] = ids
    return {"token_ids": token_ids, "padding_mask": (token_ids > 0).astype("int32")}


def classifier():
    keras.utils.set_random_seed(0)
    encoder = TransformerEncoder(40, 1, 1, 4, 4, max_sequence_length=16)
    model = TextClassifier(encoder, 2, preprocessor=letters)
    model.compile(keras.optimizers.Adam(1e-2))
    return model


def test_a_task_hands_over_the_batches_of_its_texts(tmp_path):
    texts, labels = tiny.examples(40)

    def go(folder):
        model, checkpoint = classifier(), Checkpoint(tmp_path / folder, save_every=3, keep=100)
        np.random.seed(None)  # from which the batches take their seed: then it is in the checkpoint alone
        model.fit(texts, labels, batch_size=4, epochs=3, verbose=0, callbacks=[checkpoint])
        return model, checkpoint.dataset

    whole, data = go("whole")
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "whole" / "epoch-0001-batch-000005.safetensors", tmp_path / "again")
    model, again = go("again")
    assert again is not data and (again.seed, again.epoch) == (data.seed, data.epoch)
    assert again.order.tolist() == data.order.tolist()
    assert_same(model, whole)


def plain_classifier():
    keras.utils.set_random_seed(0)
    inputs = {name: keras.Input((None,), name=name, dtype="int32") for name in ("token_ids", "padding_mask")}
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(40, 4)(inputs["token_ids"]))
    model = keras.Model(inputs, keras.layers.Dense(2)(x))
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_another_model_is_told_the_dataset(tmp_path):
    texts, labels = tiny.examples(40)

    def go(model, *callbacks):
        train = batches(texts, labels, letters, batch_size=4, seed=3)
        # Keras also draws the order of the batches, from Python's random numbers.
        fit(model, *callbacks, Checkpoint(tmp_path / "run", dataset=train), data=train, shuffle=True)

    whole, model = plain_classifier(), plain_classifier()
    fit(whole, data=batches(texts, labels, letters, batch_size=4, seed=3), shuffle=True)
    with pytest.raises(KeyError):
        go(plain_classifier(), Crash(15))
    model = plain_classifier()
    random.seed(9)
    go(model)
    assert_same(model, whole)


class Noise(keras.utils.PyDataset):
    """Batches that come in an order of their own, with noise drawn when they are made."""

    def __len__(self):
        return BATCHES

    def on_epoch_begin(self):
        self.rows = np.array(random.sample(range(40), 40))

    def __getitem__(self, index):
        rows = getattr(self, "rows", np.arange(40))[4 * index : 4 * index + 4]
        return X[rows] + np.random.normal(size=(4, 4)).astype("float32"), Y[rows]


@pytest.mark.parametrize("data", ["noise", "arrays", "tf.data"])
def test_data_that_draw_from_global_random_numbers_draw_the_same_again(data, tmp_path):
    def go(model, *callbacks):
        if data == "tf.data":
            import tensorflow as tf

            stream = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(40, seed=1, reshuffle_each_iteration=False)
        source = {"noise": Noise, "arrays": lambda: (X, Y), "tf.data": lambda: stream.batch(4)}[data]()
        fit(model, *callbacks, data=source, shuffle=data == "arrays")

    whole, model = build(), build()
    go(whole)
    with pytest.raises(KeyError):
        go(build(), Checkpoint(tmp_path, save_every=3), Crash(18))
    model = build()
    if data == "noise":
        random.seed(5), np.random.seed(5)
    go(model, Checkpoint(tmp_path))
    assert_same(model, whole)


def test_data_that_go_on_through_the_epochs_are_warned_of(tmp_path, caplog):
    import tensorflow as tf

    endless = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4).repeat()
    fit(build(), Checkpoint(tmp_path), data=endless, steps_per_epoch=3)
    assert [record.message.split(":")[0] for record in caplog.records] == ["the data go on through the epochs"] * 2
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


@pytest.mark.parametrize("end", ["signal", "stop"])
def test_who_ends_the_run_while_batches_are_passed_over_waits_till_the_state_is_in_place(end, tmp_path, handler):
    def stop(model):
        model.stop_training = True

    whole, model = build(), build()
    fit(whole)
    crash(tmp_path, 19)
    before, stopped, checkpoint = names(tmp_path), build(), Checkpoint(tmp_path)
    fit(stopped, Crash(12, term if end == "signal" else stop), checkpoint)
    assert checkpoint.stopped_by == ("SIGTERM" if end == "signal" else None) and names(tmp_path) == before
    assert int(stopped.optimizer.iterations) == 18
    fit(model, Checkpoint(tmp_path))
    assert_same(model, whole)


def test_after_a_run_that_another_callback_ended_with_an_error_a_signal_acts_as_ever(tmp_path, handler):
    crash(tmp_path, 4)
    term(None)
    assert handler[1] == [signal.SIGTERM]


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
    assert names(tmp_path) == files
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
    assert "the checkpoint's learning rate goes on, 0.005. Received: 0.5" in caplog.text
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
    expected = pytest.raises(ValueError, match="stands at batch 6 .*Received: data of 5 batches")
    with pytest.warns(UserWarning, match="ran out of data"), expected:
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
