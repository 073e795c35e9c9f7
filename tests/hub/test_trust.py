"""Loading a file runs the graphs of its modules, so it asks for trust exactly as Keras does for code."""

import keras
import numpy as np
import pytest

from keras_transfer.hub import HubError, HubLayer
from keras_transfer.hub.trust import is_rebuilding


@pytest.fixture
def file(linear_module, tmp_path):
    """A `.keras` file with a module."""
    keras.Sequential([keras.Input((1,)), HubLayer(linear_module)]).save(tmp_path / "model.keras")
    return tmp_path / "model.keras"


def raises(function, **options):
    try:
        function(**options)
    except ValueError as error:
        assert "safe_mode=False" in str(error) and "enable_unsafe_deserialization()" in str(error)
        return True
    return False


@pytest.mark.parametrize("safe_mode", [True, False, None])
def test_a_config_requires_trust_exactly_if_keras_requires_it(linear_module, safe_mode):
    layers = HubLayer(linear_module), keras.layers.TFSMLayer(str(linear_module), "serving_default")
    ours, theirs = (raises(type(each).from_config, config=each.get_config(), safe_mode=safe_mode) for each in layers)
    assert ours is theirs is (safe_mode is not False)


@pytest.mark.parametrize("safe_mode", [True, False])
def test_a_file_requires_trust(file, safe_mode):
    assert raises(keras.saving.load_model, filepath=file, safe_mode=safe_mode) is safe_mode


def test_without_trust_the_module_is_not_loaded():
    config = {"handle": "https://example.invalid/module"}
    with pytest.raises(ValueError, match="'https://example.invalid/module'.* Received: safe_mode=True") as error:
        HubLayer.from_config(config)
    assert not isinstance(error.value, HubError)


@pytest.fixture
def trusting():
    """Tells Keras to trust every file, until the test ends."""
    keras.config.enable_unsafe_deserialization()
    yield
    keras.utils.clear_session()


def test_trust_can_be_given_for_the_whole_program(file, trusting):
    model = keras.saving.load_model(file)
    again = keras.models.model_from_json(model.to_json())
    for each in (model, again):
        np.testing.assert_array_equal(each(np.ones((1, 1))), [[1.5]])


def test_the_private_name_of_keras_for_safe_mode_returns_the_argument_of_loading(tmp_path):
    from keras.src.saving.serialization_lib import in_safe_mode

    told = []

    @keras.saving.register_keras_serializable("tests")
    class Layer(keras.layers.Layer):
        @classmethod
        def from_config(cls, config):
            told.append(in_safe_mode())
            return cls(**config)

    keras.Sequential([keras.Input((1,)), Layer()]).save(tmp_path / "model.keras")
    for safe_mode in (True, False):
        keras.saving.load_model(tmp_path / "model.keras", safe_mode=safe_mode)
    assert told == [True, False]
    assert in_safe_mode() is None


def test_keras_s_private_name_for_symbolic_calls_says_when_keras_rebuilds_a_model(tmp_path):
    @keras.saving.register_keras_serializable("tests")
    class Layer(keras.layers.Layer):
        def call(self, inputs):
            told.append(is_rebuilding())
            return inputs

    @keras.saving.register_keras_serializable("tests")
    class Model(keras.Model):
        def __init__(self, **options):
            super().__init__(**options)
            self.layer, self.dense = Layer(), keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(self.layer(inputs))

    told = []
    model = Model()
    model(keras.Input((1,)))
    model(np.ones((2, 1)))
    model.save(tmp_path / "model.keras")
    assert told and not any(told)
    told.clear()
    keras.saving.load_model(tmp_path / "model.keras")(np.ones((2, 1)))
    assert told == [True, False]
