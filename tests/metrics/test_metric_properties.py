"""A property of the perplexity: it is that of the used places, for any rows in any batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transfer.metrics import (
    Perplexity,
)
from tests.properties import texts  # noqa: F401 (loads the settings)

seeds = st.integers(0, 2**31)


def value(metric, *arrays, batch=None):
    for start in range(0, len(arrays[0]), batch or len(arrays[0])):
        metric.update_state(*(array[start : start + (batch or len(array))] for array in arrays))
    return float(metric.result())


@given(seed=seeds, count=st.integers(1, 5), length=st.integers(1, 6))
def test_the_perplexity_counts_only_used_places(seed, count, length):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(count, length, 4)).astype("float32")
    labels, weights = random.integers(0, 4, (count, length)), random.integers(0, 2, (count, length)).astype("float32")
    if not weights.any():
        return
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    used = -np.take_along_axis(logs, labels[..., None], axis=-1)[..., 0][weights > 0]
    assert value(Perplexity(), labels, logits, weights, batch=2) == pytest.approx(np.exp(used.mean()), rel=1e-4)
