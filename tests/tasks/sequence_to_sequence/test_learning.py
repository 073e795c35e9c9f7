"""A small encoder-decoder with random weights learns to reverse sequences of 100 tokens."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import MBart
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks import Seq2SeqLM
from tests.helpers import eager

TOKENS, LENGTH, START = 100, 8, 1


def pairs(count, random):
    """Inputs and targets: random sequences, and these backwards."""
    sources = random.integers(2, TOKENS + 2, (count, LENGTH)).astype("int32")
    targets, mask = sources[:, ::-1], np.ones_like(sources)
    before = np.concatenate([np.full((count, 1), START, "int32"), targets[:, :-1]], axis=1)
    inputs = {"token_ids": sources, "padding_mask": mask, "decoder_token_ids": before, "decoder_padding_mask": mask}
    return inputs, targets


@pytest.mark.slow
def test_it_learns_to_write_new_sequences_backwards():
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    sizes = {"num_layers": 1, "num_heads": 4, "hidden_dim": 64, "intermediate_dim": 128}
    # Sources of 8 tokens, and positions that are no multiple of 16, to which sources are padded otherwise.
    encoder = MBart(TOKENS + 2, **sizes, dropout=0.1, max_sequence_length=12, initializer_range=0.1)
    model = Seq2SeqLM(encoder, start_token=START, max_new_tokens=LENGTH)
    model.compile(FusedAdamW(3e-3))
    model.fit(*pairs(8192, random), batch_size=64, verbose=0)
    inputs, targets = pairs(128, random)
    with eager():
        written = model.generate([row.tolist() for row in inputs["token_ids"]], end_token=None, batch_size=128)
    assert np.mean(np.array(written) == targets) > 0.99  # by chance 0.01
