"""`LayerwiseOptimizer`: rates by layer group against formulas and separate optimizers, with all options of Keras."""

import functools

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import L2SP
from keras_transfer.optimizers import FusedAdamW, LayerwiseOptimizer
from tests.helpers import with_slots
from tests.training.optimizers.layerwise_models import (
    HALVES,
    RATE,
    X,
    Y,
    apart,
    apply,
    arrays,
    difference,
    gradients,
    least_moved,
    net,
    parity,
)

optimizers = keras.optimizers
tf = pytest.importorskip("tensorflow")

KINDS = {
    "SGD": optimizers.SGD,
    "SGD with momentum": lambda rate: optimizers.SGD(rate, momentum=0.9, nesterov=True),
    "SGD with decay": lambda rate: optimizers.SGD(rate, momentum=0.9, weight_decay=0.1),
    "Adam": optimizers.Adam,
    "AMSGrad": lambda rate: optimizers.Adam(rate, amsgrad=True),
    "AdamW": lambda rate: optimizers.AdamW(rate, weight_decay=0.1),
    "FusedAdamW": lambda rate: FusedAdamW(rate, weight_decay=0.1),
    "RMSprop": lambda rate: optimizers.RMSprop(rate, momentum=0.5, centered=True),
    "Lion": lambda rate: optimizers.Lion(rate, weight_decay=0.1),
    "Adafactor": lambda rate: optimizers.Adafactor(20 * rate),
    "Adagrad": optimizers.Adagrad,
    "Adadelta": lambda rate: optimizers.Adadelta(100 * rate),
    "Adamax": optimizers.Adamax,
    "Lamb": lambda rate: optimizers.Lamb(rate, weight_decay=0.1),
}
if keras.backend.backend() == "jax":  # Elsewhere, its steps are wrong, and `LayerwiseOptimizer` refuses it.
    KINDS["ScheduleFreeAdamW"] = lambda rate: optimizers.ScheduleFreeAdamW(rate, weight_decay=0.1, warmup_steps=5)


# Rates, by formula


def test_decay_multiplies_the_rate_from_each_group_to_the_next_lower_one():
    rates = LayerwiseOptimizer("sgd", net(), decay=1 / 2.6).rates
    assert list(rates) == ["low", "norm", "mid", "top"]
    assert list(rates.values()) == pytest.approx([2.6**-3, 2.6**-2, 2.6**-1, 1.0], abs=1e-15)


def test_rates_by_name_regular_expression_depth_or_tuple_override_decay():
    rates = LayerwiseOptimizer("sgd", net(), decay=0.5, rates={"lo.": 0.3, 1: 0.0, ("mid", -1): 2}).rates
    assert rates == {"low": 0.3, "norm": 0.0, "mid": 2.0, "top": 2.0}
    assert LayerwiseOptimizer("sgd", net(), decay=0.5, rates={"mid": 3}).rates == {
        **{"low": 0.125, "norm": 0.25, "mid": 3.0, "top": 1.0}
    }
    assert LayerwiseOptimizer("sgd", net(), rates={"new": 10}).rates == {"low": 1, "norm": 1, "mid": 1, "top": 10}


def test_custom_groups_have_their_own_rates():
    groups = [("kernels / all", "kernel"), ("all", "norm|bias")]
    model = net()
    optimizer = LayerwiseOptimizer(optimizers.SGD(RATE), model, decay=0.5, groups=groups)
    assert optimizer.rates == {"kernels / all": 0.5, "all": 1.0}
    start, given = arrays(model.trainable_weights), gradients(model.trainable_weights, 1)
    apply(optimizer, model.trainable_weights, given)
    for weight, old, gradient in zip(model.trainable_weights, start, given[0]):
        factor = 0.5 if "kernel" in weight.path else 1.0
        np.testing.assert_allclose(weight, old - RATE * factor * gradient, atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("momentum", {"decay": 1 / 2.6}),
        ("Adam", {"rates": HALVES}),
        ("AdamW", {"decay": 0.95}),
        ("AdamW for all", {"rates": HALVES}),
    ],
    ids=str,
)
def test_weights_agree_with_the_formula_in_float64(kind, options):
    model, decay = net(), 0.1 if "W" in kind else 0.0
    make = optimizers.SGD if kind == "momentum" else optimizers.AdamW
    optimizer = LayerwiseOptimizer(
        make(RATE, momentum=0.9) if kind == "momentum" else make(RATE, weight_decay=decay),
        model,
        decay_norms_and_biases="all" in kind,
        **options,
    )
    weights = model.trainable_weights
    start, given = arrays(weights), gradients(weights, 6)
    apply(optimizer, weights, given)
    depths = {"low": 0, "norm": 1, "mid": 2, "top": 3}
    for place, weight in enumerate(weights):
        name = weight.path.split("/")[0]
        rate = RATE * (HALVES[name] if "rates" in options else options["decay"] ** (3 - depths[name]))
        value, first, second = start[place].astype("float64"), 0.0, 0.0
        decays = "all" in kind or (name != "norm" and "bias" not in weight.path)
        for t, step in enumerate(given, 1):
            gradient = step[place].astype("float64")
            if kind == "momentum":
                first = 0.9 * first - rate * gradient
                value = value + first
                continue
            value = value - rate * decay * decays * value
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            corrected = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            value = value - corrected * first / (np.sqrt(second) + 1e-7)
        np.testing.assert_allclose(weight, value, atol=1e-6, err_msg=weight.path)


