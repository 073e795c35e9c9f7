"""Activations by name, and back into a config."""

import keras
import numpy as np
import pytest

from keras_transfer.layers.basic.activations import activate, gelu_tanh, get_activation

X = np.linspace(-3, 3, 13).astype("float32")


def test_gelu_is_exact():
    from math import erf

    expected = [x * (1 + erf(x / 2**0.5)) / 2 for x in X]
    np.testing.assert_allclose(get_activation("gelu")(X), expected, atol=1e-6)


def test_gelu_tanh_is_the_approximation():
    expected = X / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (X + 0.044715 * X**3)))
    np.testing.assert_allclose(get_activation("gelu_tanh")(X), expected, atol=1e-6)


def test_a_function_is_returned_unchanged():
    assert get_activation(gelu_tanh) is gelu_tanh


def test_names_of_keras_give_the_functions_of_keras():
    assert get_activation("relu") is keras.activations.relu


def test_an_unknown_name_is_an_error():
    with pytest.raises(ValueError, match="gelu_typo"):
        get_activation("gelu_typo")


@pytest.mark.parametrize("traced", [False, True])
def test_the_second_derivative_of_gelu_is_that_of_keras(traced):
    tf = pytest.importorskip("tensorflow")

    def curvature(function):
        x = tf.constant(X)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                outputs = function(x)
            slope = inner.gradient(outputs, x)
        return outer.gradient(slope, x)

    run = tf.function(curvature, autograph=False) if traced else curvature
    found, expected = run(lambda x: activate(x, keras.activations.gelu)), run(keras.activations.gelu)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_gelu_of_a_function_that_was_traced_outside_a_tape_has_the_gradient_of_keras_within_one():
    tf = pytest.importorskip("tensorflow")
    x, function = tf.constant(X), tf.function(lambda x: activate(x, keras.activations.gelu), autograph=False)
    function(x)
    found = []
    for each in (function, keras.activations.gelu):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = each(x)
        found.append(tape.gradient(outputs, x))
    np.testing.assert_allclose(*found, atol=1e-6)
    assert function.experimental_get_tracing_count() == 1


def test_in_half_precision_gelu_and_its_slope_are_those_of_float32_rounded_once():
    tf = pytest.importorskip("tensorflow")

    def train(dtype):
        x = tf.cast(tf.cast(X, "bfloat16"), dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = activate(x, keras.activations.gelu)
        return tf.cast(outputs, "bfloat16"), tf.cast(tape.gradient(outputs, x), "bfloat16")

    for found, expected in zip(train("bfloat16"), train("float32"), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
