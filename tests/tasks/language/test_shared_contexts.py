"""Tokens after the same tokens have one context, which a causal language model computes once."""

import numpy as np
import pytest

from keras_transfer.encoders import T5
from keras_transfer.tasks import MaskedLM, Seq2SeqLM, generates, likelihoods
from tests.helpers import outputs_of
from tests.tasks.dialogue.test_dialogue_model import model as dialogue_model
from tests.tasks.language.test_causal_lm import small
from tests.tasks.tiny import encoder, preprocessor

ROWS = [[2, 5, 6, 7], [2, 5, 6, 8, 9], [2], [2, 5, 6], [2, 5, 6, 7], [3, 5, 6], [2, 5, 6, 8, 4, 4], [6, 5]]
ROWS = [np.array(row, "int32") for row in ROWS]


def by_hand(model, row):
    """The log-likelihood of each token of a row but the first, computed for the row alone."""
    logits = outputs_of(model, {"token_ids": row[None], "padding_mask": np.ones_like(row[None])})[0].astype("float64")
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logs[np.arange(len(row) - 1), row[1:]]


@pytest.mark.core
@pytest.mark.parametrize(("together", "rows", "batch_size"), [(3, 100, 2), (512, 3, 8)])
def test_likelihoods_are_those_of_each_row_alone(monkeypatch, together, rows, batch_size):
    monkeypatch.setattr(likelihoods, "_TOGETHER", together)
    monkeypatch.setattr(generates, "_ROWS", rows)
    model = small()
    found = model.token_log_likelihoods(ROWS, batch_size=batch_size)
    firsts = [2, 1, 1, 3, 4, 1, 2, 1]
    later = model.token_log_likelihoods(ROWS, firsts, batch_size=batch_size)
    for row, first, values, part in zip(ROWS, firsts, found, later, strict=True):
        np.testing.assert_allclose(values, by_hand(model, row), atol=1e-5)
        np.testing.assert_allclose(part, values[first - 1 :], atol=1e-5)


def test_a_head_with_weights_of_its_own_has_a_bias():
    model = small(tied=False)
    model.get_layer("logits").bias.assign(np.random.default_rng(0).normal(size=17))
    for row, values in zip(ROWS, model.token_log_likelihoods(ROWS), strict=True):
        np.testing.assert_allclose(values, by_hand(model, row), atol=1e-5)


@pytest.mark.core
def test_likelihoods_in_half_precision_are_those_of_the_logits():
    model = small(dtype="mixed_bfloat16")
    for row, values in zip(ROWS, model.token_log_likelihoods(ROWS), strict=True):
        np.testing.assert_allclose(values, by_hand(model, row), atol=0.05)


def test_beginnings_with_delimiters_belong_to_the_same_speakers_in_all_rows():
    model = dialogue_model()
    rows = [[2, 8, 4, 9, 10, 5, 8, 3], [2, 8, 4, 9, 10, 5, 11, 14, 3], [2, 8, 4, 9, 5, 8, 3], [2, 8, 4, 9, 10]]
    found = model.score(rows).token_log_likelihoods
    for row, values in zip(rows, found, strict=True):
        [alone] = model.score([row]).token_log_likelihoods
        np.testing.assert_allclose(values, alone, atol=1e-5)
        np.testing.assert_allclose(values, by_hand(model, np.array(row, "int32")), atol=1e-5)


def masked():
    return MaskedLM(encoder(), preprocessor())


def writer():
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8, "head_dim": 4}
    return Seq2SeqLM(T5(17, **sizes), preprocessor())


@pytest.mark.core
@pytest.mark.parametrize("make", [small, masked, writer])
def test_scores_are_those_of_the_table_as_it_is(make):
    model, same = make(), make()
    texts = (["a b c", "good"],) * (2 if make is writer else 1)
    model.score(*texts)
    table = getattr(model.encoder, "decoder", model.encoder).token_embedding.embeddings
    table.assign(np.random.default_rng(0).normal(size=table.shape))
    same.set_weights(model.get_weights())
    found, expected = (getattr(each, "log_likelihoods", each) for each in (model.score(*texts), same.score(*texts)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


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
