"""Momentum that cycles against the rate: its value at each step, on every backend, and its restoration after `fit`."""

import functools

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import GradualUnfreezing, LayerwiseOptimizer
from keras_transfer.training.optimizers.schedules import LinearWarmupDecay, OneCycle
from keras_transfer.training.runs.momentum import OneCycleMomentum
from keras_transfer.training.runs.steps import Steps
from tests.helpers import EAGER, with_slots

STEPS = 8
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 5)).astype("float32")
Y = RANDOM.normal(size=(40, 3)).astype("float32")
KINDS = {
    "sgd": lambda rate, **more: keras.optimizers.SGD(rate, momentum=0.9, **more),
    "nesterov": lambda rate: keras.optimizers.SGD(rate, momentum=0.9, nesterov=True),
    "adam": lambda rate, **more: keras.optimizers.Adam(rate, **more),
    "adamw": lambda rate: keras.optimizers.AdamW(rate),
    "adamax": lambda rate: keras.optimizers.Adamax(rate),
    "lamb": lambda rate: keras.optimizers.Lamb(rate),
    "lion": lambda rate: keras.optimizers.Lion(rate),
    "muon": lambda rate: keras.optimizers.Muon(rate, exclude_layers=["top"]),
}


def cycle():
    return OneCycle(0.1, STEPS, warmup_fraction=0.4)


def momentum_at(step, low=0.85, high=0.95):
    """The formula of torch's `OneCycleLR`."""
    summit = 0.4 * STEPS - 1
    up = step < summit
    fraction = step / summit if up else (step - summit) / (STEPS - 1 - summit)
    begin, end = (high, low) if up else (low, high)
    return end + (begin - end) / 2 * (np.cos(np.pi * min(fraction, 1)) + 1)


def make_model(optimizer=None, **compiled):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, activation="tanh", name="low"), keras.layers.Dense(3, name="top")]
    model = keras.Sequential([keras.Input((5,)), *layers])
    if optimizer is not None:
        model.compile(optimizer, "mse", **compiled)
        with_slots(model)
    return model


def fit(model, *callbacks, **arguments):
    """Trains for eight steps, and returns the weights as one array."""
    arguments = {"batch_size": 10, "epochs": 2, "shuffle": False, "verbose": 0, **arguments}
    model.fit(X, Y, callbacks=list(callbacks), **arguments)
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


def by_hand(optimizer, inner=None, every=1, momentum=momentum_at):
    """Sets plain numbers before each of the same eight steps, which are eager."""
    model, inner = make_model(optimizer, run_eagerly=True), inner or optimizer
    names = [name for name in ("momentum", "beta_1", "adam_beta_1") if hasattr(inner, name)]
    for step in range(STEPS):
        for name in names:
            setattr(inner, name, float(momentum(step // every * every + every - 1)))
        model.train_on_batch(*(data[10 * (step % 4) :][:10] for data in (X, Y)))
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


@functools.cache
def adam_by_hand():
    return by_hand(KINDS["adam"](cycle()))


@pytest.mark.core
def test_sgd_agrees_with_numpy():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, use_bias=False)])
    model.compile(keras.optimizers.SGD(cycle(), momentum=0.9), "mse")
    weights, velocity = model.get_weights()[0].astype("float64"), 0.0
    rates = keras.ops.convert_to_numpy(cycle()(np.arange(STEPS)))
    for step in range(STEPS):
        x, y = (data[10 * (step % 4) :][:10] for data in (X, Y))
        gradient = 2 * x.T @ (x @ weights - y) / y.size
        velocity = momentum_at(step) * velocity - rates[step] * gradient
        weights = weights + velocity
    fit(model, OneCycleMomentum())
    np.testing.assert_allclose(model.get_weights()[0], weights, atol=1e-6)


CORE = ("adam", "muon")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.core] * (kind in CORE)) for kind in KINDS])
def test_each_step_uses_the_momentum_that_a_manual_loop_sets(kind):
    expected = by_hand(KINDS[kind](cycle()))
    trained = fit(make_model(KINDS[kind](cycle())), OneCycleMomentum())
    constant = by_hand(KINDS[kind](cycle()), momentum=lambda step: 0.9)
    np.testing.assert_allclose(trained, expected, atol=1e-5)
    assert np.abs(trained - constant).max() > 1e-3


@pytest.mark.parametrize(
    "compiled", [{"jit_compile": True}, {"run_eagerly": True}, {"steps_per_execution": 4}], ids=str
)
def test_the_result_does_not_depend_on_how_the_step_is_compiled(compiled):
    if keras.backend.backend() == "torch" and "run_eagerly" not in compiled:
        pytest.skip("torch takes single steps, and runs them eagerly")
    trained = fit(make_model(KINDS["adam"](cycle()), **compiled), OneCycleMomentum())
    np.testing.assert_allclose(trained, adam_by_hand(), atol=1e-5)


