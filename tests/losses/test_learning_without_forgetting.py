"""Learning without forgetting: the penalty against its formula, in `fit()`, and its effect on forgetting."""

import keras
import numpy as np
import pytest

from keras_transfer.losses import LearningWithoutForgettingLoss
from tests.helpers import save_and_load
from tests.tasks import tiny


def softmax(logits):
    logits = np.asarray(logits, "float64")
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def logits(seed, *shape):
    return (3 * np.random.default_rng(seed).normal(size=shape)).astype("float32")


def number(x):
    return float(keras.ops.convert_to_numpy(x))


def gradient(penalty, before, now, weights=None):
    """d loss / d outputs, measured as the step of SGD on a bias that is added to the outputs."""
    inputs = keras.Input(now.shape[1:])
    bias = keras.layers.EinsumDense("...c,cd->...d", now.shape[-1], bias_axes="d")
    model = keras.Model(inputs, bias(inputs))
    rows = []
    for i in range(len(now)):  # The loss is a mean over rows, so each row is a batch.
        bias.set_weights([np.eye(now.shape[-1]), np.zeros(now.shape[-1])])
        model.compile(keras.optimizers.SGD(1.0), penalty)
        model.train_on_batch(now[i : i + 1], before[i : i + 1])
        rows.append(-np.array(bias.get_weights()[1]))
    return np.stack(rows)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_penalty_is_the_cross_entropy_of_the_paper_minus_the_entropy_of_the_recorded_logits(temperature):
    before, now = logits(0, 5, 4), logits(1, 5, 4)
    p, q = softmax(before / temperature), softmax(now / temperature)
    expected = -np.sum(p * np.log(q), axis=1) + np.sum(p * np.log(p), axis=1)
    penalty = LearningWithoutForgettingLoss(temperature)
    assert number(penalty(before, now)) == pytest.approx(expected.mean(), rel=1e-5)
    # Equations 2 and 3 in their own form: normalized probabilities to the power of 1 / T.
    old, new = softmax(before) ** (1 / temperature), softmax(now) ** (1 / temperature)
    old, new = old / old.sum(axis=1, keepdims=True), new / new.sum(axis=1, keepdims=True)
    constant = -np.sum(old * np.log(old), axis=1).mean()
    assert number(penalty(before, now)) + constant == pytest.approx(-np.sum(old * np.log(new), axis=1).mean(), rel=1e-5)


@pytest.mark.core
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_gradient_is_the_difference_of_the_probabilities(temperature):
    before, now = logits(0, 3, 4), logits(1, 3, 4)
    expected = (softmax(now / temperature) - softmax(before / temperature)) / temperature
    np.testing.assert_allclose(gradient(LearningWithoutForgettingLoss(temperature), before, now), expected, atol=1e-5)


def test_unchanged_logits_have_no_penalty_and_no_gradient():
    before = logits(0, 3, 4)
    assert number(LearningWithoutForgettingLoss()(before, before)) == 0
    np.testing.assert_allclose(gradient(LearningWithoutForgettingLoss(), before, before), np.zeros((3, 4)), atol=1e-7)
    shifted = before + 5  # The probabilities are the same.
    assert number(LearningWithoutForgettingLoss()(before, shifted)) == pytest.approx(0, abs=1e-6)


def test_the_penalty_of_extreme_logits_is_finite():
    before = np.array([[80.0, -80.0, 0.0], [0.0, 1.0, -1e9]], "float32")
    now = np.array([[-80.0, 80.0, 0.0], [1.0, 0.0, -1e9]], "float32")
    losses = LearningWithoutForgettingLoss(1.0, reduction="none")(before, now)
    p, q = softmax(before[1, :2]), softmax(now[1, :2])
    expected = [160.0, np.sum(p * np.log(p / q))]
    np.testing.assert_allclose(keras.ops.convert_to_numpy(losses), expected, rtol=1e-5)


def test_sequences_have_a_penalty_for_each_position_and_weights_exclude_padding():
    before, now = logits(0, 2, 3, 4), logits(1, 2, 3, 4)
    p, q = softmax(before / 2), softmax(now / 2)
    each = np.sum(p * np.log(p / q), axis=-1)
    real = np.array([[1, 1, 0], [1, 0, 0]], "float32")
    penalty = LearningWithoutForgettingLoss(reduction="sum")
    assert number(penalty(before, now, sample_weight=real)) == pytest.approx((each * real).sum(), rel=1e-5)


def test_the_penalty_is_computed_in_float32():
    before, now = logits(0, 5, 4), logits(1, 5, 4)
    half = keras.ops.cast(now, "float16")
    value = LearningWithoutForgettingLoss()(before, half)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    exact = number(LearningWithoutForgettingLoss()(before, keras.ops.convert_to_numpy(half).astype("float32")))
    assert number(value) == pytest.approx(exact, rel=1e-6)


# === `fit()` ===


LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
X = np.random.default_rng(0).normal(size=(200, 6)).astype("float32")


def labels(seed):
    """A linear task of three classes."""
    return (X @ np.random.default_rng(seed).normal(size=(6, 3))).argmax(axis=1)


def steps(number, *arrays):
    """Repeats each array, so that one epoch in batches of 200 has this many steps. Epochs are expensive."""
    return [np.concatenate(number * [array]) for array in arrays]


