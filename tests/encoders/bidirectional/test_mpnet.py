"""`MPNetEncoder`: the protocol, and what it must have to be loaded."""

import json
import shutil

import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import Encoder, MPNetEncoder
from tests.architecture import FIXTURES
from tests.helpers import encoder_inputs

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 10, "initializer_range": 0.3}


def test_the_biases_of_distances_that_occur_matter():
    encoder = MPNetEncoder(**SMALL)
    inputs = encoder_inputs(encoder, [[0, 6, 7, 2]])
    before = np.array(encoder(inputs)["sequence_output"])
    table = encoder.block_inputs.embeddings
    for bucket, matters in ((3, True), (4, False), (19, True), (20, False)):  # three or four tokens back or ahead
        changed = np.array(table)
        changed[bucket] += 2
        table.assign(changed)
        difference = np.abs(np.array(encoder(inputs)["sequence_output"]) - before).max()
        assert (difference > 1e-3) == matters
        changed[bucket] -= 2
        table.assign(changed)


def test_a_step_with_all_tokens_and_a_longer_cache_is_a_call():
    encoder = MPNetEncoder(**SMALL)
    ids = np.array([[5, 6, 7, 8]])
    expected = np.array(encoder({"token_ids": ids, "padding_mask": np.ones_like(ids)})["sequence_output"])
    found, _ = encoder.step(ids, encoder.empty_cache(1, 6), 0, np.array([[1, 1, 1, 1, 0, 0]]))
    np.testing.assert_allclose(np.array(found), expected, atol=1e-5)


def test_another_number_of_buckets_is_an_error(tmp_path):
    folder = shutil.copytree(FIXTURES / "mpnet", tmp_path / "mpnet")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "relative_attention_num_buckets": 64}))
    with pytest.raises(CheckpointError, match="`relative_attention_num_buckets` must be 32. Received: 64"):
        Encoder.from_pretrained(folder)
