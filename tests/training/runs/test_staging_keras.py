"""Staged training together with the rest of Keras: files, averages, precision, other callbacks."""

import keras
import pytest

from keras_transfer import adaptation
from keras_transfer.callbacks import GradualUnfreezing, Stage, StagedTraining
from tests.helpers import EAGER
from tests.training.runs.staging_models import (
    NAMES,
    STEPS,
    Watch,
    X,
    Y,
    always,
    changed,
    difference,
    fit,
    gradually,
    make,
    moved_in,
    reference,
    synced,
    trained_in,
    values,
)


def head_first(step):
    """What trains in a step of `two_stages()`."""
    return ["head"] if step < 6 else NAMES


def two_stages(steps=6):
    return StagedTraining([Stage("head", steps=steps), Stage("all")])


@pytest.mark.core
def test_a_file_written_during_a_stage_contains_the_model_without_the_stage(tmp_path):
    model = make()
    adaptation.freeze(model, "mid")
    save = keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.keras"))
    fit(model, StagedTraining([Stage("head", epochs=1), Stage("low", epochs=1), Stage("all")]), save)
    for epoch in (1, 2):
        loaded = keras.saving.load_model(tmp_path / f"{epoch}.keras")
        assert [w.trainable for w in loaded.weights] == [w.trainable for w in model.weights]
        assert len(loaded.optimizer.variables) == len(model.optimizer.variables) == 2 + 6
        assert int(loaded.optimizer.iterations) == epoch * STEPS
        rest = StagedTraining([Stage("head", epochs=1), Stage("low", epochs=1), Stage("all")])
        fit(loaded, rest, initial_epoch=epoch)
        assert difference(values(loaded), values(model)) == 0


def test_the_moving_averages_of_a_layer_begin_when_it_begins_to_train():
    momentum = 0.8
    model = make(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=momentum))
    adaptation.freeze(model, "mid")
    start, trail = values(model), []
    record = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: trail.append(synced(model)))
    fit(model, StagedTraining([Stage("head", steps=6), Stage(["low", "head"], steps=6), Stage("low")]), record)
    expected = dict(start)
    for step, now in enumerate(trail):
        for name in ["head"] if step < 6 else ["low", "head"] if step < 12 else ["low"]:
            for path in (f"{name}/kernel", f"{name}/bias"):
                keep = 0 if step == 0 else momentum  # Keras's first step
                expected[path] = keep * expected[path] + (1 - keep) * now[path]
    assert difference(values(model), expected) < 1e-6
    assert changed(start, values(model)) == {"low/kernel", "low/bias", "head/kernel", "head/bias"}


def accumulating():
    return keras.optimizers.SGD(0.1, gradient_accumulation_steps=3)


def test_accumulated_gradients_belong_to_one_stage():
    model, watch = make(accumulating()), Watch()
    with pytest.raises(ValueError, match=r"stages that begin at \[0, 6, 6\]"):
        fit(model, StagedTraining([Stage("head", steps=4), Stage("low", steps=1), Stage("all")]), watch)
    callback = StagedTraining([Stage("head", steps=4), Stage("low", steps=3), Stage("all")])
    fit(model, callback, watch)
    assert [start for start, _ in callback.schedule] == [0, 6, 9]
    updates = [{"head"}, {"head"}, {"low"}, set(NAMES), set(NAMES)]
    assert moved_in(watch) == [names for update in updates for names in (set(), set(), update)] + [set()]


def test_accumulated_gradients_belong_to_one_stage_in_a_second_fit():
    model, watch, trail = make(accumulating()), Watch(), []
    fit(model, epochs=1)  # four batches: the last begins a gradient that the next `fit` completes
    record = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: trail.append(synced(model)))
    stages = [Stage("head", steps=6), Stage(["low", "head"], steps=3), Stage("all")]
    fit(model, StagedTraining(stages), watch, record)
    assert [names for names in moved_in(watch) if names] == [{"head"}] * 3 + [{"low", "head"}, set(NAMES)]
    # The first update of the second stage contains its own three batches, and nothing from before.
    alone = make(accumulating())
    for weight in alone.weights:
        weight.assign(trail[7][weight.path])
    adaptation.freeze(alone, ["mid", "top"])
    alone.fit(X[:12], Y[:12], batch_size=4, shuffle=False, verbose=0)
    assert difference(values(alone), trail[10]) < 1e-6


