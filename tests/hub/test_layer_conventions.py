"""`HubLayer` passes what tensorflow_hub's own tests check for its Keras layer."""

import json
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubError, HubLayer
from tests.hub import saved_modules as modules


@pytest.fixture(scope="module")
def shapes_module(tmp_path_factory):
    return modules.save_shapes_module(tmp_path_factory.mktemp("shapes") / "module")


@pytest.fixture(scope="module")
def sums_module(tmp_path_factory):
    return modules.save_sums_module(tmp_path_factory.mktemp("sums") / "module")


def again(layer):
    """Returns a layer from the config, converted to JSON and back."""
    return HubLayer.from_config(json.loads(json.dumps(layer.get_config())), safe_mode=False)


def column(*values):
    return np.array(values, "float32")[:, None]


# Training


def test_a_trainable_module_learns_and_its_penalty_counts(linear_module):
    layer = HubLayer(linear_module, trainable=True)
    model = keras.Sequential([keras.Input((1,)), layer])
    np.testing.assert_array_equal(model(column(0, 8, 10, 12)), column(1, 5, 6, 7))
    np.testing.assert_array_equal(model.losses, [np.float32(0.01) * 0.25])
    assert [weight.path for weight in model.trainable_weights] == [f"{layer.name}/kernel"]
    assert [weight.path for weight in model.non_trainable_weights] == [f"{layer.name}/bias"]

    model.compile(keras.optimizers.SGD(0.002), "mean_squared_error", run_eagerly=True)
    x = column(*[9, 10, 11] * 10)
    model.fit(x, x / 2 + 6, batch_size=len(x), epochs=10, verbose=0)  # y = x / 2 + 6, with a bias that stays 1
    np.testing.assert_array_equal(model(column(0)), [[1.0]])
    np.testing.assert_allclose(model(column(10)), [[11.0]], rtol=0.03)
    np.testing.assert_allclose(model.losses, [0.01], rtol=0.06)


def test_the_penalty_counts_while_the_layer_is_trainable(linear_module):
    layer = HubLayer(linear_module)
    model = keras.Sequential([keras.Input((1,)), layer])
    for trainable in (False, True, False, True):
        layer.trainable = trainable
        model(column(1))
        assert [float(loss) for loss in model.losses] == ([np.float32(0.01) * 0.25] if trainable else [])
        model.compile("sgd", "mean_squared_error", run_eagerly=True)
        loss = model.evaluate(column(0), column(1), verbose=0)
        assert loss == pytest.approx(0.0025 if trainable else 0.0, abs=1e-8)


def test_batch_normalization_is_trained(norm_module):
    layer = HubLayer(norm_module, trainable=True)
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(keras.optimizers.SGD(0.1), "mean_squared_error")
    x = column(*[11, 12, 13] * 100)
    model.fit(x, 2 * x, batch_size=3, shuffle=False, verbose=0)
    weights = {weight.name: weight.numpy() for weight in layer.weights}
    np.testing.assert_allclose([weights["moving_mean"], weights["beta"]], [[12.0], [24.0]], rtol=1e-5)
    # Inference uses the saved statistics and does not change them.
    np.testing.assert_allclose(model.predict(column(10, 20, 30), verbose=0), column(20, 40, 60), rtol=1e-5)
    model.evaluate(column(10), column(20), verbose=0)
    assert {weight.name: weight.numpy() for weight in layer.weights} == weights


def test_a_frozen_batch_normalization_runs_in_inference_mode(norm_module):
    layer = HubLayer(norm_module)
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([keras.Input((1,)), layer, dense])
    model.compile(keras.optimizers.SGD(0.1), "mean_squared_error", run_eagerly=True)
    x = column(*[1, 2, 3] * 20)
    model.fit(x, 2 * x, batch_size=3, shuffle=False, verbose=0)
    assert {weight.name: weight.numpy().tolist() for weight in layer.weights} == {
        **{"beta": [0.0], "gamma": [1.0]},
        **{"moving_mean": [0.0], "moving_variance": [1.0]},
    }
    np.testing.assert_allclose(model(x), 2 * x, rtol=1e-3)
    np.testing.assert_array_equal(layer(x, training=True), layer(x, training=False))


@pytest.mark.parametrize("training", [False, True])
def test_gradients_in_training_are_those_of_the_module_s_training_graph(norm_module, training):
    raw, layer = tf.saved_model.load(str(norm_module)), HubLayer(norm_module, trainable=True)
    gradients = []
    for function, weights in ((raw, raw.trainable_variables), (layer, [w.value for w in layer.trainable_weights])):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(tf.constant(column(1, 2, 4)), training=training) ** 3)
        gradients.append(tape.gradient(loss, weights))
    np.testing.assert_array_equal(*gradients)
    assert np.all(np.abs(gradients[0]) > 0.1)
    for ours, theirs in zip(layer.weights, raw.variables):
        np.testing.assert_array_equal(ours, theirs)