@pytest.fixture(scope="module")
def learned():
    """A model that has learned the first of two tasks, its weights and its predictions."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(12, activation="tanh", name="hidden")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3, name="logits")(hidden))
    model.compile(keras.optimizers.Adam(0.05), LOSS)
    model.fit(*steps(60, X, labels(1)), batch_size=200, shuffle=False, verbose=0)
    before = model.predict(X, verbose=0)
    assert np.mean(before.argmax(axis=1) == labels(1)) > 0.97
    return model, model.get_weights(), before


@pytest.mark.slow
def test_the_same_outputs_learn_new_labels_and_change_less(learned):
    model, start, before = learned
    both = keras.Model(model.input, {"labels": model.output, "before": model.output})
    agreements, accuracies = [], []
    for weight in (0.0, 10.0):
        model.set_weights(start)
        losses, weights = {"labels": LOSS, "before": LearningWithoutForgettingLoss()}, {"labels": 1.0, "before": weight}
        both.compile(keras.optimizers.Adam(0.05), losses, weights, metrics={"labels": "accuracy"})
        x, targets, recorded = steps(50, X, labels(2), before)
        both.fit(x, {"labels": targets, "before": recorded}, batch_size=200, shuffle=False, verbose=0)
        now = model.predict(X, verbose=0).argmax(axis=1)
        agreements.append(np.mean(now == labels(1)))
        accuracies.append(np.mean(now == labels(2)))
        results = both.evaluate(X, {"labels": labels(2), "before": before}, verbose=0, return_dict=True)
        assert results["labels_accuracy"] == pytest.approx(accuracies[-1])
    assert agreements[0] < 0.65 and agreements[1] > 0.95
    assert accuracies[0] > 0.95 and accuracies[1] < 0.65  # The cost for the new labels.


def test_the_head_of_a_new_task_learns_and_the_old_one_forgets_less(learned):
    model, start, before = learned
    old, new = [], []
    for weight in (0.0, 1.0):
        model.set_weights(start)
        keras.utils.set_random_seed(0)
        head = keras.layers.Dense(3, name="new_logits")(model.get_layer("hidden").output)
        both = keras.Model(model.input, {"new": head, "before": model.output})
        losses, weights = {"new": LOSS, "before": LearningWithoutForgettingLoss()}, {"new": 1.0, "before": weight}
        both.compile(keras.optimizers.Adam(0.05), losses, weights)
        x, targets, recorded = steps(50, X, labels(2), before)
        both.fit(x, {"new": targets, "before": recorded}, batch_size=200, shuffle=False, verbose=0)
        now = both.predict(X, verbose=0)
        old.append(np.mean(now["before"].argmax(axis=1) == labels(1)))
        new.append(np.mean(now["new"].argmax(axis=1) == labels(2)))
    assert old[0] < 0.85 and old[1] > 0.97
    assert min(new) > 0.97


@pytest.mark.slow
def test_a_task_learns_recorded_logits_from_raw_text():
    texts, _ = tiny.examples(16)
    model = tiny.classifier()
    recorded = np.tile([[3.0, -1.0]], (16, 1))
    model.compile(keras.optimizers.Adam(1e-2), LearningWithoutForgettingLoss(1.0), metrics=None)
    losses = model.fit(texts, recorded, epochs=6, verbose=0).history["loss"]
    assert losses[-1] < 0.6 * losses[0]
    assert (model.predict(texts, verbose=0).argmax(axis=1) == 0).all()


def test_the_penalty_survives_a_file():
    penalty = LearningWithoutForgettingLoss(3.0, reduction="sum", name="near")
    assert penalty.get_config() == {"temperature": 3.0, "reduction": "sum", "name": "near"}
    assert LearningWithoutForgettingLoss.from_config(penalty.get_config()).get_config() == penalty.get_config()
    inputs = keras.Input((4,))
    outputs = keras.layers.Dense(3)(inputs)
    model = keras.Model(inputs, {"labels": outputs, "before": outputs})
    model.compile("sgd", {"labels": LOSS, "before": penalty}, {"labels": 1.0, "before": 0.5})
    x, y = logits(0, 8, 4), {"labels": np.arange(8) % 3, "before": logits(1, 8, 3)}
    expected = model.evaluate(x, y, verbose=0)
    again = save_and_load(model)
    assert again.loss["before"].get_config() == penalty.get_config()
    assert again.evaluate(x, y, verbose=0) == pytest.approx(expected)


# === Mistakes ===


def test_labels_instead_of_recorded_logits_are_an_error():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", LearningWithoutForgettingLoss())
    with pytest.raises(
        ValueError, match="recorded logits of the same shape as the outputs.*targets of shape \\(None,\\)|\\(8,\\)"
    ):
        model.fit(logits(0, 8, 4), np.arange(8) % 3, verbose=0)
    with pytest.raises(ValueError, match="targets of shape .*2\\), outputs of shape .*3\\)"):
        model.fit(logits(0, 8, 4), logits(0, 8, 2), verbose=0)


def test_logits_of_a_single_class_are_an_error():
    with pytest.raises(ValueError, match=r"at least two classes.*'mse'.* Received: y_pred=\(8, 1\)"):
        LearningWithoutForgettingLoss()(logits(0, 8, 1), logits(1, 8, 1))
    with pytest.raises(ValueError, match="at least two classes"):
        LearningWithoutForgettingLoss()(logits(0, 8), logits(1, 8))
