"""`ActivationPenalty`: AR and TAR by their definition, alone and in AWD-LSTM."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.encoders import AWDLSTMEncoder
from keras_transfer.layers import ActivationPenalty
from keras_transfer.tasks import CausalLM
from tests.helpers import EAGER, run_layer_test, save_and_load

RANDOM = np.random.default_rng(0)
RAW, DROPPED = RANDOM.normal(size=(2, 3, 5, 4)).astype("float32")
REAL = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
RATES = ("embedding_dropout", "input_dropout", "hidden_dropout", "output_dropout", "weight_dropout")


def reference(raw, dropped, real, activation, temporal):
    """The penalty by its definition, in double precision."""
    squares, changes = [], []
    for h, d, count in zip(raw.astype("float64"), dropped.astype("float64"), real.sum(axis=1)):
        squares += [d[t] ** 2 for t in range(count)]
        changes += [(h[t + 1] - h[t]) ** 2 for t in range(count - 1)]
    return activation * np.mean(squares) + temporal * np.mean(changes)


def test_it_is_a_well_behaved_layer():
    run_layer_test(ActivationPenalty, {"activation": 2.0, "temporal": 0.5}, RAW, output_shape=RAW.shape)


@pytest.mark.parametrize(("activation", "temporal"), [(2.0, 1.0), (0.0, 3.0)])
def test_its_losses_are_those_of_the_definition_in_training_alone(activation, temporal):
    layer = ActivationPenalty(activation, temporal)
    for real in (REAL, np.ones((3, 5), int)):
        outputs = layer(RAW, DROPPED, padding_mask=real, training=True)
        np.testing.assert_array_equal(numpy_of(outputs), DROPPED)
        loss = sum(layer.losses)
        assert float(loss) == pytest.approx(reference(RAW, DROPPED, real, activation, temporal), rel=1e-5)
    layer(RAW, DROPPED, training=False)
    assert layer.losses == []


def test_awd_lstm_adds_it_to_the_loss_of_training(eagerly):
    encoder = AWDLSTMEncoder(
        9,
        embedding_dim=4,
        units=5,
        num_layers=2,
        activation_penalty=2.0,
        temporal_penalty=1.0,
        **dict.fromkeys(RATES, 0.0),
    )
    model = CausalLM(encoder)
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=EAGER)
    inputs = {"token_ids": RANDOM.integers(0, 9, (3, 5)), "padding_mask": REAL}
    targets, weights = RANDOM.integers(0, 9, (3, 5)), REAL.astype("float32")
    plain = model.test_on_batch(inputs, targets, sample_weight=weights, return_dict=True)
    found = model.train_on_batch(inputs, targets, sample_weight=weights, return_dict=True)
    vectors = numpy_of(encoder(inputs)["sequence_output"])
    assert found["loss"] - plain["loss"] == pytest.approx(reference(vectors, vectors, REAL, 2.0, 1.0), abs=1e-5)
    assert found["perplexity"] == pytest.approx(plain["perplexity"], rel=1e-5)
    config = save_and_load(encoder).get_config()
    assert config["activation_penalty"] == 2.0 and config["temporal_penalty"] == 1.0
