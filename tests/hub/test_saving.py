"""Modules in `.keras`, `.weights.h5` and exports, the names of their weights, and exports as modules."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubError, HubLayer, moved_handles
from tests.hub import saved_modules as modules

TEXTS = tf.constant(modules.TEXTS)


def text_model(module, **options):
    inputs = keras.Input((), dtype="string")
    model = keras.Model(inputs, keras.layers.Dense(2)(HubLayer(module, trainable=True, **options)(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, run_eagerly=True)
    return model


@pytest.fixture(scope="module")
def trained(text_module):
    model = text_model(text_module)
    model.fit(TEXTS, modules.LABELS, epochs=3, verbose=0)
    return model


# Names


def test_weights_are_the_module_s_variables_with_its_names(bert_module):
    layer = HubLayer(bert_module)
    assert [weight.path for weight in layer.weights] == [
        f"{layer.name}/{name}"
        for name in (
            "word_embeddings/embeddings",
            "type_embeddings/embeddings",
            "transformer/layer_0/dense/kernel",
            "transformer/layer_1/dense/kernel",
            "pooler_transform/kernel",
        )
    ]
    for weight, variable in zip(layer.weights, layer.resolved_object.variables, strict=True):
        assert weight.value is variable


def test_variables_with_the_same_name_are_numbered_and_strings_are_not_weights(tmp_path):
    kernels = [tf.Variable([i], name=name) for i, name in enumerate(("kernel", "kernel", "kernel_1", "a/kernel"))]
    spec, names = tf.TensorSpec([None]), tf.Variable(["a"], name="names")
    folder = modules.save(tmp_path / "module", lambda x: x, spec, trainable=kernels, others=[names])
    layer = HubLayer(folder, name="module")
    paths = [weight.path.removeprefix("module/") for weight in layer.weights]
    assert paths == ["kernel", "kernel_1", "kernel_1_1", "a/kernel"]
    keras.Sequential([keras.Input(()), layer]).save(tmp_path / "model.keras")


def test_names_do_not_depend_on_where_the_layer_is_created(linear_module):
    class Outer(keras.layers.Layer):
        def build(self, shape):
            self.module = HubLayer(linear_module, trainable=True, name="module")

        def call(self, inputs):
            return self.module(inputs)

    model = keras.Sequential([Outer(name="outer")], name="model")
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 1)), np.ones((2, 1)), verbose=0)
    assert [weight.path for weight in model.weights] == ["model/outer/module/kernel", "model/outer/module/bias"]


def test_the_layer_groups_follow_from_the_names(tmp_path):
    weights = {
        "pooler": ["pooler_transform/kernel", "bert/pooler/dense/kernel"],
        "layer_10": ["encoder/Layer_10/kernel"],
        "layer_2": [
            "encoder/layer_2/kernel",
            "encoder/layer_._2/kernel",
            "transformer_layer_2/kernel",
            "module/layers_2/kernel",
        ],
        "other": ["hidden_layers/tanh_layer_0/kernel", "layer_norm/gamma", "player_1/kernel"],
        "embeddings": ["Embeddings_en", "word_embeddings/embeddings"],
    }
    variables = [tf.Variable(0.0, name=name) for names in weights.values() for name in names]
    folder = modules.save(tmp_path / "module", lambda x: x, tf.TensorSpec([None]), trainable=variables)
    layer = HubLayer(folder, name="layer_7")
    expected = [
        (name, kind, [weight.path.removeprefix("layer_7/") for weight in weights])
        for name, kind, weights in layer.layer_groups()
    ]
    kinds = {"embeddings": "embeddings", "layer_2": "block", "layer_10": "block", "pooler": "pooler", "other": "other"}
    assert expected == [(name, kind, weights[name]) for name, kind in kinds.items()]


# `.keras` and `.weights.h5`


@pytest.mark.report(
    "A model with a TF Hub module cannot be saved and loaded.",
    "tensorflow#83279",
    "tensorflow-deep-learning#668",
    "zero-to-mastery-ml#100",
)
def test_a_keras_file_restores_the_trained_module_and_the_optimizer(trained, tmp_path):
    trained.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), trained.predict(TEXTS, verbose=0))
    for ours, theirs in ((loaded.weights, trained.weights), (loaded.optimizer.variables, trained.optimizer.variables)):
        assert [weight.path for weight in ours] == [weight.path for weight in theirs]
        for weight, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(weight, expected)
    assert loaded.optimizer.iterations == 3
    assert loaded.layers[1].trainable and loaded.layers[1].get_config() == trained.layers[1].get_config()
    loaded.fit(TEXTS, modules.LABELS, verbose=0)


def test_weights_files_are_saved_and_loaded(trained, text_module, tmp_path):
    trained.save_weights(tmp_path / "model.weights.h5")
    other = text_model(text_module)
    other.optimizer.build(other.trainable_variables)
    assert (other.predict(TEXTS, verbose=0) != trained.predict(TEXTS, verbose=0)).any()
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other.predict(TEXTS, verbose=0), trained.predict(TEXTS, verbose=0))


def test_a_moved_module_is_found_with_moved_handles(linear_module, tmp_path):
    module = shutil.copytree(linear_module, tmp_path / "module")
    model = keras.Sequential([keras.Input((1,)), HubLayer(module)])
    model.save(tmp_path / "model.keras")
    module.rename(tmp_path / "moved")
    with pytest.raises(HubError) as error:
        keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    assert str(module) in str(error.value) and "in the context of `keras_transfer.hub.moved_handles`" in str(
        error.value
    )
    assert isinstance(error.value.__cause__, HubError)
    with moved_handles({module: tmp_path / "moved"}):
        loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_array_equal(loaded(np.ones((1, 1))), [[1.5]])
    assert loaded.layers[0].handle == str(tmp_path / "moved")


def test_a_moved_handle_that_no_file_contains_is_an_error(linear_module, tmp_path):
    keras.Sequential([keras.Input((1,)), HubLayer(linear_module)]).save(tmp_path / "model.keras")
    handles = {"nowhere": "somewhere", linear_module: linear_module}
    with pytest.raises(ValueError) as error, moved_handles(handles):
        keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    named = "`handles` must occur in the loaded files, which contain"
    assert str(error.value) == f"{named} ['{linear_module}']. Received: ['nowhere']"


# Exports


def test_an_export_contains_the_module_and_its_files_and_does_not_need_this_library(
    text_module, tmp_path, process_without_this_package
):
    model = text_model(shutil.copytree(text_module, tmp_path / "module"))
    model.fit(TEXTS, modules.LABELS, verbose=0)
    model.export(tmp_path / "served", verbose=False)
    expected = model.predict(TEXTS, verbose=0)
    shutil.rmtree(tmp_path / "module")
    found = process_without_this_package("tests.serving.alone:answers", tmp_path / "served", modules.TEXTS)
    np.testing.assert_allclose(found["outputs"], expected, rtol=1e-6)
    assert [path.name for path in (tmp_path / "served" / "assets").iterdir()] == ["vocabulary.txt"]


def test_an_export_contains_each_weight_as_often_as_keras_writes_its_own(text_module, tmp_path):
    model = text_model(text_module)
    model.export(tmp_path / "served", verbose=False)
    stored = [name.split("/")[0] for name, _ in tf.train.list_variables(str(tmp_path / "served/variables/variables"))]
    # Keras 3.15 writes all weights of a model twice, including those of its own layers.
    assert {name: stored.count(name) for name in stored} == {
        **{"_CHECKPOINTABLE_OBJECT_GRAPH": 1},
        **{"variables": len(model.weights), "_all_variables": len(model.weights)},
    }


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A Keras model with dropout and two inputs, and the folder of its export."""
    inputs = {name: keras.Input((3,), name=name) for name in ("a", "b")}
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(4, activation="tanh")(inputs["a"]))
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Concatenate()([hidden, inputs["b"]])))
    folder = tmp_path_factory.mktemp("exported") / "exported"
    model.export(folder, verbose=False)
    return model, folder