# Rates, compared with plain Keras optimizers


CORE = ("SGD", "Adam", "AdamW", "Adafactor")


RARE = ("SGD with decay", "AMSGrad", "Adagrad", "Adadelta", "Adamax", "Lamb")
MARKS = {**dict.fromkeys(CORE, pytest.mark.core), **dict.fromkeys(RARE, pytest.mark.slow)}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=MARKS.get(kind, ())) for kind in KINDS])
def test_each_group_trains_as_with_a_plain_optimizer_at_its_rate(kind):
    apart_by, moved = parity(KINDS[kind], decay=1 / 2.6)
    # The optimizers of other backends round in a different order.
    on_tensorflow = keras.backend.backend() == "tensorflow"
    assert apart_by < (1e-6 if on_tensorflow else 3e-6) < 1e-5 < moved
    assert kind != "Adam" or parity(KINDS[kind])[0] < 1e-6


def test_weight_decay_can_include_norms_and_biases():
    kind = "AdamW"
    assert parity(KINDS[kind], steps=2, decay=0.95, decay_norms_and_biases=True)[0] < 1e-6
    one, two = (net(), net())
    for model, flag in ((one, False), (two, True)):
        optimizer = LayerwiseOptimizer(KINDS[kind](0.1), model, decay_norms_and_biases=flag)
        apply(optimizer, model.trainable_weights, gradients(model.trainable_weights, 2))
    changed = {w.path for w, other in zip(one.weights, two.weights) if difference([w], [other]) > 1e-4}
    assert changed == {"low/bias", "norm/gamma", "norm/beta", "mid/bias", "top/bias"}


@pytest.mark.parametrize("kind", ["SGD with momentum", "AdamW", "FusedAdamW", "RMSprop", "Lion", "Adafactor"])
def test_a_rate_of_zero_keeps_every_weight_finite_and_in_place(kind):
    model = net()
    optimizer = LayerwiseOptimizer(KINDS[kind](RATE), model, rates={"low": 0.0, "norm": 0.0})
    start = arrays(model.trainable_weights)
    apply(optimizer, model.trainable_weights, gradients(model.trainable_weights))
    moved = [np.abs(new - old).max() for new, old in zip(arrays(model.trainable_weights), start)]
    assert max(moved[:4]) < 1e-6 < min(moved[4:]) and np.isfinite(moved).all()
    assert kind != "AdamW" or (moved[:4] == [0] * 4 and min(moved[4:]) > 0.01)


@pytest.mark.parametrize("kind", ["Ftrl", "Muon", "Nadam", "LossScaleOptimizer"])
def test_an_optimizer_that_cannot_have_rates_by_group_is_an_error(kind):
    optimizer = getattr(optimizers, kind)(*([optimizers.SGD()] if kind == "LossScaleOptimizer" else []))
    with pytest.raises(ValueError, match=f"must update each weight independently.*wrap another one.*Received: {kind}"):
        LayerwiseOptimizer(optimizer, net())


# Schedules and callbacks


