"""Perplexity over tokens."""

import numpy as np
import pytest

from keras_transfer.metrics import Perplexity


@pytest.mark.core
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
