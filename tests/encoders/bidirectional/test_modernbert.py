"""`ModernBertEncoder`: the protocol, its two kinds of blocks, and the settings of the folders that it is read from."""

import json

import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.checkpoints.architectures.modernbert import MODERN_BERT
from keras_transfer.encoders import ModernBertEncoder
from tests.architecture import FIXTURES
from tests.errors import check_errors

SMALL = {"vocabulary_size": 12, "num_layers": 3, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"window": 1, "global_attention_every": 2, "initializer_range": 0.3}
CONFIG = json.loads((FIXTURES / "modernbert" / "config.json").read_text())


@pytest.mark.report("ModernBERT is not available in Keras.", "keras-hub#2027", "keras-hub#2079")
def test_global_and_local_blocks_alternate_and_each_kind_has_its_positions():
    encoder = ModernBertEncoder(**SMALL)
    assert [block.attention.window for block in encoder.blocks] == [None, 1, None]
    assert [layer.base for layer in encoder.block_inputs] == [160000.0, 10000.0, 160000.0]
    assert not encoder.blocks[0].attention_norm.weights and encoder.blocks[1].attention_norm.weights


def test_configurations_of_both_generations_are_read():
    old = {key: value for key, value in CONFIG.items() if key not in ("layer_types", "rope_parameters")}
    old |= {"global_attn_every_n_layers": 2, "global_rope_theta": 100.0, "local_rope_theta": 10000.0}
    found = MODERN_BERT.arguments(CONFIG, "modernbert")
    assert found == MODERN_BERT.arguments(old, "modernbert")
    assert (found["window"], found["global_attention_every"], found["rotary_base"]) == (2, 2, 100.0)


test_other_variants_are_an_error = check_errors(
    ({"layer_types": ["sliding_attention", "full_attention", "full_attention"]}, "at regular intervals ... Received"),
    ({"layer_types": ["full_attention"]}, "once for each of the 3 blocks ... Received: layer_types"),
    ({"mlp_bias": True}, "`mlp_bias` must be False. Received: True"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "`rope_scaling` must be None. Received"),
    ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "must be 'default'. Received: 'yarn'"),
    ({"rope_parameters": [1]}, "The configuration cannot be read. Received: AttributeError"),
    error=CheckpointError,
    call=lambda setting: MODERN_BERT.arguments({**CONFIG, **setting}, "modernbert"),
)