def test_a_module_from_tf_keras_trains(tmp_path):
    tf_keras = pytest.importorskip("tf_keras", reason="most modules on TF Hub were written by it: pip install tf-keras")
    dense = tf_keras.layers.Dense(4, kernel_regularizer="l2")
    inner = [dense, tf_keras.layers.BatchNormalization(), tf_keras.layers.Dropout(0.5)]
    saved = tf_keras.Sequential([tf_keras.Input((3,)), *inner])
    tf.saved_model.save(saved, str(tmp_path / "module"))
    layer = HubLayer(tmp_path / "module", trainable=True)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    np.testing.assert_array_equal(layer(x), saved(x))
    np.testing.assert_array_equal(layer.losses, saved.losses)
    names = ("dense/kernel", "dense/bias", "batch_normalization/gamma", "batch_normalization/beta")
    assert [weight.path for weight in layer.trainable_weights] == [f"{layer.name}/{name}" for name in names]
    moving_mean = layer.non_trainable_weights[0]
    assert np.any(layer(x, training=True) == 0) and np.all(moving_mean.numpy() != 0)


def test_a_trainable_layer_without_trainable_variables_logs_a_warning(sums_module, caplog):
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        HubLayer(sums_module, trainable=True)
    assert "has no trainable weights, because the module lists no trainable variables" in caplog.text


# Inputs and outputs


@pytest.mark.parametrize("output_shape", [None, {"sum": (2,), "difference": (1,)}])
def test_inputs_and_outputs_may_be_dicts(sums_module, output_shape):
    layer = HubLayer(sums_module, arguments={"return_dict": True}, output_shape=output_shape)
    inputs = {name: keras.Input((1,), name=name) for name in "xy"}
    outputs = layer(inputs)
    model = keras.Model(
        inputs, [outputs["difference"], outputs["sum"], keras.layers.Concatenate()(list(outputs.values()))]
    )
    x, y = column(11, 22, 33), column(1, 2, 3)
    difference, sums, both = model({"x": x, "y": y})
    np.testing.assert_array_equal(difference, x - y)
    np.testing.assert_array_equal(sums, np.hstack([x + y, x + 2 * y]))
    assert both.shape == (3, 3)
    np.testing.assert_array_equal(again(layer)({"x": x, "y": y})["sum"], sums)


def test_output_shape_sets_shapes_that_the_graph_does_not_know(shapes_module):
    x = column(1, 10)
    expected = [x, np.broadcast_to(2 * x[..., None], (2, 2, 2)), np.broadcast_to(3 * x[..., None, None], (2, 3, 3, 3))]
    unknown = HubLayer(shapes_module)
    assert [output.shape for output in unknown(keras.Input((1,)))] == [(None,) * i for i in (2, 3, 4)]
    layer = HubLayer(shapes_module, output_shape=[[1], [2, 2], [3, 3, 3]])
    known = [(None, 1), (None, 2, 2), (None, 3, 3, 3)]
    assert [output.shape for output in layer(keras.Input((1,)))] == known
    assert layer.compute_output_shape((None, 1)) == known
    for each in (unknown, layer, again(layer)):
        for output, value in zip(each(x), expected, strict=True):
            np.testing.assert_array_equal(output, value)


@pytest.mark.parametrize("wrong", [[3], [[1], [2, 2]], [[1], [2, 2], [3]], {"a": [1]}, 3])
def test_a_wrong_output_shape_is_an_error(shapes_module, wrong):
    with pytest.raises(
        HubError, match=r"`output_shape` must match .* without the batch dimension. Received: output_shape="
    ):
        HubLayer(shapes_module, output_shape=wrong)(column(1))


def test_compute_output_shape_returns_the_shapes_of_the_outputs(linear_module, text_module, bert_module):
    assert HubLayer(linear_module).compute_output_shape((10, 1)) == (10, 1)
    assert HubLayer(text_module).compute_output_shape((None,)) == (None, 4)
    assert HubLayer(text_module, output_shape=(4,)).compute_output_shape((3,)) == (3, 4)
    signature = HubLayer(text_module, signature="serving_default", signature_outputs_as_dict=True)
    for shape in ((3,), {"text": (3,)}):
        assert signature.compute_output_shape(shape) == {"vector": (None, 4), "length": (None,)}
    shapes = HubLayer(bert_module).compute_output_shape(dict.fromkeys(modules.BERT_INPUTS, (3, 7)))
    assert shapes["sequence_output"] == (3, 7, 8)
    assert shapes["encoder_outputs"] == [(3, 7, 8)] * 2


