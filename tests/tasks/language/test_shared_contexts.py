"""Tokens after the same tokens have one context, which a causal language model computes once."""

import numpy as np
import pytest

from keras_transfer.tasks import likelihoods
from keras_transfer.tasks.likelihoods import different_contexts
from tests.helpers import outputs_of
from tests.tasks.language.test_causal_lm import small

ROWS = [[2, 5, 6, 7], [2, 5, 6, 8, 9], [2], [2, 5, 6], [2, 5, 6, 7], [3, 5, 6], [2, 5, 6, 8, 4, 4], [6, 5]]
ROWS = [np.array(row, "int32") for row in ROWS]


def by_hand(model, row):
    """The log-likelihood of each token of a row but the first, computed for the row alone."""
    logits = outputs_of(model, {"token_ids": row[None], "padding_mask": np.ones_like(row[None])})[0].astype("float64")
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logs[np.arange(len(row) - 1), row[1:]]


@pytest.mark.core
@pytest.mark.parametrize(("together", "batch_size"), [(3, 2), (512, 8)])
def test_likelihoods_are_those_of_each_row_alone(monkeypatch, together, batch_size):
    monkeypatch.setattr(likelihoods, "_TOGETHER", together)
    model = small()
    found = model.token_log_likelihoods(ROWS, batch_size=batch_size)
    firsts = [2, 1, 1, 3, 4, 1, 2, 1]
    later = model.token_log_likelihoods(ROWS, firsts, batch_size=batch_size)
    for row, first, values, part in zip(ROWS, firsts, found, later, strict=True):
        np.testing.assert_allclose(values, by_hand(model, row), atol=1e-5)
        np.testing.assert_allclose(part, values[first - 1 :], atol=1e-5)


def test_contexts_are_different_if_any_token_before_is():
    numbers, starts = different_contexts(ROWS)
    contexts = {}
    for row, known in zip(ROWS, numbers, strict=True):
        for place, number in enumerate(known):
            assert contexts.setdefault(number, tuple(row[: place + 1])) == tuple(row[: place + 1])
    assert len({*contexts.values()}) == len(contexts) == 13
    own = [number for known, start in zip(numbers, starts) for number in known[start:]]
    assert sorted(own) == sorted(contexts)


def test_a_row_that_begins_another_one_is_not_computed_and_unasked_contexts_need_no_logits(monkeypatch):
    sizes, predict = [], likelihoods.predict_batch

    def counted(model, inputs):
        sizes.append(len(next(iter(inputs.values()))))
        return predict(model, inputs)

    monkeypatch.setattr(likelihoods, "compiles_each_length", lambda: False)
    monkeypatch.setattr(likelihoods, "predict_batch", counted)
    model = small()
    model.token_log_likelihoods(ROWS[:5])
    model.token_log_likelihoods(ROWS[:2], [3, 3])
    assert sizes == [1, 4, 1, 2]  # One row, `2, 5, 6, 8`, whose contexts predict all tokens.