@pytest.mark.core
def test_accumulated_gradients_of_several_steps_in_one_execution_belong_to_one_stage():
    if keras.backend.backend() == "torch":
        pytest.skip("torch takes single steps")
    model, watch = make(accumulating(), steps_per_execution=2, run_eagerly=False), Watch()
    callback = StagedTraining([Stage("head", steps=3), Stage("all")])
    fit(model, callback, watch)
    assert callback.schedule == [(0, ["head"]), (6, NAMES)]
    # Executions of two steps, of which all but 0-1, 6-7 and 12-13 complete a gradient.
    every = set(NAMES)
    assert moved_in(watch) == [set(), {"head"}, {"head"}, set(), every, every, set(), every]


def test_accumulated_gradients_belong_to_one_stage_in_a_run_that_begins_later():
    model, watch = make(accumulating()), Watch()
    fit(model, StagedTraining([Stage("head", steps=6), Stage("all")]), watch, initial_epoch=1)
    # The run begins with its step 4, and the optimizer with a new gradient: of the steps 4 to 6, 7 to 9, and so on.
    assert [names for names in moved_in(watch) if names] == [{"head"}] + [set(NAMES)] * 3


@pytest.mark.core
def test_with_loss_scaling_each_stage_trains_its_groups():
    inner = keras.optimizers.Adam(0.01)
    model = make(keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0), run_eagerly=False)
    expected = reference(model, head_first, ("adam", always(0.01)), 2 * STEPS)
    fit(model, two_stages(), epochs=2)
    assert difference(values(model), expected) < 1e-5


def test_the_step_may_be_compiled():
    model = make(run_eagerly=False, jit_compile=keras.backend.backend() != "torch")
    expected = reference(model, head_first, ("sgd", always(0.1), 0.9), 2 * STEPS)
    fit(model, two_stages(), epochs=2)
    assert difference(values(model), expected) < 1e-6


@pytest.mark.core
def test_statistics_of_a_frozen_group_do_not_change():
    model, watch = make_with_norm(), Watch()
    callback = StagedTraining([Stage("head", epochs=1), Stage(["norm", "head"], epochs=1), Stage("all")])
    fit(model, callback, watch)
    statistics = {"norm/moving_mean", "norm/moving_variance"}
    moved = [paths & statistics for paths in watch.steps]
    assert moved == [set()] * STEPS + [statistics] * 3 * STEPS
    assert all(layer.trainable for layer in model.layers)


class Counting(keras.layers.Layer):
    """Counts its calls in training, and contains a layer that the user froze."""

    def __init__(self):
        super().__init__(name="counting")
        self.dense, self.fixed = keras.layers.Dense(3, name="dense"), keras.layers.Dense(3, name="fixed")
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")

    def build(self, shape):
        self.dense.build(shape)
        self.fixed.build(shape)
        self.fixed.trainable = False

    def call(self, x, training=False):
        if training and self.trainable:
            self.count.assign(self.count + 1)
        return self.fixed(self.dense(x))


@pytest.mark.core
def test_statistics_of_a_frozen_composite_layer_do_not_change_and_its_flags_are_restored():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(Counting()(inputs)))
    model.compile("sgd", "mse", run_eagerly=EAGER)
    layer = model.get_layer("counting")
    fit(model, StagedTraining([Stage("head", epochs=1), Stage("all")]), epochs=2)
    assert float(layer.count) == STEPS
    assert (layer.trainable, layer.dense.trainable, layer.fixed.trainable) == (True, True, False)
    assert [weight.path for weight in model.trainable_weights if "fixed" in weight.path] == []


def make_with_norm():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization(name="norm")(keras.layers.Dense(3, name="low")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(x))
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=EAGER)
    return model


@pytest.mark.report("The best weights are restored for the encoder only.", "sentence-transformers#3360")
def test_early_stopping_restores_the_best_weights():
    model, rates = make(keras.optimizers.SGD(0.1)), [0.1, 0.1, -0.3, -0.3, -0.3]
    expected = reference(model, lambda step: gradually(step, STEPS), ("sgd", always(0.1), 0.0), batches=2 * STEPS)
    start, stages = values(model), GradualUnfreezing(epochs=1)
    climb = keras.callbacks.LearningRateScheduler(lambda epoch: rates[epoch])  # a rate below 0 raises the loss
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    history = fit(model, stages, climb, stop, epochs=5, validation_data=(X, Y)).history
    assert len(history["loss"]) == 3 and stop.best_epoch == 1
    assert difference(values(model), expected) < 1e-6
    assert changed(start, values(model)) == {f"{n}/{w}" for n in ("top", "head") for w in ("kernel", "bias")}
    assert trained_in(model, lambda: fit(model, epochs=1)) == set(NAMES)
