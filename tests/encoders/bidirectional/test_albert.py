"""`AlbertEncoder`: the protocol, and the one block that all layers share."""

import json
import shutil

import numpy as np
import pytest

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.checkpoints.architectures.albert import ALBERT
from keras_transfer.encoders import AlbertEncoder, Encoder
from keras_transfer.tasks import TextClassifier
from tests.architecture import FIXTURES
from tests.helpers import encoder_inputs

SMALL = {"vocabulary_size": 12, "num_layers": 3, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 10, "initializer_range": 0.3, "embedding_dim": 4}


def test_all_layers_are_the_same_block():
    deep, shallow = AlbertEncoder(**SMALL), AlbertEncoder(**{**SMALL, "num_layers": 2})
    shallow.set_weights(deep.get_weights())
    inputs = encoder_inputs(deep, [[5, 6, 7]])
    again = shallow.blocks[0](shallow(inputs)["sequence_output"])
    np.testing.assert_allclose(again, deep(inputs)["sequence_output"], atol=1e-5)


def test_the_shared_block_of_a_classifier_is_one_layer_group():
    groups = layer_groups(TextClassifier(AlbertEncoder(**SMALL), num_classes=2))
    assert [group.name for group in groups] == ["embeddings", "block_0", "pooler", "head"]


def test_settings_that_a_configuration_lacks_are_those_of_the_second_version():
    sizes = {"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2}
    found = ALBERT.arguments({**sizes, "intermediate_size": 16}, "albert")
    own = AlbertEncoder(**SMALL).settings
    for name in ("activation", "dropout", "attention_dropout", "num_segments", "layer_norm_epsilon"):
        assert found[name] == own[name]
    assert found["embedding_dim"] == 128


def test_a_checkpoint_with_several_blocks_is_an_error(tmp_path):
    folder = shutil.copytree(FIXTURES / "albert", tmp_path / "albert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_groups": 2, "inner_group_num": 3}))
    with pytest.raises(CheckpointError) as error:
        Encoder.from_pretrained(folder)
    assert "`num_hidden_groups` must be 1. Received: 2\n  `inner_group_num` must be 1. Received: 3" in str(error.value)
