"""The distributions of the random samplers, their arguments, and constraints on tokens."""

import json

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from keras.ops import convert_to_tensor as to_tensor
from scipy import stats

from keras_transfer import generation
from keras_transfer.generation.constraints import NEVER, Constraints
from tests.errors import check_errors
from tests.samples import REFERENCES

CONSTRAINTS = REFERENCES / "generation" / "constraints.json"
PROBABILITIES = np.array([0.05, 0.4, 0.02, 0.2, 0.1, 0.23])
ENTROPY = -(PROBABILITIES * np.log(PROBABILITIES)).sum()


# A sampler, and the tokens that it keeps, with their weights.
CASES = [
    (generation.Random(), PROBABILITIES),
    (generation.Random(temperature=0.5), PROBABILITIES**2),
    (generation.TopK(k=3), PROBABILITIES * [0, 1, 0, 1, 0, 1]),
    (generation.TopK(k=2, temperature=2.0), np.sqrt(PROBABILITIES) * [0, 1, 0, 0, 0, 1]),
    (generation.TopK(k=50), PROBABILITIES),
    (generation.TopP(p=0.7), PROBABILITIES * [0, 1, 0, 1, 0, 1]),
    (generation.TopP(p=0.4, temperature=2.0), np.sqrt(PROBABILITIES) * [0, 1, 0, 0, 0, 1]),
    (generation.MinP(p=0.24), PROBABILITIES * [0, 1, 0, 1, 1, 1]),
    # The information of the tokens differs from the entropy by 1.53, 0.55, 2.45, 0.14, 0.84 and 0.001.
    (generation.Typical(p=0.5), PROBABILITIES * [0, 1, 0, 1, 0, 1]),
    (generation.Typical(p=0.2), PROBABILITIES * [0, 0, 0, 0, 0, 1]),
]


# On other backends, one of each class.
ONE_OF_EACH = [
    pytest.param(*case, marks=() if type(case[0]) in [type(other) for other, _ in CASES[:i]] else pytest.mark.core)
    for i, case in enumerate(CASES)
]


@pytest.mark.parametrize(("sampler", "weights"), ONE_OF_EACH, ids=lambda value: type(value).__name__)
def test_a_sampler_draws_from_its_distribution(sampler, weights):
    count = 4000
    logits = np.tile(np.log(PROBABILITIES).astype("float32") + 3.0, (count, 1))
    uniform = np.random.default_rng(1).random(count).astype("float32")
    drawn = np.bincount(to_numpy(sampler.choose(to_tensor(logits), to_tensor(uniform))), minlength=6)
    kept = weights > 0
    assert (drawn[~kept] == 0).all()
    expected = count * weights[kept] / weights.sum()
    assert len(expected) == 1 or stats.chisquare(drawn[kept], expected).pvalue > 1e-3


def test_the_typical_tokens_are_those_whose_information_is_close_to_the_entropy():
    distance = np.abs(-np.log(PROBABILITIES) - ENTROPY)
    assert distance.argsort().tolist() == [5, 3, 1, 4, 0, 2]


@pytest.mark.core
@pytest.mark.parametrize("uniform", [0.0, 1.0])
def test_the_extreme_random_numbers_draw_the_first_and_the_last_candidate(uniform):
    logits = np.log(PROBABILITIES).astype("float32")[None]
    [drawn] = to_numpy(generation.MinP(p=0.24).choose(to_tensor(logits), to_tensor([uniform], "float32")))
    assert drawn == (5 if uniform else 1)


def test_greedy_chooses_the_most_likely_token():
    assert to_numpy(generation.Greedy().choose(to_tensor(np.log(PROBABILITIES)[None]), None)).tolist() == [1]


test_an_argument_out_of_range_is_an_error = check_errors(
    (lambda: Constraints(bad_words=((),)), "`bad_words` must not contain empty words"),
    (
        lambda: generation.get_sampler("nucleus"),
        "Expected a `Sampler` or one of ... 'top_p' ... Received: sampler='nuc",
    ),
)


