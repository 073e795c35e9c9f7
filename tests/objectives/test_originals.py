"""Noise does what the original code of T5, BART, MASS and XLM does, given the same random choices.

`tests/references/make_objectives.py` ran the original code, and wrote down what it drew and returned.
"""

import json
import zlib

import numpy as np
import pytest

from keras_transfer.objectives import Denoising, PrefixLM, SpanCorruption, SpanPrediction, TranslationMasking
from keras_transfer.objectives.noise import corrupt_spans
from tests.samples import REFERENCES

SENTINELS, MASK, STOP, SIZE = np.arange(32099, 31799, -1), 4, 6, 5000


@pytest.fixture(scope="module")
def t5():
    return np.load(REFERENCES / "objectives.npz")


@pytest.fixture(scope="module")
def drawn():
    return json.loads((REFERENCES / "objectives.json").read_text("utf-8"))


@pytest.mark.parametrize(("name", "longest"), [("default", 600), ("many", 600), ("any", 200)])
def test_given_the_same_mask_sources_and_targets_are_those_of_t5(t5, name, longest):
    masks = np.unpackbits(t5[f"masks_{name}"])
    for length, expected in zip(range(1, longest + 1), t5[f"digests_{name}"], strict=True):
        mask, masks = masks[:length], masks[length:]
        pair = corrupt_spans((np.arange(length) * 7 % 1000 + 3).astype("int32"), mask, SENTINELS)
        assert [zlib.crc32(part.tobytes()) for part in pair] == expected.tolist(), length


@pytest.mark.parametrize(
    ("name", "options"), [("default", {}), ("many", {"noise_density": 0.5, "mean_span_length": 8})]
)
def test_texts_have_as_many_noise_tokens_and_spans_as_in_t5(t5, name, options):
    objective, random = SpanCorruption(**options), np.random.default_rng(0)
    tokens, spans = objective.counts(np.arange(1, 4097))
    np.testing.assert_array_equal(tokens[1:], t5[f"counts_{name}"][0, 1:])
    np.testing.assert_array_equal(spans[1:], t5[f"counts_{name}"][1, 1:])
    for length, expected in zip(range(1, 601), t5[f"counts_{name}"].T):
        mask = objective.draw(length, random)
        begins = mask & ~np.concatenate([[False], mask[:-1]])
        assert (len(mask), mask.sum(), begins.sum()) == (length, *expected)


@pytest.mark.parametrize(("name", "density"), [("half", 0.5), ("quarter", 0.25)])
def test_prefixes_have_the_bounds_of_t5(t5, name, density):
    objective = PrefixLM(density)
    found = [objective.bounds(length) for length in range(1, 601)]
    np.testing.assert_array_equal(found, t5[f"bounds_{name}"])


class Replay:
    """A generator of random numbers that returns recorded ones, which must be as many as are asked for."""

    def __init__(self, **numbers):
        self.numbers = {kind: [np.asarray(values) for values in lists] for kind, lists in numbers.items()}

    def take(self, kind, count=None):
        values = self.numbers[kind].pop(0)
        assert count is None or len(values) == count, (kind, count)
        return values

    def permutation(self, given):
        values = self.take("permutation", given if isinstance(given, int) else len(given))
        return values if isinstance(given, int) else np.asarray(given)[values.astype(int)]

    def choice(self, options, count, p):
        return self.take("choice", count)

    def random(self, count=None):
        return self.take("random", count)

    def integers(self, low, high=None, count=None, endpoint=False):
        return self.take("integers", count).copy()

    def is_empty(self):
        return not any(lists for lists in self.numbers.values())


def options_of(name, changes):
    """The arguments of `Denoising` for those of the original."""
    length = changes.get("mask_length", "span-poisson")
    return {
        "mask_rate": changes["mask"],
        "poisson_mean": changes.get("poisson_lambda", 3.5) if length == "span-poisson" else None,
        "replace_length": changes.get("replace_length", 1),
        "whole_words": length != "subword",
        "random_token_rate": changes["mask_random"],
        "insertion_rate": changes.get("insert", 0.0),
        "rotation_rate": changes.get("rotate", 0.0),
        "permutation_rate": changes.get("permute_sentences", 0.0),
    }


@pytest.mark.parametrize("name", ["bart", "insertions", "deletion", "each token", "words", "tokens"])
def test_given_the_same_choices_sources_are_those_of_bart(drawn, name):
    objective = Denoising(**options_of(name, drawn["bart"]["options"][name]))
    starts = np.isin(np.arange(SIZE), drawn["bart"]["word_starts"])
    cases = [case for case in drawn["bart"]["cases"] if case["name"] == name]
    for case in cases:
        choices = case["drawn"]
        uniform = choices.get("random", [])
        ids = (
            [choices["ids"]]
            if any(value < objective.random_token_rate for values in uniform for value in values)
            else []
        )
        random = Replay(
            permutation=choices.get("permutation", []),
            choice=choices.get("lengths", []),
            random=[*uniform, *choices.get("rotation", [])],
            integers=[*ids, *choices.get("inserted", []), *(offset - 1 for offset in choices.get("offset", []))],
        )
        [source], [target] = objective.rewrite(
            [case["row"]], random, MASK, SIZE, stop_ids=[STOP], word_starts=starts if objective.whole_words else None
        )
        assert source.tolist() == case["source"] and target.tolist() == case["row"]
        assert random.is_empty(), random.numbers
    assert len(cases) == 24 and any(case["source"] != case["row"] for case in cases)


@pytest.mark.parametrize("index", range(16))
def test_given_the_same_choices_rows_are_those_of_mass(drawn, index):
    case = drawn["mass"][index]
    objective = SpanPrediction(case["rate"], block_length=case["block"])
    kinds, source = np.array(case["drawn"]["kinds"]), np.array(case["source"])
    positions = np.array(case["positions"]) - 1  # The original counts from the id of its padding.
    random = Replay(
        integers=[*case["drawn"]["starts"], source[positions]],
        random=[np.array([0.0, 0.99, 0.85])[kinds]],  # a mask, the same token, a random token
    )
    found = objective.rewrite([case["row"]], random, MASK, SIZE)
    expected = (source, case["prev_output_tokens"], case["target"], positions)
    for [ours], theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert random.is_empty()


@pytest.mark.parametrize("index", range(4))
def test_given_the_same_choices_rows_are_those_of_xlm(drawn, index):
    case = drawn["xlm"][index]
    objective = TranslationMasking(0.3)
    kinds, source = np.array(case["drawn"]["kinds"], int), np.array(case["token_ids"])
    random = Replay(
        random=[case["drawn"]["chosen"], np.array([0.0, 0.99, 0.85])[kinds]],
        integers=[source[case["mask_positions"]]],
    )
    first, second = case["rows"]
    given = {"token_ids": [first + second], "language_ids": [[5] * len(first) + [9] * len(second)]}
    given = {name: np.array(rows) for name, rows in given.items()}
    inputs, [targets] = objective({**given, "padding_mask": np.ones_like(given["token_ids"])}, random, MASK, SIZE)
    for name in ("token_ids", "positions", "language_ids", "mask_positions"):
        np.testing.assert_array_equal(inputs[name][0], case[name], name)
    np.testing.assert_array_equal(targets, case["targets"])
    assert random.is_empty()
