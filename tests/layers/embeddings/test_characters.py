"""`CharacterCNN` against its formula, in files, and with words that are too short for it."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import CharacterCNN
from tests.helpers import run_layer_test

IDS = np.random.default_rng(0).integers(0, 20, (2, 3, 7)).astype("int32")
OPTIONS = {"vocabulary_size": 20, "embedding_dim": 4, "filters": [(1, 3), (2, 4), (3, 5)], "output_dim": 6}


def make(**options):
    keras.utils.set_random_seed(0)
    layer = CharacterCNN(**{**OPTIONS, **options})
    layer.build(IDS.shape)
    for weight in layer.weights:
        weight.assign(np.random.default_rng(weight.shape[0]).normal(size=weight.shape))
    return layer


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("output_dim", [6, None])
def test_it_computes_its_formula(activation, output_dim):
    layer = make(activation=activation, output_dim=output_dim)
    array = keras.ops.convert_to_numpy
    embedded = array(layer.embedding.embeddings)[IDS]
    act = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh}[activation]
    parts = []
    for (width, _), convolution in zip(OPTIONS["filters"], layer.convolutions):
        kernel, bias = array(convolution.kernel), array(convolution.bias)
        windows = [embedded[:, :, i : i + width] for i in range(7 - width + 1)]
        parts.append(act(np.max([np.einsum("bwce,cef->bwf", window, kernel) + bias for window in windows], axis=0)))
    words = np.concatenate(parts, axis=-1)
    for gate, transform in layer.highways:
        fraction = 1 / (1 + np.exp(-(words @ array(gate.kernel) + array(gate.bias))))
        other = np.maximum(words @ array(transform.kernel) + array(transform.bias), 0)
        words = fraction * other + (1 - fraction) * words
    if output_dim:
        words = words @ array(layer.projection.kernel) + array(layer.projection.bias)
    np.testing.assert_allclose(array(layer(IDS)), words, rtol=2e-4, atol=2e-4)


def test_it_is_a_well_behaved_layer():
    run_layer_test(CharacterCNN, OPTIONS, IDS, output_shape=(2, 3, 6))


def test_words_that_are_shorter_than_the_widest_filter_are_an_error():
    with pytest.raises(
        ValueError, match=r"Words must have at least 3 characters,.* Received: ids_shape=\(None, None, 2\)"
    ):
        CharacterCNN(**OPTIONS).build((None, None, 2))


@pytest.mark.parametrize("shape", [(2, 0, 7), (0, 3, 7)])
def test_inputs_without_words_are_an_error(shape):
    with pytest.raises(ValueError, match=r"Inputs must contain at least one word.* Received: ids="):
        make()(np.ones(shape, "int32"))