class OneOver(keras.optimizers.schedules.LearningRateSchedule):
    """A custom schedule, which is not registered."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate / (1.0 + keras.ops.cast(step, "float32"))

    def get_config(self):
        return {"rate": self.rate}


SCHEDULES = {
    "cosine": keras.optimizers.schedules.CosineDecay(0.0, 20, warmup_target=0.1, warmup_steps=5),
    "own": OneOver(0.1),
    "function": lambda: 0.05,
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_sets_the_top_rate_from_the_steps_of_the_run(name):
    schedule, model = SCHEDULES[name], net()
    weights = model.trainable_weights
    optimizer = LayerwiseOptimizer(optimizers.SGD(schedule), model, rates=HALVES)
    expected, given = arrays(weights), gradients(weights, 22)
    apply(optimizer, weights, given)
    for step, each in enumerate(given):
        rate = float(schedule() if name == "function" else schedule(step))
        for place, weight in enumerate(weights):
            expected[place] = expected[place] - rate * HALVES[weight.path.split("/")[0]] * each[place]
    assert difference(arrays(weights), expected) < 1e-6
    assert int(optimizer.iterations) == 22


def fitted(compiled={}, **options):  # noqa: B006
    """A model after a `fit` of 6 steps with rates by group."""
    model = net()
    options = {"epochs": 3, "batch_size": 32, **options}
    model.compile(LayerwiseOptimizer(optimizers.Adam(RATE), model, rates=HALVES), "mse", **compiled)
    with_slots(model).fit(X, Y, shuffle=False, verbose=0, **options)
    return model


@functools.cache
def fitted_apart(rates=(1, 1, 1)):
    """Its weights with separate optimizers and a gradient tape. `rates` are multiples of `RATE`, one per epoch."""
    model, parts, step = apart(optimizers.Adam, HALVES)
    starts = [float(optimizer.learning_rate) for optimizer, *_ in parts]
    for rate in rates:
        for (optimizer, *_), start in zip(parts, starts):
            optimizer.learning_rate = start * rate
        for first in range(0, 64, 32):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(X[first : first + 32], training=True) - Y[first : first + 32]) ** 2)
            step(tape.gradient(loss, [weight.value for weight in model.trainable_weights]))
    return model.get_weights()


MODES = {
    "default": {},
    "two steps at once": {"compiled": {"steps_per_execution": 2}},
}


@pytest.mark.parametrize("mode", MODES)
def test_fit_trains_as_with_separate_optimizers_in_every_mode(mode):
    model = fitted(**MODES[mode])
    assert int(model.optimizer.iterations) == 6
    assert [int(part.iterations) for part in model.optimizer.group_optimizers()] == [6] * 4
    assert difference(model.get_weights(), fitted_apart()) < 2e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("callback", "rates"),
    [
        (keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5 if epoch else rate), (1, 0.5, 0.25)),
        (keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=1e9), (1, 1, 0.5)),
    ],
    ids=type,
)
def test_callbacks_set_the_rates_of_all_groups(callback, rates):
    model = fitted(compiled={"run_eagerly": True}, callbacks=[callback])
    assert float(model.optimizer.learning_rate) == pytest.approx(0.25 * RATE)
    assert difference(model.get_weights(), fitted_apart(rates=rates)) < 1e-6


# Options of Keras's optimizers


@pytest.mark.parametrize(
    "options",
    [
        {"clipnorm": 0.5},
        {"clipvalue": 0.3},
        {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 3},
    ],
    ids=str,
)
def test_gradients_are_clipped_and_averages_replace_the_weights_as_with_separate_optimizers(options):
    assert parity(lambda rate: optimizers.Adam(rate, **options), decay=0.5)[0] < 1e-6


def test_the_global_norm_covers_all_groups_together():
    model = net()
    weights = model.trainable_weights
    expected, given = arrays(weights), gradients(weights)
    apply(
        LayerwiseOptimizer(optimizers.SGD(1.0, global_clipnorm=0.5), model, rates=HALVES),
        weights,
        given,
    )
    for step in given:
        norm = np.sqrt(sum((gradient.astype("float64") ** 2).sum() for gradient in step))
        assert norm > 0.5
        for place, weight in enumerate(weights):
            expected[place] = expected[place] - HALVES[weight.path.split("/")[0]] * step[place] * 0.5 / norm
    assert difference(arrays(weights), expected) < 1e-6


def test_gradients_accumulated_over_three_batches_make_one_step_of_their_mean():
    kind = "AdamW"

    def gathering(rate):
        config = {**KINDS[kind](rate).get_config(), "gradient_accumulation_steps": 3}
        return type(KINDS[kind](rate)).from_config(config)

    one, two = net(), net()
    given = gradients(one.trainable_weights, 8)
    ours = LayerwiseOptimizer(gathering(RATE), one, rates=HALVES)
    apply(ours, one.trainable_weights, given)
    means = [[np.mean(three, 0) for three in zip(*given[i : i + 3])] for i in range(0, 6, 3)]
    apply(LayerwiseOptimizer(KINDS[kind](RATE), two, rates=HALVES), two.trainable_weights, means)
    assert difference(one.get_weights(), two.get_weights()) < 1e-6
    assert int(ours.iterations) == 2
    assert [int(part.iterations) for part in ours.group_optimizers()] == [2] * 4


def test_moving_averages_equal_those_of_separate_optimizers():
    def make(rate):
        return optimizers.Adam(rate, use_ema=True, ema_momentum=0.9)

    model = net()
    optimizer = LayerwiseOptimizer(make(RATE), model, rates=HALVES)
    other, parts, step = apart(make, HALVES)
    given = gradients(model.trainable_weights)
    apply(optimizer, model.trainable_weights, given)
    for each in given:
        step(each)
    trained = model.get_weights()
    optimizer.finalize_variable_values(model.trainable_weights)
    for part, weights, _ in parts:
        part.finalize_variable_values(weights)
    assert difference(model.get_weights(), other.get_weights()) < 1e-6
    assert least_moved(model.get_weights(), trained) > 1e-4


def test_a_loss_scale_factor_changes_only_the_scale():
    one, two = net(), net()
    scaled = LayerwiseOptimizer(optimizers.Adam(RATE, loss_scale_factor=1024.0), one, rates=HALVES)
    assert float(scaled.scale_loss(2.0)) == 2048.0
    given = gradients(one.trainable_weights)
    apply(scaled, one.trainable_weights, [[1024 * gradient for gradient in step] for step in given])
    apply(LayerwiseOptimizer(optimizers.Adam(RATE), two, rates=HALVES), two.trainable_weights, given)
    assert difference(one.get_weights(), two.get_weights()) < 1e-7


def test_constraints_of_weights_hold():
    model = net()
    model.get_layer("mid").kernel.constraint = keras.constraints.NonNeg()
    optimizer = LayerwiseOptimizer(optimizers.Adam(0.1), model, decay=0.5)
    apply(optimizer, model.trainable_weights, gradients(model.trainable_weights))
    assert np.min(model.get_layer("mid").kernel) == 0 > np.min(model.get_layer("low").kernel)


# Gradients of embeddings


def embedding_model():
    keras.utils.set_random_seed(0)
    layers = [keras.Input((3,), dtype="int32"), keras.layers.Embedding(9, 4, name="table")]
    return keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(1, name="top")])


@pytest.mark.parametrize(
    ("kind", "penalty"),
    [
        *((kind, None) for kind in ("FusedAdamW", "Lion")),
        ("Adam", L2SP(0.0, new_strength=0.0)),
    ],
    ids=["FusedAdamW", "Lion", "Adam, dense"],
)
def test_sparse_gradients_of_an_embedding_train_as_with_separate_optimizers(kind, penalty):
    # With AdamW and Lion the whole table decays, also the rows that no token uses.
    make = KINDS[kind] if penalty is None else (lambda rate: type(KINDS[kind](rate))(rate, weight_decay=0.0))
    x = np.random.default_rng(0).integers(0, 6, (12, 3))
    y = np.random.default_rng(1).normal(size=(12, 1)).astype("float32")
    one, two = embedding_model(), embedding_model()
    one.compile(
        LayerwiseOptimizer(make(RATE), one, decay=0.5, penalty=penalty), "mse", run_eagerly=kind != "FusedAdamW"
    )
    one.fit(x, y, batch_size=2, shuffle=False, verbose=0)
    table, top = make(0.5 * RATE), make(RATE)
    if top.weight_decay:
        top.exclude_from_weight_decay(var_names=["bias"])
    start = two.get_weights()[0]
    for first in range(0, 12, 2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((two(x[first : first + 2]) - y[first : first + 2]) ** 2)
        sparse, *others = tape.gradient(loss, [weight.value for weight in two.trainable_weights])
        assert isinstance(sparse, tf.IndexedSlices)
        # Keras would square sparse gradients of the same token separately. They are added up before.
        table.apply([tf.convert_to_tensor(sparse)], two.trainable_weights[:1])
        top.apply(others, two.trainable_weights[1:])
    assert difference(one.get_weights(), two.get_weights()) < 1e-6
    moved = np.abs(one.get_weights()[0] - start).max(1)
    assert moved[:6].min() > 1e-4 and (moved[6:].max() > 0) == bool(top.weight_decay)
