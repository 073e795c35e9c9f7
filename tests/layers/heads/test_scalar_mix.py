"""`ScalarMix`: its formula, what it learns, dropout of whole layers, on real encoders, and its plot."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import BertEncoder, ElmoEncoder, encode
from keras_transfer.layers import ScalarMix
from tests.errors import check_errors
from tests.helpers import save_and_load

LAYERS = [np.random.default_rng(i).normal(size=(2, 3, 4)).astype("float32") for i in range(3)]
ENCODERS = {
    "bert": lambda: BertEncoder(20, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=8),
    "elmo": lambda: ElmoEncoder(embedding_dim=3, filters=[(1, 4)], projection_dim=4, units=5),
}


def make(logits=(1.0, 0.0, -2.0), gamma=1.5, **options):
    layer = ScalarMix(**options)
    layer.build([values.shape for values in LAYERS])
    layer.logits.assign(logits)
    layer.gamma.assign(gamma)
    return layer


def softmax(values):
    powers = np.exp(values)
    return powers / powers.sum()


@pytest.mark.parametrize("layer_norm", [False, True])
def test_it_computes_its_formula(layer_norm):
    layer, layers = make(layer_norm=layer_norm), LAYERS
    if layer_norm:
        layers = [(x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) for x in layers]
    mix = softmax(np.array([1.0, 0.0, -2.0]))
    expected = 1.5 * sum(weight * x for weight, x in zip(mix, layers))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(layer(LAYERS)), expected, atol=1e-5)
    np.testing.assert_allclose(layer.mix, mix, atol=1e-6)


def test_it_finds_the_layer_that_the_task_needs():
    inputs = [keras.Input((3, 4)) for _ in LAYERS]
    layer = ScalarMix()
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.Adam(0.1), "mse")
    again = [np.tile(values, (150, 1, 1)) for values in LAYERS]
    model.fit(again, 2 * again[1], batch_size=2, verbose=0)
    assert layer.mix[1] > 0.95 and float(layer.gamma) == pytest.approx(2, abs=0.15)


def test_dropout_omits_whole_layers_in_training_only():
    layer = make(dropout=0.5, seed=0)
    whole = keras.ops.convert_to_numpy(layer(LAYERS))
    subsets = [[i for i in range(3) if mask >> i & 1] or [0, 1, 2] for mask in range(8)]
    logits = np.array([1.0, 0.0, -2.0])
    possible = []
    for subset in subsets:
        # If dropout selects all three layers, it keeps all three with equal weights.
        weights = np.full(3, 1 / 3) if len(possible) == 0 else np.zeros(3)
        weights[subset] = softmax(logits[subset]) if len(possible) else 1 / 3
        possible.append(1.5 * sum(weight * x for weight, x in zip(weights, LAYERS)))
    seen = set()
    for _ in range(60):
        outputs = keras.ops.convert_to_numpy(layer(LAYERS, training=True))
        seen.add(next(i for i, expected in enumerate(possible) if np.allclose(outputs, expected, atol=1e-5)))
    assert len(seen) >= 6
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer(LAYERS)), whole)


@pytest.mark.parametrize("kind", ENCODERS)
def test_with_the_hidden_states_of_an_encoder_it_survives_keras_files_and_mixed_precision(kind):
    encoder = ENCODERS[kind]()
    mixed = ScalarMix(layer_norm=True, dropout=0.1)(encode(encoder, hidden_states=True).hidden_states)
    model = keras.Model(encoder.input, mixed)
    inputs = {name: np.ones([2, 5, *tensor.shape[2:]], "int32") for name, tensor in encoder.input.items()}
    np.testing.assert_array_equal(save_and_load(model)(inputs), model(inputs))
    assert ScalarMix(dtype="mixed_float16")(LAYERS).dtype == "float16"


def test_its_plot_has_a_bar_for_each_layer():
    pytest.importorskip("matplotlib")
    axes = make().plot(["words", 1, 2]).axes[0]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], softmax(np.array([1.0, 0, -2])), atol=1e-6)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["words", "1", "2"]
    with pytest.raises(ValueError, match=r"one name for each of the 3 layers.* Received: names=\['a', 'b'\]"):
        make().plot(["a", "b"])


test_a_mistake_is_one_error = check_errors(
    (lambda: ScalarMix()(LAYERS[0]), "Received: inputs_shape=(2, 3, 4)"),
    (lambda: make()(LAYERS[:2]), "Expected 3 inputs, as when the layer was built. Received: inputs=2"),
)
