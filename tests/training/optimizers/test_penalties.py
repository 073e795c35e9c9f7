"""`L2SP` and `EWC` against their formulas, and their effect on the loss, new weights and frozen weights."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import EWC, L2SP, freeze
from keras_transfer.optimizers import LayerwiseOptimizer
from tests.errors import check_errors
from tests.helpers import EAGER
from tests.training.optimizers.layerwise_models import (
    HALVES,
    RATE,
    X,
    Y,
    apply,
    arrays,
    difference,
    gradients,
    net,
    ones,
    penalized,
    stepper,
)

optimizers = keras.optimizers


def random_fisher():
    random = np.random.default_rng(2)
    return {path: random.uniform(0, 2, value.shape).astype("float32") for path, value in ones(net()).items()}


PENALTIES = {
    "squared": lambda: L2SP(0.5, new_strength=0.25),
    "unsquared": lambda: L2SP(0.5, new_strength=0.25, squared=False),
    "pretrained alone": lambda: L2SP(0.5, new_strength=0.0),
    "new alone": lambda: L2SP(0.0, new_strength=0.25),
    "EWC": lambda: EWC(random_fisher(), 0.5),
}


def trained(penalty, steps=6, make=optimizers.SGD, scale=1.0, **options):
    """The weights by path after some steps with the same gradients."""
    model = net()
    apply(
        LayerwiseOptimizer(make(RATE), model, penalty=penalty, **options),
        model.trainable_weights,
        gradients(model.trainable_weights, steps, scale),
    )
    return {weight.path: weight.numpy() for weight in model.weights}


# The formulas


@pytest.mark.core
@pytest.mark.parametrize("name", PENALTIES)
def test_sgd_with_a_penalty_agrees_with_the_formula_in_float64(name):
    error, effect = penalized(PENALTIES[name](), steps=30)
    assert error < 1e-6 < 1e-3 < effect


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squared", "unsquared", "EWC"])
def test_the_gradient_of_a_penalty_enters_the_moments_of_adam(name):
    penalty, model, other = PENALTIES[name](), net(), net()
    weights = model.trainable_weights
    start = {weight.path: weight.numpy() for weight in weights}
    ours = stepper(LayerwiseOptimizer(optimizers.Adam(RATE), model, penalty=penalty), weights)
    plain = stepper(optimizers.Adam(RATE), other.trainable_weights)
    for given in gradients(weights, 8):
        ours(given)
        now = {weight.path: weight.numpy() for weight in other.trainable_weights}
        changes = {path: now[path] - start[path] for path in now if name == "EWC" or not path.startswith("top")}
        norm = max(np.sqrt(sum((change**2).sum() for change in changes.values())), 1e-12)
        terms = []
        for path in now:
            if name == "EWC":
                terms.append(0.5 * penalty.fisher[path] * changes[path])
            elif path in changes:
                terms.append(0.5 * changes[path] / (1.0 if name == "squared" else norm))
            else:
                terms.append(0.25 * now[path])
        plain([gradient + term for gradient, term in zip(given, terms)])
    assert difference(model.get_weights(), other.get_weights()) < 2e-6


def test_without_gradients_pretrained_weights_return_to_their_start_and_new_ones_go_to_zero():
    model = net()
    optimizer = LayerwiseOptimizer(optimizers.SGD(0.9), model, penalty=L2SP(1.0, new_strength=1.0))
    start = {weight.path: weight.numpy() for weight in model.weights}
    for weight in model.weights:
        weight.assign_add(keras.ops.ones_like(weight))
    apply(optimizer, model.weights, gradients(model.weights, 8, scale=0.0))
    for weight in model.weights:
        expected = 0 * weight.numpy() if weight.path.startswith("top") else start[weight.path]
        np.testing.assert_allclose(weight, expected, atol=1e-6, err_msg=weight.path)


def test_the_start_is_the_value_when_the_optimizer_was_created_and_not_when_it_was_built():
    model = net()
    optimizer = LayerwiseOptimizer(optimizers.SGD(RATE), model, penalty=L2SP(1.0, new_strength=0.0))
    before = model.get_layer("low").kernel.numpy()
    model.get_layer("low").kernel.assign(before + 1.0)
    apply(optimizer, model.trainable_weights, gradients(model.trainable_weights, 1, scale=0.0))
    np.testing.assert_allclose(model.get_layer("low").kernel, before + 1.0 - RATE, atol=1e-6)
    np.testing.assert_array_equal(model.get_layer("mid").kernel, net().get_layer("mid").kernel)


def test_all_weights_of_a_model_without_a_head_return_to_their_start():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="only")])
    start = model.get_weights()
    optimizer = LayerwiseOptimizer(optimizers.SGD(1.0), model, penalty=L2SP(1.0, new_strength=1.0))
    for weight in model.weights:
        weight.assign_add(keras.ops.ones_like(weight))
    apply(optimizer, model.weights, gradients(model.weights, 1, scale=0.0))
    assert difference(model.get_weights(), start) < 1e-6


def test_weights_without_fisher_information_train_as_without_a_penalty():
    fisher = {path: values for path, values in random_fisher().items() if path.startswith("mid")}
    ours, plain = trained(EWC(fisher, 10.0)), trained(None)
    for path, value in ours.items():
        changed = np.abs(value - plain[path]).max()
        assert changed > 1e-3 if path.startswith("mid") else changed == 0, path


@pytest.mark.parametrize(
    "penalty",
    [L2SP(0.0, new_strength=0.0), L2SP(0.0, new_strength=0.0, squared=False), EWC(ones(net()), 0.0)],
    ids=["L2-SP", "norm", "EWC"],
)
def test_a_strength_of_zero_has_no_effect(penalty):
    adam = optimizers.Adam
    assert difference(trained(penalty, make=adam).values(), trained(None, make=adam).values()) == 0


# What a penalty covers


def returned(penalty, make=optimizers.SGD):
    """For each weight how much of a distance of 1 from its start a step without gradients leaves."""
    model = net()
    optimizer = LayerwiseOptimizer(make(0.5), model, penalty=penalty)
    start = {weight.path: weight.numpy() for weight in model.weights}
    for weight in model.weights:
        weight.assign_add(keras.ops.ones_like(weight))
    apply(optimizer, model.weights, gradients(model.weights, 1, scale=0.0))
    return {weight.path: float(np.mean(weight.numpy() - start[weight.path])) for weight in model.weights}


def test_ewc_pulls_the_head_if_the_fisher_information_has_it():
    assert returned(EWC(ones(net()), 1.0)) == pytest.approx(dict.fromkeys(ones(net()), 0.5))


def test_ewc_covers_the_groups_that_the_user_names():
    for groups, names in (("pretrained", ("low", "norm", "mid")), (["mid", -1], ("mid", "top")), ("t.p", ("top",))):
        left = returned(EWC(ones(net()), 1.0, groups=groups))
        assert left == pytest.approx({path: 0.5 if path.split("/")[0] in names else 1.0 for path in left}), groups


def test_ewc_without_the_fisher_information_of_a_new_head_leaves_it_alone(caplog):
    fisher = {path: values for path, values in ones(net()).items() if not path.startswith("top")}
    left = returned(EWC(fisher, 1.0))
    assert left == pytest.approx({path: 1.0 if path.startswith("top") else 0.5 for path in left})
    assert "has no values" not in caplog.text


def test_a_pretrained_weight_without_fisher_information_is_a_warning(caplog):
    fisher = {path: values for path, values in ones(net()).items() if not path.startswith("mid")}
    assert returned(EWC(fisher, 1.0))["mid/kernel"] == pytest.approx(1.0)
    assert "for which `fisher` has no values: ['mid/kernel', 'mid/bias']" in caplog.text


OTHER_HEAD = {**ones(net()), "top/kernel": np.ones((5, 3)), "top/bias": np.ones(3)}
test_a_penalty_of_another_model_is_an_error = check_errors(
    (lambda: EWC(OTHER_HEAD), "'top/kernel' must have", "pass `groups='pretrained'`. Received: shape (5, 3)"),
    (lambda: EWC(1.0), "`fisher` must be a dict from weight paths to arrays, or None. Received: fisher=1.0"),
    (lambda: EWC({"x": np.ones(3)}), "Expected some of ['low/kernel'", "Received: fisher=['x']"),
    (lambda: EWC({"low/bias": np.ones(6)}, groups="mid"), "['mid/kernel', 'mid/bias']. Received: fisher=['low/bias']"),
    (lambda: L2SP(groups="high"), "No layer group matches", "Received: 'high'"),
    (lambda: EWC(ones(net()), groups="high"), "No layer group matches", "Received: 'high'"),
    call=lambda make: LayerwiseOptimizer("sgd", net(), penalty=make()),
)

test_weight_decay_of_no_weight_is_an_error = check_errors(
    (lambda: EWC(ones(net())), "`penalty` pulls all weights, so that none would decay", "Received: weight_decay=0.1"),
    (lambda: L2SP(), "Pass an optimizer with `weight_decay=0.0`.", "Received: weight_decay=0.1"),
    call=lambda make: LayerwiseOptimizer(optimizers.SGD(RATE, weight_decay=0.1), net(), penalty=make()),
)


@pytest.mark.core
def test_weights_that_a_penalty_pulls_to_their_start_do_not_decay():
    model = net()
    before, penalty = model.get_weights(), EWC(ones(net()), groups="pretrained")
    optimizer = LayerwiseOptimizer(optimizers.SGD(RATE, weight_decay=0.1), model, penalty=penalty)
    apply(optimizer, model.weights, gradients(model.weights, 1, scale=0.0))
    for weight, start in zip(model.weights, before):
        expected = start * (1 - 0.1 * RATE if weight.path == "top/kernel" else 1.0)
        np.testing.assert_allclose(arrays([weight])[0], expected, rtol=1e-6, err_msg=weight.path)


def test_a_penalty_of_pretrained_groups_takes_fisher_information_of_another_head():
    assert returned(EWC(OTHER_HEAD, groups="pretrained"))["top/kernel"] == pytest.approx(1.0)


def test_l2sp_pulls_a_head_that_was_trained_before_to_its_start():
    left = returned(L2SP(1.0, new_strength=0.5, groups="all"))
    assert left == pytest.approx(dict.fromkeys(left, 0.5))


@pytest.mark.parametrize("squared", [True, False])
def test_l2sp_leaves_norms_and_biases_alone_if_the_user_wants(squared):
    left = returned(L2SP(1.0, new_strength=0.5, squared=squared, groups="all", norms_and_biases=False))
    distance = 1.0 if squared else np.sqrt(sum(value.size for path, value in ones(net()).items() if "kernel" in path))
    expected = {path: 1 - 0.5 / distance if path.endswith("kernel") else 1.0 for path in left}
    assert left == pytest.approx(expected, rel=1e-5)
    model = net()
    new = LayerwiseOptimizer(optimizers.SGD(0.5), model, penalty=L2SP(1.0, new_strength=1.0, norms_and_biases=False))
    bias, kernel = (weight.numpy() for weight in (model.get_layer("top").bias, model.get_layer("top").kernel))
    apply(new, model.weights, gradients(model.weights, 1, scale=0.0))
    np.testing.assert_array_equal(model.get_layer("top").bias.numpy(), bias)
    np.testing.assert_allclose(model.get_layer("top").kernel.numpy(), kernel / 2, atol=1e-7)


# Together with other options of an optimizer


def test_the_penalty_is_added_after_the_gradient_is_clipped():
    def clipped(rate):
        return optimizers.SGD(rate, clipvalue=0.1)

    model = net()
    optimizer = LayerwiseOptimizer(clipped(RATE), model, penalty=L2SP(1.0, new_strength=1.0))
    start = {weight.path: weight.numpy() for weight in model.weights}
    for weight in model.weights:
        weight.assign_add(5 * keras.ops.ones_like(weight))
    apply(optimizer, model.weights, gradients(model.weights, 1, scale=1e6))
    for weight, gradient in zip(model.weights, gradients(model.weights, 1)[0], strict=True):
        distance = 5 + start[weight.path] * weight.path.startswith("top")
        expected = start[weight.path] + 5 - RATE * (0.1 * np.sign(gradient) + distance)
        np.testing.assert_allclose(weight, expected, atol=2e-6)


@pytest.mark.parametrize("squared", [True, False])
def test_the_penalty_is_added_once_to_accumulated_gradients(squared):
    one, two = net(), net()
    given = gradients(one.trainable_weights, 8)
    penalty = L2SP(0.5, new_strength=0.25, squared=squared)
    accumulating = optimizers.SGD(RATE, gradient_accumulation_steps=4)
    apply(LayerwiseOptimizer(accumulating, one, penalty=penalty), one.trainable_weights, given)
    means = [[np.mean(four, 0) for four in zip(*given[i : i + 4])] for i in range(0, 8, 4)]
    apply(LayerwiseOptimizer(optimizers.SGD(RATE), two, penalty=penalty), two.trainable_weights, means)
    assert difference(one.get_weights(), two.get_weights()) < 1e-6


def fitted(penalty, strength=1.0):
    model = net()
    optimizer = LayerwiseOptimizer(optimizers.SGD(strength * RATE), model, rates=HALVES, penalty=penalty)
    model.compile(optimizer, "mse", run_eagerly=EAGER)
    history = model.fit(X, Y, batch_size=64, epochs=2, shuffle=False, verbose=0, validation_data=(X, Y)).history
    return model, history


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squared", "unsquared", "EWC"])
def test_the_reported_losses_are_those_of_the_task(name):
    model, history = fitted(PENALTIES[name]())
    outputs = model.predict(X, verbose=0)
    assert history["val_loss"][-1] == pytest.approx(np.mean((outputs - Y) ** 2), rel=1e-5)
    assert model.evaluate(X, Y, verbose=0) == pytest.approx(history["val_loss"][-1], rel=1e-6)
    start = np.mean((net().predict(X, verbose=0) - Y) ** 2)
    assert history["loss"][0] == pytest.approx(start, rel=1e-5)  # The loss of one batch before its step.
    assert model.losses == []


@pytest.mark.parametrize("squared", [True, False])
def test_frozen_weights_stay_bit_identical_and_do_not_count_in_the_distance(squared):
    model = net()
    optimizer = LayerwiseOptimizer(optimizers.SGD(RATE), model, penalty=L2SP(0.5, new_strength=0.25, squared=squared))
    model.get_layer("low").kernel.assign_add(keras.ops.ones((4, 6)))  # It does not train.
    freeze(model, ["low", "norm"])
    weights = model.trainable_weights
    before, given = model.get_weights(), gradients(weights, 8)
    apply(optimizer, weights, given)
    assert difference(model.get_weights()[:4], before[:4]) == 0
    values = [value.astype("float64") for value in before[4:]]
    start = list(values)
    for step in given:
        norm = np.sqrt(sum(((now - old) ** 2).sum() for now, old in zip(values[:2], start)))
        factor = 0.5 if squared else 0.5 / max(norm, 1e-12)
        terms = [factor * (now - old) for now, old in zip(values[:2], start)] + [0.25 * now for now in values[2:]]
        values = [now - RATE * (gradient + term) for now, gradient, term in zip(values, step, terms)]
    assert difference(arrays(weights), values) < 1e-6


# Embeddings


@pytest.mark.parametrize("squared", [True, False])
def test_the_penalty_acts_on_all_rows_of_an_embedding(squared):
    keras.utils.set_random_seed(0)
    layers = [keras.Input((2,), dtype="int32"), keras.layers.Embedding(5, 3, name="table"), keras.layers.Flatten()]
    model = keras.Sequential([*layers, keras.layers.Dense(1, name="top")])
    optimizer = LayerwiseOptimizer(optimizers.SGD(0.5), model, penalty=L2SP(0.4, new_strength=0.0, squared=squared))
    model.compile(optimizer, "mse", run_eagerly=EAGER)
    table = model.get_layer("table").embeddings
    start = table.numpy()
    table.assign_add(np.array([[1.0], [1.0], [1.0], [0.0], [0.0]]) * np.ones((1, 3)))
    x = np.array([[0, 3]], "int32")
    model.train_on_batch(x, model.predict_on_batch(x))  # No error, so no gradient.
    rest = 1 - 0.5 * 0.4 / (1 if squared else 3)  # The distance is the root of nine ones.
    np.testing.assert_allclose(
        table.numpy() - start, rest * np.array([[1], [1], [1], [0], [0]]) + np.zeros(3), atol=1e-6
    )


# Configs


def test_a_config_holds_what_a_penalty_covers():
    for penalty in (L2SP(groups=("mid", -1), norms_and_biases=False), EWC(ones(net()), groups="pretrained")):
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(penalty))
        assert again.get_config() == penalty.get_config() and again.groups == penalty.groups
    assert L2SP().get_config()["groups"] == "pretrained" and L2SP().norms_and_biases


@pytest.mark.parametrize("name", ["squared", "unsquared", "EWC"])
def test_a_config_restores_a_penalty_without_its_fisher_information(name):
    penalty = PENALTIES[name]()
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(penalty))
    assert type(again) is type(penalty) and again.get_config() == penalty.get_config()
    assert again.get_config()["strength"] == 0.5
    assert name != "EWC" or again.fisher is None
