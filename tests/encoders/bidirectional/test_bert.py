"""`BertEncoder`: the protocol, with and without pooler and segments, and what its arguments do."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import BertEncoder
from keras_transfer.layers.basic.activations import gelu_tanh
from tests.helpers import encoder_inputs, run_encoder_test, save_and_load

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 10, "initializer_range": 0.3}


@pytest.mark.parametrize(
    "arguments",
    [
        {"pooler": False, "num_segments": 0, "activation": "gelu_tanh"},
        {"activation": "relu", "num_segments": 3, "attention_dropout": 0.0, "pooling": "mean", "normalize": True},
    ],
    ids=str,
)
def test_it_is_a_well_behaved_encoder(arguments):
    run_encoder_test(BertEncoder, {**SMALL, **arguments})


def test_without_a_pooler_there_is_no_pooled_output():
    assert list(BertEncoder(**SMALL, pooler=False).output) == ["sequence_output"]


def test_without_segments_it_takes_no_segment_ids():
    assert sorted(BertEncoder(**SMALL, num_segments=0).input) == ["padding_mask", "token_ids"]


def test_inputs_that_it_does_not_take_are_left_out():
    encoder = BertEncoder(**SMALL, num_segments=0)
    inputs = encoder_inputs(encoder, [[5, 6, 7]])
    outputs = encoder({**inputs, "segment_ids": np.zeros((1, 3), "int32")})
    np.testing.assert_array_equal(outputs["pooled_output"], encoder(inputs)["pooled_output"])


def test_attention_dropout_defaults_to_dropout():
    assert BertEncoder(**SMALL, dropout=0.3).blocks[0].attention.dropout.rate == 0.3
    assert BertEncoder(**SMALL, dropout=0.3, attention_dropout=0.1).blocks[0].attention.dropout.rate == 0.1


def test_an_activation_given_as_a_function_survives_a_keras_file():
    encoder = BertEncoder(**SMALL, activation=gelu_tanh)
    inputs = encoder_inputs(encoder, [[5, 6, 7]])
    reloaded = save_and_load(encoder)
    np.testing.assert_array_equal(reloaded(inputs)["pooled_output"], encoder(inputs)["pooled_output"])
    assert reloaded.get_config() == encoder.get_config()


def test_a_frozen_encoder_stays_frozen_in_a_keras_file():
    encoder = BertEncoder(**SMALL)
    encoder.trainable = False
    assert save_and_load(encoder).trainable_weights == []


def test_training_uses_the_given_dropout():
    encoder = BertEncoder(**SMALL, dropout=0.0)
    inputs = encoder_inputs(encoder, [[5, 6, 7]])
    expected = encoder(inputs)["pooled_output"]
    np.testing.assert_allclose(encoder(inputs, training=True)["pooled_output"], expected, atol=1e-6)
    encoder = BertEncoder(**SMALL, dropout=0.5)
    with_dropout = keras.ops.convert_to_numpy(encoder(inputs, training=True)["pooled_output"])
    assert np.abs(with_dropout - np.array(encoder(inputs)["pooled_output"])).max() > 1e-3
