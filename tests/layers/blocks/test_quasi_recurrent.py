"""`QRNN` against its formula: windows, padding, reading backward, states, zoneout and weight drop."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.layers import QRNN, Dropout
from tests.errors import check_errors
from tests.helpers import run_layer_test

UNITS = 4
X = np.random.default_rng(0).normal(size=(3, 6, 2)).astype("float32")
LENGTHS = np.array([6, 3, 1])
MASK = (np.arange(6) < LENGTHS[:, None]).astype("int32")


def make(**options):
    layer = QRNN(UNITS, **options)
    layer.build(X.shape)
    for weight in layer.trainable_weights:
        weight.assign(np.random.default_rng(weight.shape[0]).normal(size=weight.shape))
    return layer


def reference(layer, x, kernel=None, kept=None, state=None):
    """The formula for one text: its outputs and its last state. `kept` is 1 where zoneout keeps the cell."""
    kernel = numpy_of(layer.kernel) if kernel is None else kernel
    before, cell = (np.zeros(2), np.zeros(UNITS)) if state is None else state
    outputs = []
    for t, now in enumerate(x.astype("float64")):
        seen = np.concatenate([now, before]) if layer.window == 2 else now
        z, f, o = np.split(seen @ kernel + numpy_of(layer.bias), 3)
        sigmoid = lambda values: 1 / (1 + np.exp(-values))  # noqa: E731
        new = (1 - sigmoid(f)) * ((1 - layer.zoneout) if kept is None else 1 - kept[t])
        cell = (1 - new) * cell + new * np.tanh(z)
        outputs.append(sigmoid(o) * cell)
        before = now
    return np.stack(outputs), before, cell


def test_it_is_a_well_behaved_layer():
    run_layer_test(QRNN, {"units": UNITS, "window": 2, "zoneout": 0.1}, X, {"padding_mask": MASK}, (3, 6, UNITS))


@pytest.mark.core
@pytest.mark.parametrize("options", [{"window": 1}, {"window": 2, "zoneout": 0.25}, {"window": 2, "reverse": True}])
def test_it_computes_its_formula_on_each_text_without_its_padding(options):
    layer = make(**options)
    outputs, before, cell = map(numpy_of, layer(X, padding_mask=MASK, return_state=True))
    for row, length in enumerate(LENGTHS):
        text = X[row, :length]
        expected, last, state = reference(layer, text[::-1] if layer.reverse else text)
        np.testing.assert_allclose(outputs[row, :length], expected[::-1] if layer.reverse else expected, atol=1e-5)
        np.testing.assert_allclose(cell[row], state, atol=1e-5)
        np.testing.assert_allclose(before[row], last if layer.window == 2 else np.zeros(0), atol=1e-6)
    np.testing.assert_array_equal(outputs[MASK == 0], 0)


@pytest.mark.parametrize("window", [1, 2])
def test_a_text_in_parts_has_the_outputs_of_the_whole_text(window):
    layer = make(window=window)
    whole = numpy_of(layer(X))
    state, found = None, []
    for part in (X[:, :3], X[:, 3:4], X[:, 4:]):
        outputs, *state = layer(part, initial_state=state, return_state=True)
        found.append(numpy_of(outputs))
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, atol=1e-6)
    # Padding leaves the state as it is, also that of a text which has ended before.
    _, *after = layer(X[:, :2], padding_mask=np.zeros((3, 2)), initial_state=state, return_state=True)
    for first, second in zip(state, after, strict=True):
        np.testing.assert_array_equal(numpy_of(first), numpy_of(second))


def test_padding_in_front_of_a_text_has_no_effect():
    layer = make()
    plain, *state = map(numpy_of, layer(X[:, :3], return_state=True))
    padded = np.concatenate([np.full((3, 2, 2), 9.0, "float32"), X[:, :3]], axis=1)
    mask = np.array([[0, 0, 1, 1, 1]] * 3)
    found, *after = map(numpy_of, layer(padded, padding_mask=mask, return_state=True))
    np.testing.assert_allclose(found[:, 2:], plain, atol=1e-6)
    for ours, theirs in zip(after, state, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_weight_drop_and_zoneout_are_drawn_anew_in_each_training_call():
    layer = make(weight_dropout=0.5, seed=7)
    dropout = Dropout(0.5, seed=7)
    for _ in range(2):
        mask = numpy_of(dropout(np.ones((4, 3 * UNITS), "float32"), training=True))
        outputs = numpy_of(layer(X, training=True))
        for row in range(3):
            expected, *_ = reference(layer, X[row], numpy_of(layer.kernel) * mask)
            np.testing.assert_allclose(outputs[row], expected, atol=1e-5)
    layer = make(zoneout=0.3, seed=7)
    random = keras.random.SeedGenerator(7)
    for _ in range(2):
        kept = numpy_of(keras.random.uniform((3, 6, UNITS), seed=random)) < 0.3
        assert 0.1 < kept.mean() < 0.6
        outputs = numpy_of(layer(X, training=True))
        for row in range(3):
            np.testing.assert_allclose(outputs[row], reference(layer, X[row], kept=kept[row])[0], atol=1e-5)


def test_it_learns_in_a_model_of_texts_of_any_length():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None, 2))
    model = keras.Model(inputs, keras.layers.Dense(1)(QRNN(8, zoneout=0.1, weight_dropout=0.1, seed=0)(inputs)[:, -1]))
    model.compile(keras.optimizers.Adam(0.05), loss="mse")
    losses = model.fit(X, X.sum(axis=(1, 2)), epochs=15, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: QRNN(4)(X[:, :0]), "at least one time step"),
)
