"""`GPT2Encoder` and `GPTEncoder`: the settings of the folders that they are read from."""

import json

import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.checkpoints.architectures.gpt import GPT
from keras_transfer.checkpoints.architectures.gpt2 import GPT2
from keras_transfer.encoders import GPTEncoder
from tests.architecture import FIXTURES

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}


def test_the_width_of_the_feed_forward_networks_is_four_times_the_others_unless_the_configuration_names_it():
    config = json.loads((FIXTURES / "gpt2" / "config.json").read_text())
    for width, expected in ((None, 32), (16, 16)):
        assert GPT2.arguments({**config, "n_inner": width}, "gpt2")["intermediate_dim"] == expected
    assert GPT.arguments({**config, "n_inner": 16}, "gpt")["intermediate_dim"] == 32
    with pytest.raises(CheckpointError, match="only if `intermediate_dim` is 4 times `hidden_dim`.*=16, hidden_dim=8"):
        GPT.configuration(GPTEncoder(**SMALL))


def test_the_gelu_of_openai_gpt_is_the_approximation():
    config = json.loads((FIXTURES / "openai-gpt" / "config.json").read_text())
    assert GPT.arguments({**config, "afn": "gelu"}, "gpt")["activation"] == "gelu_tanh"
    with pytest.raises(CheckpointError, match="`afn` must be one of .*Received: 'gelu_new'"):
        GPT.arguments({**config, "afn": "gelu_new"}, "gpt")


def test_variants_of_the_attention_of_gpt2_are_one_error():
    config = json.loads((FIXTURES / "gpt2" / "config.json").read_text())
    variants = {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "add_cross_attention": True}
    with pytest.raises(CheckpointError) as error:
        GPT2.arguments({**config, **variants}, "gpt2")
    for key, value in variants.items():
        assert f"`{key}` must be {not value}. Received: {value}" in str(error.value)
