"""Subclassed models with modules keep their heads and their optimizer's state in `.keras` files, or fail to load."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubEncoder, HubError, HubLayer
from tests.hub import saved_modules as modules
from tests.hub.saved_modules import LABELS, TEXTS


@keras.saving.register_keras_serializable("tests")
class Classifier(keras.Model):
    """A module and a dense layer. `kind` says how the module is called."""

    def __init__(self, handle, kind="layer", **options):
        super().__init__(**options)
        self.handle, self.kind = handle, kind
        if kind == "encoder":
            self.module = HubEncoder(handle)
        elif kind == "nested":
            self.module = keras.Sequential([HubLayer(handle, trainable=True), keras.layers.Dense(3)])
        else:
            self.module = HubLayer(handle, trainable=True)
        self.head = keras.layers.Dense(2)

    def call(self, inputs, training=None):
        inputs = tf.RaggedTensor.from_tensor(inputs) if self.kind == "ragged" else inputs
        outputs = self.module(inputs, training=training)
        return self.head(outputs["pooled_output"] if isinstance(outputs, dict) else outputs)

    def get_config(self):
        return {**super().get_config(), "handle": self.handle, "kind": self.kind}


def trained(model, inputs):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, run_eagerly=True)
    model.fit(inputs, LABELS, epochs=2, verbose=0)
    return model


def assert_same(loaded, model, inputs):
    np.testing.assert_array_equal(loaded(inputs), model(inputs))
    for ours, theirs in ((loaded.weights, model.weights), (loaded.optimizer.variables, model.optimizer.variables)):
        for weight, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(weight, expected)
    assert loaded.optimizer.iterations == 2


@pytest.mark.parametrize("kind", ["layer", "nested", "encoder"])
def test_a_subclassed_model_with_a_module_of_strings_is_loaded_with_its_head(kind, text_module, tmp_path):
    inputs = tf.constant(TEXTS)
    model = trained(Classifier(str(text_module), kind), inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    assert_same(loaded, model, inputs)
    loaded.fit(inputs, LABELS, verbose=0)


def test_a_subclassed_model_with_a_module_of_ids_is_loaded_with_its_head(bert_module, tmp_path):
    inputs = modules.bert_inputs()
    model = trained(Classifier(str(bert_module)), inputs)
    model.save(tmp_path / "model.keras")
    assert_same(keras.saving.load_model(tmp_path / "model.keras", safe_mode=False), model, inputs)


def test_a_model_that_keras_cannot_rebuild_is_not_loaded_without_its_head(tmp_path):
    def call(ids):
        return tf.cast(ids.to_tensor(shape=[None, 3]), tf.float32)

    module = modules.save(tmp_path / "module", call, tf.RaggedTensorSpec([None, None], tf.int32))
    model = Classifier(str(module), "ragged")
    model(np.ones((2, 3), "int32"))
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="Keras cannot rebuild the model with this layer.*`build_from_config`"):
        keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)


def test_inputs_of_another_dtype_are_an_error_outside_of_loading(text_module):
    model = Classifier(str(text_module))
    with pytest.raises(HubError, match=r"Expected string \[None\]. Received: float32 \[None\]"):
        model(keras.Input(()))
