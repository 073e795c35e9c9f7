"""`ProjectedLSTM` against its formula and Keras's LSTM: padding, reading backward, states, saving, every backend."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.layers import ProjectedLSTM
from tests.helpers import EAGER, run_layer_test

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 6, 4)).astype("float32")
LENGTHS = np.array([6, 3, 1])
MASK = (np.arange(6) < LENGTHS[:, None]).astype("int32")
CASES = {
    "plain": {},
    "projected": {"projection_dim": 3},
    "clipped": {"projection_dim": 3, "cell_clip": 0.4, "projection_clip": 0.2},
    "backward": {"projection_dim": 3, "cell_clip": 0.4, "reverse": True},
}


def make(**options):
    layer = ProjectedLSTM(5, **options)
    layer.build(X.shape)
    for weight in layer.trainable_weights:
        weight.assign(np.random.default_rng(weight.shape[0]).normal(size=weight.shape) * 0.7)
    return layer


def reference(layer, x, length, state=None):
    """The formula for one text: its outputs and its last state."""
    kernel, bias, recurrent = map(numpy_of, (layer.kernel, layer.bias, layer.cell.recurrent_kernel))
    settings = layer.get_config()
    h, c = state if state is not None else (np.zeros(layer.cell.output_size), np.zeros(5))
    outputs = np.zeros((len(x), len(h)))
    steps = range(length)
    for t in reversed(steps) if settings["reverse"] else steps:
        i, f, g, o = np.split(x[t].astype("float64") @ kernel + h @ recurrent + bias, 4)
        sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
        c = sigmoid(f + settings["forget_bias"]) * c + sigmoid(i) * np.tanh(g)
        if settings["cell_clip"]:
            c = np.clip(c, -settings["cell_clip"], settings["cell_clip"])
        h = sigmoid(o) * np.tanh(c)
        if settings["projection_dim"]:
            h = h @ numpy_of(layer.cell.projection)
            if settings["projection_clip"]:
                h = np.clip(h, -settings["projection_clip"], settings["projection_clip"])
        outputs[t] = h
    return outputs, h, c


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.core if case in ("clipped", "backward") else ()) for case in CASES]
)
def test_it_computes_its_formula_on_each_text_without_its_padding(case):
    layer = make(**CASES[case])
    outputs, h, c = map(numpy_of, layer(X, padding_mask=MASK, return_state=True))
    for row, length in enumerate(LENGTHS):
        expected = reference(layer, X[row], length)
        for ours, theirs in zip((outputs[row], h[row], c[row]), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-6)
    assert not outputs[MASK == 0].any()
    np.testing.assert_allclose(numpy_of(make(**CASES[case])(X, padding_mask=MASK)), outputs, atol=1e-6)


def test_without_projection_and_clips_it_computes_and_learns_the_same_as_the_lstm_of_keras():
    theirs = keras.layers.LSTM(5, return_sequences=True, unit_forget_bias=False)
    theirs.build(X.shape)
    ours = make(forget_bias=0.0)
    for weight, source in zip(theirs.cell.weights, (ours.kernel, ours.cell.recurrent_kernel, ours.bias)):
        weight.assign(numpy_of(source))
    np.testing.assert_allclose(numpy_of(ours(X)), numpy_of(theirs(X)), atol=1e-6)
    trained = []
    for layer in (ours, theirs):
        model = keras.Sequential([keras.Input(X.shape[1:]), layer])
        model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=EAGER)
        model.fit(X, np.ones((3, 6, 5)), epochs=3, batch_size=3, shuffle=False, verbose=0)
        trained.append(sorted((numpy_of(weight) for weight in layer.trainable_weights), key=np.shape))
    for a, b in zip(*trained):
        np.testing.assert_allclose(a, b, atol=1e-5)


class PlainProducts(ProjectedLSTM):
    """The same layer with the gradients of the backend, which it otherwise has outside of training."""

    def call(self, inputs, padding_mask=None, initial_state=None, return_state=False, training=False):
        return super().call(inputs, padding_mask, initial_state, return_state)


def gradients(cls, options, dtype, traced=False):
    """The changes of all weights by one step of descent, also of those that make the inputs and the first state."""
    keras.utils.set_random_seed(0)
    inputs, mask = keras.Input((None, 4)), keras.Input((None,), dtype="int32")
    layer = cls(5, **options, dtype=dtype)
    first = [keras.layers.Dense(size)(inputs[:, 0]) for size in layer.cell.state_size]
    outputs = layer(keras.layers.Dense(4)(inputs), padding_mask=mask, initial_state=first, return_state=True)
    model = keras.Model([inputs, mask], [keras.layers.Activation("linear", dtype="float32")(x) for x in outputs])
    model.compile(keras.optimizers.SGD(1.0), ["mse"] * 3, run_eagerly=EAGER and not traced)
    before = [numpy_of(weight) for weight in model.trainable_weights]
    model.train_on_batch([X, MASK], [np.ones(x.shape) for x in model([X, MASK])])
    return {weight.path: numpy_of(weight) - value for weight, value in zip(model.trainable_weights, before)}


@pytest.mark.parametrize(
    ("case", "dtype", "traced"),
    [
        ("plain", "float32", False),
        ("clipped", "float32", False),
        pytest.param("backward", "float32", True, marks=pytest.mark.core),
        ("backward", "mixed_float16", False),
    ],
)
def test_its_gradients_are_those_of_plain_products(case, dtype, traced):
    ours = gradients(ProjectedLSTM, CASES[case], dtype, traced)
    for (path, gradient), expected in zip(
        ours.items(), gradients(PlainProducts, CASES[case], dtype).values(), strict=True
    ):
        assert np.abs(expected).max() > 1e-3, path
        np.testing.assert_allclose(gradient, expected, atol=1e-6 if dtype == "float32" else 1e-3, err_msg=path)


def twice_differentiated(function, x):
    """The gradient of the squared gradient's sum."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.grad(lambda x: (jax.grad(function)(x) ** 2).sum())(x)
    if keras.backend.backend() == "torch":
        import torch

        x = torch.tensor(x, requires_grad=True)
        (gradient,) = torch.autograd.grad(function(x), x, create_graph=True)
        return torch.autograd.grad((gradient**2).sum(), x)[0]
    import tensorflow as tf

    x = tf.constant(x)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            value = function(x)
        squares = tf.reduce_sum(inner.gradient(value, x) ** 2)
    return outer.gradient(squares, x)


