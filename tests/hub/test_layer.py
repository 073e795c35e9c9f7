"""`HubLayer` in each kind of Keras model, for each kind of input and output: training, freezing and gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubLayer
from tests.hub import saved_modules as modules
from tests.hub.saved_modules import BERT_INPUTS, LABELS, TEXTS


class Head(keras.layers.Layer):
    """A dense layer on the output of a module: a vector, a dict with a vector, or a list of states."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def build(self, shape):
        self.dense.build((None, 8 if isinstance(shape, (dict, list)) else shape[-1]))

    def call(self, outputs):
        outputs = outputs["pooled_output"] if isinstance(outputs, dict) else outputs
        return self.dense(keras.ops.mean(outputs[-1], 1) if isinstance(outputs, list) else outputs)


class Subclassed(keras.Model):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, Head()

    def call(self, inputs, training=None):  # Keras passes `training` to the layers
        return self.head(self.layer(inputs))


def functional(layer, inputs):
    if isinstance(inputs, dict):
        inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in BERT_INPUTS}
    else:
        inputs = keras.Input((), dtype="string")
    return keras.Model(inputs, Head()(layer(inputs)))


def sequential(layer, inputs):
    return keras.Sequential([keras.Input((), dtype="string"), layer, Head()])


def built_later(layer, inputs):
    return keras.Sequential([layer, Head()])


def subclassed(layer, inputs):
    return Subclassed(layer)


CASES = {
    "functional, strings, one output": (functional, "text_module", {}),
    "sequential, strings, one output": (sequential, "text_module", {}),
    "sequential built later, strings, one output": (built_later, "text_module", {}),
    "subclassed, strings, one output": (subclassed, "text_module", {}),
    "functional, dict, dict": (functional, "bert_module", {}),
    "functional, dict, list": (functional, "bert_module", {"output_key": "encoder_outputs"}),
    "subclassed, dict, list": (subclassed, "bert_module", {"output_key": "encoder_outputs"}),
    "functional, dict, one output": (functional, "bert_module", {"output_key": "pooled_output"}),
}


@pytest.fixture(params=CASES)
def case(request):
    """A module's folder, inputs, options of the layer, and a function that builds the model."""
    build, name, options = CASES[request.param]
    inputs = tf.constant(TEXTS) if name == "text_module" else modules.bert_inputs()
    return request.getfixturevalue(name), inputs, options, build


def compiled(model):
    """Runs in a graph only if the model is known by its calls alone. One step of the others is cheaper without it."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, run_eagerly=not isinstance(model, Subclassed))
    return model


@pytest.mark.report(
    "Keras 3 refuses a layer with a TF Hub module, or does not train it.",
    "hub#920",
    "hub#930",
    "tensorflow#65419",
    "tensorflow#63849",
    "tensorflow#63085",
    "tensorflow#76042",
)
def test_trainable_variables_change_and_frozen_ones_stay_bit_identical(case):
    folder, inputs, options, build = case
    layer = HubLayer(folder, trainable=True, **options)
    layer.weights[1].trainable = False
    before = {weight.path.removeprefix(f"{layer.name}/"): weight.numpy() for weight in layer.weights}
    compiled(build(layer, inputs)).fit(inputs, LABELS, verbose=0)
    moved = {name for weight, (name, old) in zip(layer.weights, before.items()) if (weight.numpy() != old).any()}
    expected = {
        "text_module": {"embeddings/words", "layer_0/norm/moving_mean"},
        "bert_module": {"word_embeddings/embeddings", *(f"transformer/layer_{i}/dense/kernel" for i in range(2))},
    }
    pooler = {"pooler_transform/kernel"} if options.get("output_key") != "encoder_outputs" else set()
    assert moved == (expected["text_module"] if "layer_0/dense/kernel" in before else expected["bert_module"] | pooler)


def test_a_frozen_layer_stays_bit_identical_while_the_head_learns(case):
    folder, inputs, options, build = case
    layer = HubLayer(folder, **options)
    model = build(layer, inputs)
    before, outputs = layer.get_weights(), model(inputs)
    compiled(model).train_on_batch(inputs, LABELS)
    for weight, old in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)
    assert np.abs(model(inputs) - outputs).max() > 1e-3


def test_outputs_and_gradients_are_those_of_a_tape_on_the_module(case):
    folder, inputs, options, build = case
    raw, layer = tf.saved_model.load(str(folder)), HubLayer(folder, trainable=True, **options)
    model = build(layer, inputs)
    model(inputs)

    def of_module(inputs):
        outputs = raw(inputs)
        return model.layers[-1](outputs[options["output_key"]] if options else outputs)

    expected, expected_gradients = gradients(of_module, inputs, raw.trainable_variables)
    outputs, found = gradients(model, inputs, [weight.value for weight in layer.trainable_weights])
    np.testing.assert_array_equal(outputs, expected)
    assert len(found) == len(expected_gradients) > 1
    for weight, ours, theirs in zip(layer.trainable_weights, found, expected_gradients, strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_array_equal(tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs))
            assert tf.reduce_any(tf.convert_to_tensor(theirs) != 0) or "pooler" in weight.path


def gradients(function, inputs, weights):
    with tf.GradientTape() as tape:
        outputs = function(inputs)
        loss = tf.reduce_sum(outputs**2)
    return outputs, tape.gradient(loss, weights)