def test_the_config_of_a_sampler_restores_it():
    sampler = generation.TopK(k=3, temperature=0.5)
    assert sampler.get_config() == {"k": 3, "temperature": 0.5}
    assert generation.TopK.from_config(sampler.get_config()).get_config() == sampler.get_config()


# === Constraints ===

TOKENS = np.array([[0, 0, 1, 2, 1, 2, 0, 0], [4, 1, 2, 3, 1, 3, 0, 0]])  # The first row has padding on the left.
FIRST, COLUMN = np.array([2, 0]), 6


def changed(constraints, scores=None):
    """Returns the scores after constraints."""
    scores = np.tile(np.array([1.0, -1.0, 2.0, -2.0, 0.5], "float32"), (2, 1)) if scores is None else scores
    return to_numpy(
        constraints.apply(
            to_tensor(scores), to_tensor(TOKENS, "int32"), to_tensor(COLUMN, "int32"), to_tensor(FIRST, "int32")
        )
    )


def test_a_repetition_penalty_applies_to_the_real_tokens_before():
    np.testing.assert_allclose(
        changed(Constraints(repetition_penalty=2.0)), [[1.0, -2.0, 1.0, -2.0, 0.5], [1.0, -2.0, 1.0, -4.0, 0.25]]
    )


@pytest.mark.parametrize(("size", "banned"), [(1, [{1, 2}, {1, 2, 3, 4}]), (2, [{1}, {1}]), (3, [{1}, set()])])
def test_no_sequence_of_tokens_occurs_twice(size, banned):
    scores = changed(Constraints(no_repeat_ngram=size))
    assert [set(np.flatnonzero(row == np.float32(NEVER))) for row in scores] == banned


def test_the_last_token_of_a_bad_word_is_excluded_after_the_others():
    scores = changed(Constraints(bad_words=((0,), (1, 2, 4), (2, 3), (1, 3, 2), (1, 2, 1, 2, 3), (0, 1, 2, 1, 2, 1))))
    assert [set(np.flatnonzero(row == np.float32(NEVER))) for row in scores] == [{0, 3, 4}, {0, 2}]


def test_no_text_ends_before_its_minimum_length():
    def ended(**options):
        constraints, ends = Constraints(**options), {"length": 4, "end_ids": (1, 3)}
        scores, tokens = np.zeros((2, 5), "float32"), np.zeros((2, 8), "int32")
        found = constraints.apply(to_tensor(scores), to_tensor(tokens), COLUMN, to_tensor(FIRST, "int32"), **ends)
        return [set(np.flatnonzero(row == np.float32(NEVER))) for row in to_numpy(found)]

    # At place 6, the rows have 4 and 6 tokens, of which 2 are new.
    assert ended(min_length=5) == [{1, 3}, set()] and ended(min_length=4) == [set(), set()]
    assert ended(min_new_tokens=3) == [{1, 3}, {1, 3}] and ended(min_new_tokens=2) == [set(), set()]


@pytest.mark.core
def test_constraints_give_the_scores_of_transformers():
    for case in json.loads(CONSTRAINTS.read_text()):
        options = {key: _hashable(value) for key, value in case["constraints"].items()}
        tokens, column, room = np.array(case["tokens"], "int32"), case["column"], case["room"]
        first, limit = (to_tensor(np.full(len(tokens), place, "int32")) for place in (0, room))
        given = {"limit": limit, "length": case["length"], "end_ids": tuple(case["ends"])}
        tokens = np.pad(tokens, [(0, 0), (0, room - column)])
        scores = to_tensor(np.array(case["logits"], "float32"))
        scores = Constraints(**options).apply(scores, to_tensor(tokens), column, first, **given)
        expected = np.array([[NEVER if x is None else x for x in row] for row in case["scores"]], "float32")
        np.testing.assert_allclose(to_numpy(scores), expected, rtol=1e-6)


def _hashable(value):
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
