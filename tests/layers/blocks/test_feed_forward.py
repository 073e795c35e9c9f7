"""`FeedForward` and `GatedFeedForward` against their equations."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import BottleneckAdapter, FeedForward, GatedFeedForward
from tests.helpers import run_layer_test

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


def dense(x, layer):
    kernel, *bias = layer.get_weights()
    return x @ kernel + sum(bias)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("cls", [FeedForward, GatedFeedForward])
def test_they_equal_their_equations(cls, use_bias):
    layer = cls(6, "relu", use_bias=use_bias, kernel_initializer=keras.initializers.RandomNormal(stddev=1.0))
    layer(X)
    layer.set_weights([np.random.default_rng(1).normal(size=weight.shape) for weight in layer.weights])
    if cls is FeedForward:
        expected = dense(np.maximum(dense(X, layer.inner), 0), layer.outer)
    else:
        expected = dense(np.maximum(dense(X, layer.gate), 0) * dense(X, layer.inner), layer.outer)
    np.testing.assert_allclose(layer(X), expected, atol=1e-5)
    assert all((part.bias is not None) == use_bias for part in (layer.inner, layer.outer))


@pytest.mark.parametrize("cls", [FeedForward, GatedFeedForward])
def test_they_are_well_behaved_layers(cls):
    run_layer_test(cls, {"intermediate_dim": 6, "activation": "gelu_tanh"}, X, output_shape=X.shape)


def test_the_kernels_start_from_different_numbers():
    layer = GatedFeedForward(4, kernel_initializer=keras.initializers.RandomNormal(seed=None))
    layer(X)
    kernels = [layer.gate.kernel.numpy(), layer.inner.kernel.numpy(), layer.outer.kernel.numpy()]
    assert (kernels[0] != kernels[1]).any() and (kernels[1] != kernels[2].T).any()


@pytest.mark.parametrize("traced", [False, True])
def test_exact_gelu_has_the_outputs_and_gradients_of_keras_within_a_tape(traced):
    import tensorflow as tf

    layer = FeedForward(6)
    layer.build(X.shape)

    def gradients(function):
        with tf.GradientTape() as tape:
            outputs = function(4 * X)
            loss = tf.reduce_sum(outputs**2)
        return [outputs, *tape.gradient(loss, [weight.value for weight in layer.weights])]

    run = tf.function(gradients, autograph=False) if traced else gradients
    theirs = run(lambda x: layer.outer(keras.activations.gelu(layer.inner(x))))
    for ours, expected in zip(run(layer), theirs, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("cls", [FeedForward, GatedFeedForward])
def test_operations_of_the_activation_come_after_the_matmul_in_the_alphabet(cls):
    """TensorFlow fuses the tanh approximation of GELU with a matmul only in this case."""
    import tensorflow as tf

    layer = cls(6, "gelu_tanh")
    layer.build(X.shape)
    names = [operation.name for operation in tf.function(layer).get_concrete_function(X).graph.get_operations()]
    activation = [name for name in names if "Gelu" in name]
    matmul = [name for name in names if "BiasAdd" in name or "MatMul" in name]
    before = [name for name in matmul if "outer" not in name]
    assert activation and before and max(before) < min(activation)


@pytest.mark.core
@pytest.mark.parametrize(
    "make", [lambda: FeedForward(3), lambda: GatedFeedForward(3, activation="silu"), lambda: BottleneckAdapter(2)]
)
def test_activations_can_be_computed_again_in_the_backward_pass(make):
    x = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
    with keras.RematScope("activations"):
        layer = make()
    function = layer.activation
    outputs = keras.ops.convert_to_numpy(layer(x))
    plain = make()
    plain.build(x.shape)
    plain.set_weights(layer.get_weights())
    np.testing.assert_allclose(outputs, keras.ops.convert_to_numpy(plain(x)), atol=1e-6)
    assert layer.activation is function
    assert layer.get_config()["activation"] == keras.activations.serialize(function)