def test_the_layer_has_the_module_s_dtypes(tmp_path):
    spec = [tf.TensorSpec([None, 2], tf.float64), tf.TensorSpec([None], tf.int32)]
    folder = modules.save(tmp_path / "module", lambda x: {"halves": x[0] / 2, "odd": x[1] % 2 == 1}, spec)
    layer = HubLayer(folder)
    symbolic = layer([keras.Input((2,), dtype="float64"), keras.Input((), dtype="int32")])
    eager = layer([tf.ones([1, 2], tf.float64), tf.constant([3])])
    for outputs in (symbolic, eager):
        found = {name: keras.backend.standardize_dtype(output.dtype) for name, output in outputs.items()}
        assert found == {"halves": "float64", "odd": "bool"}


def test_the_loaded_object_is_available(tmp_path):
    (tmp_path / "number.txt").write_text("12345")
    file, expected = tf.saved_model.Asset(str(tmp_path / "number.txt")), tf.Variable([12345], dtype=tf.int64)
    spec = tf.TensorSpec([None], tf.string)
    folder = modules.save(
        tmp_path / "module", lambda x: tf.strings.to_number(x, tf.int64), spec, others=[expected], tracked=[file]
    )
    (tmp_path / "number.txt").unlink()
    layer = HubLayer(folder)
    file, (expected,) = layer.resolved_object.tracked[0], layer.resolved_object.variables
    np.testing.assert_array_equal(layer([tf.io.read_file(file.asset_path).numpy().decode()]), expected)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_applies_only_after_the_module(text_module, linear_module, policy):
    keras.config.set_dtype_policy(policy)
    try:
        layer, dense = HubLayer(text_module, trainable=True), keras.layers.Dense(1)
        model = keras.Sequential([keras.Input((), dtype="string"), layer, dense])
        model.compile(keras.optimizers.SGD(0.1), "mean_squared_error", run_eagerly=True)
        behind_half = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1), HubLayer(linear_module)])
    finally:
        keras.config.set_dtype_policy("float32")
    texts = tf.constant(modules.TEXTS)
    before = layer.get_weights()
    model.fit(texts, modules.LABELS, verbose=0)
    assert any((weight != old).any() for weight, old in zip(layer.get_weights(), before))
    assert layer(texts).dtype == "float32" and {weight.dtype for weight in layer.weights} == {"float32"}
    assert model(texts).dtype == dense.compute_dtype == policy.removeprefix("mixed_")
    assert behind_half(column(1)).dtype == "float32"


# Configs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"trainable": True, "name": "of_text"},
        {"signature": "serving_default", "signature_outputs_as_dict": True},
        {"signature": "serving_default", "output_key": "length"},
        {"output_shape": [4]},
        {"tags": ["serve"]},
    ],
)
def test_a_config_restores_the_layer(text_module, options):
    layer = HubLayer(text_module, **options)
    new, config = again(layer), json.loads(json.dumps(layer.get_config()))
    assert json.loads(json.dumps(new.get_config())) == config
    assert config == {
        **{"name": layer.name, "trainable": False, "handle": str(text_module), "arguments": {}, "sha256": None},
        **dict.fromkeys(["tags", "signature", "signature_outputs_as_dict", "output_key", "output_shape"]),
        **options,
    }
    outputs, expected = (keras.tree.flatten(each(tf.constant(modules.TEXTS))) for each in (new, layer))
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_arguments_are_passed_to_each_call_and_saved(tmp_path):
    specs = [tf.TensorSpec([None, 1]), tf.TensorSpec([]), tf.TensorSpec([])]
    module = tf.Module()
    module.__call__ = tf.function(lambda x, a=1.0, b=0.0: a * x + b, input_signature=specs)
    tf.saved_model.save(module, str(tmp_path / "module"), signatures=module.__call__)
    for signature in (None, "serving_default"):
        arguments = {"a": 10.0} if signature is None else {"a": 10.0, "b": 0.0}
        layer = HubLayer(tmp_path / "module", arguments=arguments, signature=signature)
        for each in (layer, again(layer)):
            np.testing.assert_array_equal(each(column(1, 2)), column(10, 20))
            assert each(keras.Input((1,))).shape == (None, 1)


def test_a_config_that_cannot_be_saved_is_an_error(linear_module, sums_module):
    with pytest.raises(ValueError, match="Pass it instead of the loaded object. Received: handle="):
        HubLayer(tf.saved_model.load(str(linear_module))).get_config()
    with pytest.raises(
        ValueError, match="only if its `arguments` are JSON values, and not .*object.*Received: TypeError"
    ):
        HubLayer(sums_module, arguments={"return_dict": object()}).get_config()
