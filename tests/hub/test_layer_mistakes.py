"""Mistakes with `HubLayer` raise one clear error, and the arguments of old code work."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubError, HubLayer
from tests.hub import saved_modules as modules

INPUTS = np.ones((1, 1), "float32")


class Scale(tf.Module):
    """A callable that follows the conventions of reusable SavedModels without being saved."""

    def __init__(self):
        super().__init__()
        self.factor = tf.Variable(2.0, name="factor")
        self.regularization_losses = [lambda: 0.5 * self.factor]

    def __call__(self, x, training=False):
        return self.factor * x + (1.0 if training else 0.0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"signature": "wrong"}, "`signature` must be one of ['serving_default'] for "),
        (
            {"signature": "serving_default"},
            "Expected one of ['length', 'vector'], or `signature_outputs_as_dict=True`. Received: output_key=None",
        ),
        ({"signature": "serving_default", "output_key": "wrong"}, "Received: output_key='wrong'"),
        (
            {"signature": "serving_default", "output_key": "length", "signature_outputs_as_dict": True},
            "`output_key` and `signature_outputs_as_dict` cannot be combined. Received: output_key='length'",
        ),
        (
            {"signature_outputs_as_dict": True},
            "`signature_outputs_as_dict=True` requires `signature`. Received: signature=None",
        ),
        ({"tags": "wrong"}, "Pass one of the module's sets of `tags`, not ['wrong']"),
        ({"tags": ["serve", "gpu"]}, "Pass one of the module's sets of `tags`, not ['gpu', 'serve']"),
        (
            {"arguments": {"training": 1}},
            "Unknown arguments. The module accepts []. Received: arguments={'training': 1}",
        ),
        (
            {"arguments": {"wrong": 1}, "signature": "serving_default", "output_key": "length"},
            "Unknown arguments. The module accepts ['text']. Received: arguments={'wrong': 1}",
        ),
        ({"dtype": "int32"}, "The module expects string [None]. Received: dtype='int32'"),
    ],
)
def test_options_that_a_module_does_not_have_are_an_error(text_module, options, message):
    with pytest.raises(HubError) as error:
        HubLayer(text_module, **options)
    assert message in str(error.value)


def test_an_unknown_output_key_is_an_error(linear_module, bert_module):
    with pytest.raises(HubError, match=r"The module returns float32 \[1, 1\]. Received: output_key='y'"):
        HubLayer(linear_module, output_key="y")(INPUTS)
    with pytest.raises(HubError, match=r"pooled_output: float32 \[4, 8\], .*Received: output_key='pooled'"):
        HubLayer(bert_module, output_key="pooled")(modules.bert_inputs())


def test_an_object_that_is_not_a_module_is_an_error(tmp_path):
    with pytest.raises(
        HubError, match="`handle` must be a string, a path, a loaded SavedModel or a callable. Received: 5"
    ):
        HubLayer(5)
    module = tf.Module()
    module.of_numbers = tf.function(lambda x: x, [tf.TensorSpec([])])
    tf.saved_model.save(module, str(tmp_path / "module"), signatures={"of_numbers": module.of_numbers})
    with pytest.raises(
        HubError, match=r"must be one of \['of_numbers'\], because .* not callable. Received: signature=None"
    ):
        HubLayer(tmp_path / "module")
    assert HubLayer(tmp_path / "module", signature="of_numbers")(1.0) == 1.0


def test_options_for_loading_with_a_loaded_object_are_an_error():
    for options in ({"tags": ["serve"]}, {"sha256": "0" * 64}, {"load_options": tf.saved_model.LoadOptions()}):
        with pytest.raises(HubError, match="require a path or a URL. Received: handle=a function"):
            HubLayer(lambda x: x, **options)


def test_a_model_of_a_loaded_object_can_be_exported_but_not_saved(linear_module, tmp_path):
    layer = HubLayer(tf.saved_model.load(str(linear_module)), trainable=True)
    model = keras.Sequential([keras.Input((1,)), layer])
    with pytest.raises(ValueError, match="Pass it instead of the loaded object"):
        model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_array_equal(exported.serve(INPUTS), model(INPUTS))


def test_an_unknown_output_shape_is_an_error_unless_output_shape_is_passed(tmp_path):
    def call(x):
        return tf.compat.v1.placeholder_with_default(x, shape=None)

    folder = modules.save(tmp_path / "module", call, tf.TensorSpec([None, 1]))
    with pytest.raises(
        HubError, match=r"not specify its output shape. Pass `output_shape`. Received: float32 of unknown shape"
    ):
        HubLayer(folder)(keras.Input((1,)))
    assert HubLayer(folder, output_shape=[1])(keras.Input((1,))).shape == (None, 1)
    assert HubLayer(folder)(INPUTS).shape == (1, 1)


# Old code


def test_the_arguments_of_old_code_work(text_module):
    layer = HubLayer(text_module, input_shape=[], dtype=tf.string, trainable=True)
    assert layer.dtype == "string"
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    assert model(tf.constant(modules.TEXTS)).shape == (4, 1)
    positional = HubLayer(
        text_module,
        False,
        arguments=None,
        tags=["serve"],
        signature="serving_default",
        signature_outputs_as_dict=None,
        output_key="length",
        output_shape=[],
        load_options=None,
    )
    assert positional(modules.TEXTS).shape == (4,)


def test_a_config_of_tensorflow_hub_s_layer_is_accepted(text_module):
    hub = pytest.importorskip("tensorflow_hub", reason="needs tensorflow-hub: pip install tensorflow-hub")
    try:
        config = hub.KerasLayer(str(text_module), trainable=True, name="old").get_config()
    except Exception as error:
        pytest.skip(f"needs Keras 2: pip install tf_keras ({error})")
    assert config["dtype"] == "float32"
    layer = HubLayer.from_config(config, safe_mode=False)
    assert (layer.name, layer.trainable, layer.dtype) == ("old", True, "string")
    assert layer(modules.TEXTS).shape == (4, 4)


def test_a_callable_can_be_the_handle(bert_module):
    layer = HubLayer(Scale(), trainable=True)
    model = keras.Sequential([keras.Input((1,)), layer])
    assert model(INPUTS) == 2.0 and model(INPUTS, training=True) == 3.0
    assert model.losses == [1.0]
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    model.fit(INPUTS, np.array([[3.0]]), verbose=0)
    assert [weight.path for weight in layer.weights] == [f"{layer.name}/factor"]
    assert layer.weights[0].numpy() == np.float32(2.0 - 0.1 * 0.5)

    np.testing.assert_array_equal(HubLayer(lambda x: 2 * x)(INPUTS), 2 * INPUTS)
    loaded = tf.saved_model.load(str(bert_module))
    assert HubLayer(loaded, trainable=True).weights[0].value is loaded.variables[0]


def test_a_path_and_a_string_are_the_same_handle(linear_module):
    for handle in (linear_module, str(linear_module), f"file://{linear_module}"):
        assert HubLayer(handle)(INPUTS) == 1.5
    assert HubLayer(linear_module).handle == str(linear_module)


def test_signatures_can_be_trained(linear_module, text_module):
    layer = HubLayer(linear_module, trainable=True, signature="serving_default")
    np.testing.assert_array_equal(layer(INPUTS), layer({"x": INPUTS}))
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    losses = model.fit(INPUTS, 3 * INPUTS, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert layer.weights[1].numpy() == 1.0
    for options, shapes in (
        ({"signature_outputs_as_dict": True}, {"vector": (4, 4), "length": (4,)}),
        ({"output_key": "vector"}, (4, 4)),
    ):
        outputs = HubLayer(text_module, signature="serving_default", **options)({"text": tf.constant(modules.TEXTS)})
        assert keras.tree.map_structure(lambda output: tuple(output.shape), outputs) == shapes


# Another backend


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="a module requires TensorFlow")
def test_another_backend_is_an_error():
    with pytest.raises(RuntimeError) as error:
        HubLayer("module")
    advice = "A TF Hub module requires the TensorFlow backend. Set KERAS_BACKEND=tensorflow."
    assert str(error.value) == f"{advice} Received: {keras.backend.backend()!r}"