def test_the_momentum_inside_a_loss_scale_optimizer_is_found():
    inner = KINDS["adam"](cycle())
    expected = by_hand(keras.optimizers.LossScaleOptimizer(inner), inner)
    scaled = keras.optimizers.LossScaleOptimizer(KINDS["adam"](cycle()))
    trained = fit(make_model(scaled, run_eagerly=True), OneCycleMomentum())
    np.testing.assert_allclose(trained, expected, atol=1e-5)


def test_accumulated_gradients_use_the_momentum_and_the_rate_of_the_same_step():
    expected = by_hand(KINDS["sgd"](cycle(), gradient_accumulation_steps=2), every=2)
    model = make_model(KINDS["sgd"](cycle(), gradient_accumulation_steps=2), run_eagerly=True)
    trained = fit(model, OneCycleMomentum())
    np.testing.assert_allclose(trained, expected, atol=1e-5)


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "loss scaling"])
def test_every_group_of_a_layerwise_optimizer_uses_the_cycle(scaled):
    model = make_model()
    layerwise = LayerwiseOptimizer(KINDS["adam"](cycle()), model, decay=1.0)
    model.compile(keras.optimizers.LossScaleOptimizer(layerwise) if scaled else layerwise, "mse", run_eagerly=scaled)
    np.testing.assert_allclose(fit(model, OneCycleMomentum()), adam_by_hand(), atol=1e-5)
    assert [part.beta_1 for part in layerwise.group_optimizers()] == [0.9, 0.9]


def test_a_group_that_thaws_late_uses_the_current_momentum_of_the_run():
    class Watched(keras.Sequential):
        def train_step(self, *arguments):
            parts = self.optimizer.group_optimizers()
            seen.append([float(keras.ops.convert_to_numpy(keras.ops.cast(part.beta_1, "float32"))) for part in parts])
            return super().train_step(*arguments)

    seen = []
    model = Watched([keras.Input((5,)), keras.layers.Dense(4, name="low"), keras.layers.Dense(3, name="top")])
    model.compile(LayerwiseOptimizer(KINDS["adam"](cycle()), model, decay=0.5), "mse", run_eagerly=True)
    fit(model, GradualUnfreezing(epochs=1), OneCycleMomentum())
    np.testing.assert_allclose(seen, [[momentum_at(step)] * 2 for step in range(STEPS)], atol=1e-5)


@pytest.mark.core
def test_a_run_resumed_from_a_file_continues_the_cycle(tmp_path):
    first = make_model(KINDS["adam"](cycle()), run_eagerly=EAGER)
    fit(first, OneCycleMomentum(), epochs=1)
    first.save(tmp_path / "model.keras")
    second = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(fit(second, OneCycleMomentum(), epochs=1), adam_by_hand(), atol=1e-5)


def test_steps_are_not_traced_again():
    traced = []

    class Traced(keras.layers.Layer):
        def call(self, x):
            traced.append(x)
            return x

    model = keras.Sequential([keras.Input((5,)), Traced(), keras.layers.Dense(3)])
    counts = []
    for callbacks in ([], [], [OneCycleMomentum()]):
        model.compile(KINDS["adam"](cycle()), "mse")
        model.optimizer.build(model.trainable_variables)
        traced.clear()
        fit(model, *callbacks)
        counts.append(len(traced))
    assert counts[2] == counts[1]


# === Restoration ===


def assert_goes_on_with_constant_momentum(model):
    """Trains without the callback, and a new model from the same state."""
    other = make_model(KINDS["sgd"](cycle()), run_eagerly=EAGER)
    other.set_weights(model.get_weights())
    variables = [keras.ops.convert_to_numpy(variable).copy() for variable in model.optimizer.variables]
    other.optimizer.set_weights(variables)
    np.testing.assert_allclose(fit(model, epochs=1), fit(other, epochs=1), atol=1e-6)
    assert type(model.optimizer.momentum) is float and model.optimizer.momentum == 0.9


def test_the_momentum_is_restored_after_fit():
    model = make_model(KINDS["sgd"](cycle()))  # whose traced steps follow the constant momentum again
    fit(model, OneCycleMomentum(), epochs=1)
    assert type(model.optimizer.momentum) is float and model.optimizer.momentum == 0.9
    assert_goes_on_with_constant_momentum(model)


@pytest.mark.core
def test_a_file_written_during_fit_contains_the_original_momentum(tmp_path):
    model = make_model(KINDS["adam"](cycle()), run_eagerly=EAGER)
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras", save_freq="epoch")
    fit(model, checkpoint, OneCycleMomentum())
    for epoch in (1, 2):
        optimizer = keras.saving.load_model(tmp_path / f"{epoch}.keras").optimizer
        assert optimizer.beta_1 == 0.9
        assert len(optimizer.variables) == len(model.optimizer.variables)
        assert int(optimizer.iterations) == 4 * epoch


