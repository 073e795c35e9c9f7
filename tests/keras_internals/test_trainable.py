"""Flags of weights and of the layers around them: exactly the given weights train, and all flags can be restored."""

import keras
import numpy as np
import pytest

from keras_transfer.keras_internals.trainable import could_train, layers_within, remember_trainable, set_trainable
from tests.tasks import tiny


def with_norm():
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization(name="norm")(keras.layers.Dense(3, name="low")(inputs))
    return keras.Model(inputs, keras.layers.Dense(2, name="head")(x))


def ids(weights):
    return [id(weight) for weight in weights]


def flags(model):
    """The flags of all layers and weights, which `remember_trainable` restores."""
    layers = [layer for layer, _ in layers_within(model)]
    return [layer.trainable for layer in layers], [[weight.trainable for weight in layer.weights] for layer in layers]


def chosen(model, *parts):
    return [weight for weight in could_train(model) if any(part in weight.path for part in parts)]


@pytest.mark.parametrize(
    "parts", [(), ("block_0",), ("bias",), ("attention/", "logits"), ("/",), ("block_1/feed_forward/inner/kernel",)]
)
def test_exactly_the_given_weights_and_their_layers_train(parts):
    model = tiny.two_blocks()
    weights = chosen(model, *parts)
    assert bool(weights) == bool(parts)
    assert set_trainable(model, weights) is model
    assert ids(model.trainable_weights) == ids(weights)
    assert ids(w for w in model.weights if w.trainable) == ids(weights)
    for layer, _ in layers_within(model):
        if layer is not model and layer.weights and layer is not model.encoder:
            assert layer.trainable == any(weight.trainable for weight in layer.weights), layer.name


def test_weights_frozen_by_hand_can_be_thawed():
    model = tiny.two_blocks()
    model.get_layer("block_0").trainable = False
    model.trainable = False
    set_trainable(model, could_train(model))
    assert len(model.trainable_weights) == len(model.weights)
    assert model.trainable and model.get_layer("block_0").trainable


def test_a_frozen_batch_normalization_does_not_update_its_statistics():
    model = with_norm()
    inputs = np.random.default_rng(0).normal(size=(8, 3)).astype("float32") + 5
    start = model.get_layer("norm").moving_mean.numpy()
    set_trainable(model, chosen(model, "head"))
    assert not model.get_layer("norm").trainable
    model(inputs, training=True)
    np.testing.assert_array_equal(model.get_layer("norm").moving_mean.numpy(), start)
    set_trainable(model, chosen(model, "norm"))
    model(inputs, training=True)
    assert (model.get_layer("norm").moving_mean.numpy() != start).all()


def test_a_layer_without_trainable_weights_keeps_its_flag():
    inputs = keras.Input((3,))
    counts = keras.layers.BatchNormalization(center=False, scale=False, name="counts")
    rests = keras.layers.BatchNormalization(center=False, scale=False, name="rests", trainable=False)
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(rests(counts(inputs))))
    for weights in (chosen(model, "head"), []):
        set_trainable(model, weights)
        assert counts.trainable and not rests.trainable


def test_could_train_returns_all_but_statistics_and_changes_nothing():
    model = with_norm()
    expected = ["low/kernel", "low/bias", "norm/gamma", "norm/beta", "head/kernel", "head/bias"]
    model.get_layer("norm").trainable = False
    model.get_layer("low").kernel.trainable = False
    before = flags(model)
    assert [weight.path for weight in could_train(model)] == expected
    assert flags(model) == before
    model.trainable = False
    assert [weight.path for weight in could_train(model)] == expected
    assert not model.trainable and model.trainable_weights == []


def test_remembered_flags_are_restored_after_any_change():
    model = tiny.two_blocks()
    set_trainable(model, chosen(model, "block_1", "logits/bias"))
    model.get_layer("block_1").trainable_weights[0].trainable = False
    before, restore = flags(model), remember_trainable(model)
    assert before != flags(set_trainable(model, could_train(model)))
    restore()
    assert flags(model) == before
    model.trainable = False
    restore()
    assert flags(model) == before


def test_weights_outside_the_model_are_left_unchanged():
    encoder = tiny.encoder()
    from keras_transfer.tasks import TextClassifier

    model = TextClassifier(encoder, num_classes=2, pooling="mean")  # does not use the encoder's pooler
    assert not any("pooler" in weight.path for weight in model.weights)
    set_trainable(model, [])
    assert all(weight.trainable for weight in encoder.pooler.weights)
    encoder.pooler.bias.trainable = False
    set_trainable(model, could_train(model))
    assert [weight.trainable for weight in encoder.pooler.weights] == [True, False]


class Nest(keras.layers.Layer):
    """Holds layers in a dict, a list and a tuple."""

    def __init__(self):
        super().__init__()
        first, second, third = (keras.layers.Dense(2, name=name) for name in ("first", "second", "third"))
        self.parts = {"a": first, "b": [second, (third,)]}

    def build(self, shape):
        for layer, _ in layers_within(self):
            if layer is not self:
                layer.build(shape)

    def call(self, x):
        return self.parts["b"][1][0](self.parts["b"][0](self.parts["a"](x)))


def test_layers_are_found_in_nested_attributes():
    nest = Nest()
    nest.build((None, 2))
    assert [(layer.name, around) for layer, around in layers_within(nest)][1:] == [
        *[("first", nest), ("second", nest), ("third", nest)]
    ]
    set_trainable(nest, chosen(nest, "second"))
    assert [layer.trainable for layer, _ in layers_within(nest)] == [True, False, True, False]
