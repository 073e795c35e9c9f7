"""`DebertaV2Encoder`: the protocol, its convolution, and the settings of the folders that it is read from."""

import json

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.checkpoints.architectures.deberta_v2 import DEBERTA_V2
from keras_transfer.encoders import DebertaV2Encoder
from tests.architecture import FIXTURES
from tests.helpers import encoder_inputs

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 10, "num_buckets": 4, "conv_kernel_size": 3, "initializer_range": 0.3}
CONFIG = json.loads((FIXTURES / "deberta-v2" / "config.json").read_text())


def test_texts_may_be_longer_than_the_largest_distance():
    encoder = DebertaV2Encoder(**{**SMALL, "conv_kernel_size": 0})
    ids = np.arange(24) % 12
    assert np.isfinite(np.array(encoder(encoder_inputs(encoder, [ids]))["sequence_output"])).all()


def test_a_step_with_a_cache_is_an_error():
    encoder = DebertaV2Encoder(**{**SMALL, "conv_kernel_size": 0})
    with pytest.raises(ValueError, match=r"needs all tokens at once.*Received: layers=\['DistanceEmbedding'\]"):
        encoder.step(np.array([[5, 6]]), encoder.empty_cache(1, 4), 0, np.ones((1, 4)))


def test_older_configurations_are_read_too():
    older = {**CONFIG, "pos_att_type": "c2p|p2c", "max_relative_positions": 10, "position_buckets": -1}
    found = DEBERTA_V2.arguments(older, "deberta")
    assert (found["num_buckets"], found["distance_norm"], found["conv_kernel_size"]) == (0, True, 0)


@pytest.mark.parametrize(
    "setting",
    [
        {"pos_att_type": "c2p"},
        {"position_biased_input": True},
        {"max_relative_positions": 5},
        {"embedding_size": 4},
        {"type_vocab_size": 2},
        {"share_att_key": False},
        {"norm_rel_ebd": "rms"},
    ],
    ids=str,
)
def test_other_variants_are_an_error(setting):
    [(key, value)] = setting.items()
    with pytest.raises(CheckpointError, match=f"{key}.*Received: .*{value}"):
        DEBERTA_V2.arguments({**CONFIG, **setting}, "deberta")