@pytest.mark.core
def test_the_momentum_is_restored_after_a_failed_step():
    def batches():
        yield from ((X[i : i + 10], Y[i : i + 10]) for i in (0, 10))
        yield X[:10, :2], Y[:10]  # of another width

    model = make_model(KINDS["sgd"](cycle()))
    with pytest.raises(Exception):  # noqa: B017  each backend has its own
        model.fit(batches(), steps_per_epoch=4, epochs=2, shuffle=False, verbose=0, callbacks=[OneCycleMomentum()])
    assert type(model.optimizer.momentum) is float and model.optimizer.momentum == 0.9
    assert_goes_on_with_constant_momentum(model)


@pytest.mark.parametrize("again", [True, False], ids=["with", "without"])
def test_an_error_outside_a_step_does_not_affect_the_next_fit(again):
    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyError("mine")

    model, callback = make_model(KINDS["sgd"](cycle()), run_eagerly=not again), OneCycleMomentum()
    with pytest.raises(KeyError, match="mine"):
        fit(model, Fails(), callback)
    if again:
        fit(model, callback, epochs=1)
    assert_goes_on_with_constant_momentum(model)


@pytest.mark.parametrize("first", [pytest.param(True, marks=pytest.mark.core), False], ids=["first", "last"])
def test_it_can_be_combined_with_stages(first):
    callbacks = [OneCycleMomentum(), GradualUnfreezing()]
    model = make_model(KINDS["sgd"](cycle()), run_eagerly=EAGER)
    fit(model, *(callbacks if first else reversed(callbacks)), epochs=1)
    assert not isinstance(model.train_function, Steps)
    assert_goes_on_with_constant_momentum(model)


def test_its_config_restores_it():
    callback = OneCycleMomentum(0.8, 0.9)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(callback))
    assert type(again) is OneCycleMomentum and again.get_config() == {"low": 0.8, "high": 0.9}


# === Mistakes ===


@pytest.mark.parametrize("low, high", [(0.9, 0.8), (-0.1, 0.9), (0.8, 1.0), (float("nan"), 0.9)])
def test_momenta_out_of_range_are_an_error(low, high):
    with pytest.raises(ValueError, match="0 <= low <= high < 1. Received: low="):
        OneCycleMomentum(low, high)


@pytest.mark.parametrize(
    "optimizer, message",
    [
        (lambda: keras.optimizers.SGD(0.1, momentum=0.9), "requires .*SGD with 0"),
        (
            lambda: keras.optimizers.SGD(LinearWarmupDecay(0.1, STEPS), momentum=0.9),
            "requires .*SGD with 0",
        ),
        (lambda: keras.optimizers.SGD(cycle()), "above 0, for example `SGD.*momentum=0.95.*Received: momentum=0.0"),
        (lambda: keras.optimizers.RMSprop(cycle(), momentum=0.9), "must be AdamW or one of SGD.*Received: RMSprop"),
        (lambda: keras.optimizers.Nadam(cycle()), "must be AdamW or one of SGD.*Received: Nadam"),
        (lambda: keras.optimizers.Adagrad(cycle()), "must be AdamW or one of SGD.*Received: Adagrad"),
    ],
    ids=["rate", "schedule", "none", "rmsprop", "nadam", "adagrad"],
)
def test_an_optimizer_without_a_cycle_or_momentum_is_an_error(optimizer, message):
    model = make_model(optimizer(), run_eagerly=True)
    with pytest.raises(ValueError, match=message):
        fit(model, OneCycleMomentum())
    assert np.isfinite(fit(model, epochs=1)).all()


def test_a_custom_optimizer_is_an_error():
    class Mine(keras.optimizers.Optimizer):
        momentum = 0.9

        def update_step(self, gradient, variable, learning_rate):
            self.assign_sub(variable, gradient * learning_rate)

    with pytest.raises(ValueError, match="Received: Mine"):
        fit(make_model(Mine(cycle())), OneCycleMomentum())


def test_two_callbacks_in_one_fit_are_an_error():
    model = make_model(KINDS["sgd"](cycle()), run_eagerly=True)
    with pytest.raises(ValueError, match="Received: two"):
        fit(model, OneCycleMomentum(), OneCycleMomentum())
    assert model.optimizer.momentum == 0.9
    assert np.isfinite(fit(model, OneCycleMomentum())).all()


# === Parity with torch ===


@pytest.mark.parity
def test_adam_agrees_with_one_cycle_of_torch():
    torch = pytest.importorskip("torch", reason="needs torch: pip install torch")
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, use_bias=False)])
    model.compile(keras.optimizers.Adam(cycle(), epsilon=1e-12), "mse")
    weights = torch.nn.Parameter(torch.tensor(model.get_weights()[0]))
    optimizer = torch.optim.Adam([weights], eps=1e-12)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, STEPS, pct_start=0.4)
    for step in range(STEPS):
        x, y = (torch.tensor(data[10 * (step % 4) :][:10]) for data in (X, Y))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(x @ weights, y).backward()
        optimizer.step()
        scheduler.step()
    fit(model, OneCycleMomentum())
    np.testing.assert_allclose(model.get_weights()[0], weights.detach().numpy(), atol=1e-5)
