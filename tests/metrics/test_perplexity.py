"""Perplexity over tokens."""

import keras
import numpy as np
import pytest

from keras_transfer.metrics import Perplexity
from tests.metrics.cases import CROSSENTROPY, run_metric_test


@pytest.mark.report("Perplexity is averaged over batches.", "keras-hub#2958", "keras-hub#2937")
def test_every_token_counts_alike_and_positions_without_weight_do_not():
    random = np.random.default_rng(0)
    metric, logs = Perplexity(), []
    for length in (3, 5):
        logits = random.normal(size=(2, length, 4)).astype("float32")
        targets = random.integers(0, 4, (2, length))
        weights = (np.arange(length) < [[length], [1]]).astype("float32")
        metric.update_state(targets, logits, weights)
        values = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        logs += np.take_along_axis(values, targets[..., None], -1)[..., 0][weights == 1].tolist()
    assert float(metric.result()) == pytest.approx(np.exp(-np.mean(logs)), rel=1e-5)


@pytest.mark.core
def test_it_is_a_well_behaved_metric():
    targets, logits = np.arange(24).reshape(8, 3) % 4, np.random.default_rng(0).normal(size=(8, 3, 4)).astype("float32")
    chances = np.take_along_axis(np.array(keras.ops.softmax(logits)), targets[..., None], -1)
    run_metric_test(
        Perplexity, "perplexity", targets, logits, np.exp(-np.log(chances).mean()), empty=1.0, loss=CROSSENTROPY
    )