@pytest.mark.core
def test_its_second_derivatives_equal_those_of_plain_products():
    layer = make(**CASES["clipped"])
    ours, theirs = (
        numpy_of(twice_differentiated(lambda x, training=training: keras.ops.sum(layer(x, training=training) ** 2), X))
        for training in (True, False)
    )
    assert np.abs(theirs).max() > 1e-3
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_it_continues_from_a_given_state():
    layer = make(projection_dim=3)
    whole = layer(X, return_state=True)
    first = layer(X[:, :2], return_state=True)
    rest = layer(X[:, 2:], initial_state=list(first[1:]), return_state=True)
    np.testing.assert_allclose(numpy_of(rest[0]), numpy_of(whole[0])[:, 2:], atol=1e-6)
    np.testing.assert_allclose(numpy_of(rest[2]), numpy_of(whole[2]), atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_each_text_continues_from_its_own_state_whatever_its_padding(reverse):
    layer = make(projection_dim=3, reverse=reverse)
    state, kept = None, dict.fromkeys(range(3))
    for lengths in (LENGTHS, LENGTHS[::-1]):
        mask = (np.arange(6) < lengths[:, None]).astype("int32")
        outputs, *state = layer(X, padding_mask=mask, initial_state=state, return_state=True)
        for row, length in enumerate(lengths):
            expected, *kept[row] = reference(layer, X[row], length, kept[row])
            np.testing.assert_allclose(numpy_of(outputs)[row], expected, atol=2e-6)


@pytest.mark.parametrize("case", ["clipped", "backward"])
def test_it_is_a_well_behaved_layer(case):
    run_layer_test(ProjectedLSTM, {"units": 5, **CASES[case]}, X, {"padding_mask": MASK}, (3, 6, 3))


def test_inputs_without_time_steps_are_an_error_and_texts_of_padding_alone_give_zeros():
    layer = make(projection_dim=3)
    with pytest.raises(ValueError, match=r"Inputs must have at least one time step.* Received: inputs=\(2"):
        layer(X[:2, :0])
    for value in layer(X, padding_mask=np.zeros(MASK.shape), return_state=True):
        assert not numpy_of(value).any()


def test_a_saved_model_has_gradients(tmp_path):
    import tensorflow as tf

    model = keras.Sequential([keras.Input((None, 4)), make(**CASES["clipped"])])
    model.export(tmp_path / "saved", verbose=False)
    x, saved = tf.constant(X), tf.saved_model.load(tmp_path / "saved")
    gradients = []
    for function in (saved.serve, model):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = function(x)
        gradients.append(tape.gradient(outputs, x).numpy())
    assert np.abs(gradients[1]).max() > 1e-3
    np.testing.assert_allclose(*gradients, atol=1e-5)
