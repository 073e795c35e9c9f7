"""The methods of unfreezing: each equals a loop of separate runs, whatever the unit of its stages."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.callbacks import ChainThaw, GradualUnfreezing, SequentialUnfreezing, Stage, StagedTraining
from keras_transfer.optimizers import LayerwiseOptimizer
from tests.helpers import EAGER
from tests.training.runs.staging_models import (
    NAMES,
    STEPS,
    Watch,
    X,
    Y,
    always,
    assert_follows,
    difference,
    fit,
    gradually,
    make,
    reference,
    values,
)

# === Parity ===


@pytest.mark.core
def test_gradual_unfreezing_with_sgd_equals_a_loop_of_separate_runs():
    model = make(run_eagerly=False)
    expected = reference(model, gradually, ("sgd", always(0.1), 0.9))
    fit(model, GradualUnfreezing(steps=2))
    assert difference(values(model), expected) < 1e-6


def test_gradual_unfreezing_with_adam_equals_a_loop_of_separate_runs():
    model = make(keras.optimizers.Adam(0.005))
    expected = reference(model, gradually, ("adam", always(0.005)))
    fit(model, GradualUnfreezing(steps=2))
    assert difference(values(model), expected) < 1e-6


@pytest.mark.core
def test_layerwise_adam_counts_the_steps_of_each_group():
    model = make()
    optimizer = LayerwiseOptimizer(keras.optimizers.Adam(0.005), model)
    model.compile(optimizer, "mse", run_eagerly=EAGER)
    expected = reference(model, gradually, ("adam", always(0.005)), each_its_own_steps=True)
    fit(model, GradualUnfreezing(steps=2))
    assert difference(values(model), expected) < 1e-6
    counts = [int(optimizer.iterations) for optimizer in model.optimizer.group_optimizers()]
    assert counts == [10, 12, 14, 16]
    fit(model, epochs=1)
    assert [int(part.iterations) for part in model.optimizer.group_optimizers()] == [14, 16, 18, 20]


def test_chain_thaw_keeps_the_moments_of_what_freezes_and_thaws_again():
    model = make(keras.optimizers.Adam(0.005))
    order = [["head"], ["low"], ["mid"], ["top"], NAMES]
    expected = reference(model, lambda step: order[min(step // 3, 4)], ("adam", always(0.005)))
    fit(model, ChainThaw(steps=3))
    assert difference(values(model), expected) < 1e-6


def test_schedules_and_schedulers_of_the_rate_continue_through_the_stages():
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.9)
    by_step = make(keras.optimizers.SGD(decay, momentum=0.9))
    expected = reference(by_step, gradually, ("sgd", lambda step: 0.1 * 0.9**step, 0.9))
    fit(by_step, GradualUnfreezing(steps=2))
    assert difference(values(by_step), expected) < 1e-6
    by_epoch = make()
    expected = reference(by_epoch, gradually, ("sgd", lambda step: 0.1 / (1 + step // STEPS), 0.9))
    fit(by_epoch, GradualUnfreezing(steps=2), keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (1 + epoch)))
    assert difference(values(by_epoch), expected) < 1e-6


# === Each method, step by step ===

METHODS = {
    "gradual, by fraction": lambda: GradualUnfreezing(fraction=0.7),
    "gradual, partial": lambda: GradualUnfreezing(steps=3, below="mid"),
    "chain": lambda: ChainThaw(),
    "sequential": lambda: SequentialUnfreezing(),
    "plan": lambda: StagedTraining([Stage(["low", "head"], steps=5), Stage("(mid|top)", epochs=1), Stage("all")]),
}


CORE = ("gradual, partial", "plan")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.core] * (name in CORE)) for name in METHODS])
def test_every_method_trains_only_the_groups_of_its_schedule(name):
    callback, watch = METHODS[name](), Watch()
    model = make(keras.optimizers.AdamW(0.01), run_eagerly=EAGER and name != "sequential")
    fit(model, callback, watch)
    assert len(watch.steps) == 4 * STEPS and len(callback.schedule) >= 2
    assert_follows(model, callback, watch)
    assert callback.stage is None and len(model.trainable_weights) == 8


@pytest.mark.parametrize("name", ["gradual, by fraction", "chain"])
def test_a_run_with_an_initial_epoch_trains_the_groups_of_the_whole_run(name):
    model, callback, watch = make(), METHODS[name](), Watch()
    fit(model, callback, watch, initial_epoch=2)
    assert len(watch.steps) == 2 * STEPS
    assert_follows(model, callback, watch, first=2 * STEPS)


def test_a_run_in_two_parts_ends_as_the_whole_run_does():
    whole, parts = make(), make()
    plan = [Stage("head", steps=3), Stage(["top", "head"], steps=4), Stage("all")]
    fit(whole, StagedTraining(plan))
    fit(parts, StagedTraining(plan), epochs=2)
    fit(parts, StagedTraining(plan), initial_epoch=2)
    assert difference(values(whole), values(parts)) == 0


def test_validation_during_a_stage_uses_the_current_weights():
    model = make()
    losses = []
    record = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: losses.append(numpy_loss(model)))
    history = fit(model, ChainThaw(epochs=1), record, epochs=6, validation_data=(X, Y)).history
    np.testing.assert_allclose(history["val_loss"], losses, rtol=1e-5)
    assert len(set(np.round(losses, 4))) == 6


def numpy_loss(model):
    weights, x = values(model), X
    for name in NAMES:
        x = x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]
        x = x if name == "head" else np.tanh(x)
    return np.square(x - Y).mean()


# === Cost of a frozen group ===


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="a traced graph is pruned: see test_staging_cost")
def test_frozen_groups_below_have_no_backward_pass():
    backward = []

    class Recorder(keras.layers.Layer):
        def call(self, x):
            @ops.custom_gradient
            def identity(x):
                def gradient(*arguments, upstream=None):
                    backward.append(self.name)
                    return arguments[0] if upstream is None else upstream

                return x * 1.0, gradient

            return identity(x)

    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((3,))
    for name in NAMES:
        x = Recorder(name=f"after_{name}")(keras.layers.Dense(3, name=name)(x))
    model = keras.Model(inputs, keras.layers.Dense(2, name="last")(x))
    model.compile("sgd", "mse")
    seen = {}

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.setdefault(callback.stage, set()).update(backward)
            backward.clear()

    callback = StagedTraining([Stage("last", steps=4), Stage(["top", "head", "last"], steps=4), Stage("all")])
    fit(model, callback, Look())
    assert seen[0] == set()
    assert seen[1] == {"after_head", "after_top"}
    assert seen[2] == {f"after_{name}" for name in NAMES}