@pytest.mark.parametrize("signature", [None, "serve"])
def test_a_keras_export_is_a_trainable_module(exported, signature):
    model, folder = exported
    inputs = {name: np.random.default_rng(0).normal(size=(4, 3)).astype("float32") for name in "ab"}
    layer = HubLayer(folder, trainable=True, signature=signature)
    np.testing.assert_allclose(layer(inputs), model(inputs), rtol=1e-6)
    assert sorted(weight.path.split("/", 1)[1] for weight in layer.trainable_weights) == sorted(
        weight.path for weight in model.trainable_weights
    )
    outer_inputs = {name: keras.Input((3,), name=name) for name in "ab"}
    outer = keras.Model(outer_inputs, layer(outer_inputs))
    outer.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    before = layer.get_weights()
    losses = outer.fit(inputs, np.ones((4, 2)), epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for weight, old in zip(layer.weights, before):
        assert (weight.numpy() != old).all() or "seed" in weight.path


def test_weights_files_of_tensorflow_hub_s_layer_are_loaded(text_module, tmp_path):
    old = pytest.importorskip("tf_keras", reason="needs Keras 2: pip install tf_keras")
    hub = pytest.importorskip("tensorflow_hub", reason="needs tensorflow-hub: pip install tensorflow-hub")
    layers = [hub.KerasLayer(str(text_module), trainable=True), old.layers.Dense(2)]
    trained = old.Sequential([old.Input((), dtype=tf.string), *layers])
    trained.set_weights([weight + 1.0 for weight in trained.get_weights()])
    trained.save_weights(tmp_path / "old.h5")
    trained.save_weights(tmp_path / "old.weights.h5")

    class KerasLayer(HubLayer):  # `.weights.h5` files contain the names of classes
        pass

    for cls, name in ((HubLayer, "old.h5"), (KerasLayer, "old.h5"), (KerasLayer, "old.weights.h5")):
        layers = [cls(text_module, trainable=True), keras.layers.Dense(2)]
        model = keras.Sequential([keras.Input((), dtype="string"), *layers])
        model.load_weights(tmp_path / name)
        np.testing.assert_array_equal(model(TEXTS), trained(TEXTS))
