"""Properties of objectives: no token is lost, only chosen places change, and lengths stay within what is promised."""

import itertools

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transfer.objectives import (
    Denoising,
    NextToken,
    PermutationLanguageModel,
    PrefixLM,
    SequenceAutoencoder,
    SpanCorruption,
    SpanPrediction,
    TokenMasking,
    TranslationMasking,
)
from tests.properties import texts  # noqa: F401 (loads the settings)

MASK, SPECIAL, VOCABULARY, SENTINELS = 4, [0, 1, 2, 3, 4], 50, [*range(90, 60, -1)]
seeds = st.integers(0, 2**31)
rates = st.floats(0.01, 0.5)


OBJECTIVES = [
    Denoising(0.2, poisson_mean=None, replace_length=0, stop_tokens=("!", "."), seed=3),
    PermutationLanguageModel(0.2, max_span_length=3, starts="tokens", reuse_length=4, permutation_size=2, seed=3),
    PrefixLM(0.3, seed=4),
    SequenceAutoencoder(seed=5),
    SpanCorruption(0.2, mean_span_length=2.5, seed=3),
    SpanPrediction(0.4, block_length=64),
    TokenMasking(0.2, mask_token_rate=0.7, random_token_rate=0.2, seed=3),
    TokenMasking(units="spans", max_words=np.int64(7), seed=3),
    TranslationMasking(0.2, mask_token_rate=0.7),
]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_config_makes_an_objective_again(objective):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(objective))
    assert type(again) is type(objective) and again.get_config() == objective.get_config()


@st.composite
def padded(draw):
    """Rows with special tokens around them, and padding."""
    lengths = draw(st.lists(st.integers(0, 20), min_size=1, max_size=5))
    random, width = np.random.default_rng(draw(seeds)), max(lengths) + 2
    ids, mask = np.zeros((len(lengths), width), int), np.zeros((len(lengths), width), int)
    for row, length in enumerate(lengths):
        ids[row, : length + 2] = [2, *random.integers(5, VOCABULARY, length), 3]
        mask[row, : length + 2] = 1
    return {"token_ids": ids, "padding_mask": mask}


@st.composite
def rows(draw, **options):
    lengths = draw(st.lists(st.integers(**{"min_value": 0, "max_value": 25, **options}), min_size=1, max_size=4))
    random = np.random.default_rng(draw(seeds))
    return [random.integers(5, VOCABULARY, length) for length in lengths]


@given(
    inputs=padded(),
    rate=rates,
    units=st.sampled_from(["tokens", "words", "ngrams", "spans"]),
    kinds=st.tuples(st.floats(0, 1), st.floats(0, 1)).filter(lambda pair: sum(pair) <= 1),
    seed=seeds,
)
def test_masking_changes_only_chosen_places_and_its_targets_are_what_was_there(inputs, rate, units, kinds, seed):
    objective = TokenMasking(rate, mask_token_rate=kinds[0], random_token_rate=kinds[1], units=units)
    starts = np.random.default_rng(seed).random(VOCABULARY) < 0.7
    hidden, targets = objective(inputs, np.random.default_rng(seed), MASK, SPECIAL, VOCABULARY, starts)
    ids, length = inputs["token_ids"], inputs["token_ids"].shape[1]
    assert targets.shape == hidden["mask_positions"].shape == (len(ids), int(np.ceil(rate * length)))
    found = zip(ids, hidden["token_ids"], hidden["mask_positions"], targets)
    for row, (before, after, places, wanted) in enumerate(found):
        used = places[places >= 0]
        assert (wanted >= 0).tolist() == (places >= 0).tolist() and used.tolist() == sorted({*used.tolist()})
        assert before[used].tolist() == wanted[places >= 0].tolist()
        assert not np.isin(before[used], SPECIAL).any() and inputs["padding_mask"][row, used].all()
        rest = np.setdiff1d(np.arange(length), used)
        assert before[rest].tolist() == after[rest].tolist()
        assert not np.isin(after[used], [0, 1, 2, 3]).any()
        available = (~np.isin(before, SPECIAL)).sum()
        most = min(max(np.round(rate * available), 1), available)
        assert len(used) == most if units == "tokens" else len(used) <= most


@given(given_rows=rows(), density=st.floats(0.05, 0.9), mean=st.floats(1, 6), seed=seeds)
def test_the_spans_and_the_rest_give_the_text_back(given_rows, density, mean, seed):
    objective = SpanCorruption(density, mean_span_length=mean)
    sources, targets = objective.rewrite(given_rows, np.random.default_rng(seed), SENTINELS)
    longest = [objective.max_lengths(len(row)) for row in given_rows]
    for row, source, target, (of_source, of_target) in zip(given_rows, sources, targets, longest):
        spans, last = {}, None
        for token in target.tolist():
            if token in SENTINELS:
                last = token
            else:
                spans.setdefault(last, []).append(token)
        joined = [spans.pop(token, []) if token in SENTINELS else [token] for token in source.tolist()]
        assert [*itertools.chain(*joined)] == row.tolist() and not spans
        assert len(source) <= of_source and len(target) <= of_target


@given(given_rows=rows(), density=st.floats(0.01, 0.5), seed=seeds)
def test_a_prefix_and_its_continuation_are_the_text(given_rows, density, seed):
    objective = PrefixLM(density)
    for row, source, target in zip(given_rows, *objective.rewrite(given_rows, np.random.default_rng(seed))):
        assert [*source, *target] == row.tolist()
        assert len(target) >= min(len(row), 1)
        most = objective.max_lengths(len(row))
        assert len(source) <= max(most[0], 0) and len(target) <= most[1]


@given(given_rows=rows(), seed=seeds)
def test_an_autoencoder_writes_what_it_reads(given_rows, seed):
    for row, source, target in zip(given_rows, *SequenceAutoencoder().rewrite(given_rows, np.random.default_rng(seed))):
        assert source.tolist() == target.tolist() == row.tolist()


@given(
    given_rows=rows(),
    options=st.fixed_dictionaries(
        {
            "mask_rate": st.sampled_from([0.0, 0.3]),
            "insertion_rate": st.sampled_from([0.0, 0.2]),
            "rotation_rate": st.sampled_from([0.0, 1.0]),
            "permutation_rate": st.sampled_from([0.0, 1.0]),
        }
    ),
    seed=seeds,
)
def test_noise_keeps_the_target_and_permutations_keep_the_tokens(given_rows, options, seed):
    if not any(options.values()):
        return
    objective = Denoising(stop_tokens=["."], **options)
    sources, targets = objective.rewrite(given_rows, np.random.default_rng(seed), MASK, VOCABULARY, SPECIAL, [7, 8])
    for row, source, target in zip(given_rows, sources, targets):
        assert target.tolist() == row.tolist()
        if options["mask_rate"] == options["insertion_rate"] == 0:
            assert sorted(source) == sorted(row)
        assert not np.isin(source, [0, 1, 2, 3]).any()


@given(inputs=padded())
def test_each_real_token_but_the_first_is_a_target_once(inputs):
    _, targets, weights = NextToken()(inputs)
    lengths = inputs["padding_mask"].sum(axis=1)
    assert weights.sum(axis=1).tolist() == (lengths - 1).tolist()
    for ids, row, length in zip(inputs["token_ids"], targets, lengths):
        assert row[: length - 1].tolist() == ids[1:length].tolist() and not row[length - 1 :].any()
