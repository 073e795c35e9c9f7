"""The loss of an evaluation is a mean over what counts, however the rows are batched."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import T5
from keras_transfer.tasks import MaskedLM, Seq2SeqLM, TokenClassifier
from tests.helpers import EAGER
from tests.tasks.tiny import VOCABULARY, encoder

IDS = np.random.default_rng(0).integers(5, len(VOCABULARY), (4, 6)).astype("int32")
INPUTS = {"token_ids": IDS, "padding_mask": np.ones_like(IDS)}
TARGETS = IDS[:, ::-1] % 3
ROWS = np.array([0.0, 1.0, 0.5, 0.0], "float32")


def tagger():
    return TokenClassifier(encoder(), label_names=["a", "b", "c"], dropout=0.0), {"segment_ids": np.zeros_like(IDS)}


def writer():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8, "head_dim": 4}
    decoder = {"decoder_token_ids": IDS, "decoder_padding_mask": np.ones_like(IDS)}
    return Seq2SeqLM(T5(len(VOCABULARY), **sizes, dropout=0.0)), decoder


def masked():
    places = {"segment_ids": np.zeros_like(IDS), "mask_positions": np.tile(np.arange(6, dtype="int32"), (4, 1))}
    return MaskedLM(encoder()), places


@pytest.mark.core
@pytest.mark.parametrize("make", [tagger, writer])
def test_rows_of_weight_0_do_not_count_however_they_are_batched(make):
    keras.utils.set_random_seed(0)
    (task, more), weights = make(), np.repeat(ROWS[:, None], 6, axis=1)
    task.compile(keras.optimizers.SGD(0.0), run_eagerly=EAGER, jit_compile=False)
    data = {**INPUTS, **more}
    losses = [
        task.evaluate(data, TARGETS, sample_weight=weights, batch_size=size, verbose=0, return_dict=True)["loss"]
        for size in (1, 4)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    logits = keras.ops.convert_to_numpy(task(data, training=False))
    values = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, TARGETS[..., None], -1)[..., 0]
    total = (weights != 0).sum() if make is writer else weights.size  # A tagger's loss is a mean over its words.
    assert losses[1] == pytest.approx((values * weights).sum() / total, abs=1e-5)


def test_each_target_counts_alike_in_batches_with_other_numbers_of_them():
    keras.utils.set_random_seed(0)
    task, more = masked()
    task.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    more["mask_positions"][1:, 1:] = -1
    targets = np.where(more["mask_positions"] < 0, -1, TARGETS)
    one, four = (task.evaluate({**INPUTS, **more}, targets, batch_size=n, verbose=0)[0] for n in (1, 4))
    assert one == pytest.approx(four, abs=1e-5)
