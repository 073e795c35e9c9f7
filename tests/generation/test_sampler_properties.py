"""Properties of samplers: the token is one that NumPy permits, and as likely as the model says."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from keras_transfer.generation import TopK, TopP, get_sampler
from tests.properties import texts  # noqa: F401 (loads the settings)

seeds = st.integers(0, 2**31)


def drawn(sampler, logits, uniform):
    return ops.convert_to_numpy(sampler.choose(ops.convert_to_tensor(logits), ops.convert_to_tensor(uniform)))


def random_logits(seed, size):
    random = np.random.default_rng(seed)
    return (random.normal(size=(5, size)) * 2).astype("float32"), random.random(5).astype("float32")


@given(seed=seeds, size=st.integers(2, 30), k=st.integers(1, 40), temperature=st.floats(0.2, 3))
def test_top_k_draws_one_of_the_k_most_likely_tokens(seed, size, k, temperature):
    logits, uniform = random_logits(seed, size)
    for row, token in zip(logits, drawn(TopK(k, temperature=temperature), logits, uniform)):
        assert (row > row[token]).sum() < k


@given(seed=seeds, size=st.integers(2, 30), p=st.floats(0.01, 1))
def test_top_p_draws_a_token_before_which_less_than_p_lies(seed, size, p):
    logits, uniform = random_logits(seed, size)
    for row, token in zip(logits, drawn(TopP(p), logits, uniform)):
        probabilities = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        assert probabilities[row > row[token]].sum() < p + 1e-5


@given(seed=seeds, size=st.integers(2, 30))
def test_the_greedy_sampler_and_one_candidate_choose_the_most_likely(seed, size):
    logits, uniform = random_logits(seed, size)
    for sampler in (get_sampler("greedy"), TopK(1)):
        assert drawn(sampler, logits, uniform).tolist() == logits.argmax(axis=1).tolist()


@given(seed=seeds, size=st.integers(2, 12))
def test_a_random_token_is_as_likely_as_its_probability(seed, size):
    logits = np.repeat(random_logits(seed, size)[0][:1], 2000, axis=0)
    uniform = ((np.arange(2000) + 0.5) / 2000).astype("float32")
    found = np.bincount(drawn(get_sampler("random"), logits, uniform), minlength=size) / 2000
    probabilities = np.exp(logits[0] - logits[0].max())
    np.testing.assert_allclose(found, probabilities / probabilities.sum(), atol=2e-3)
