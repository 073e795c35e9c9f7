"""Sentences are scored by each kind of language model, pairs are counted by hand, and words find substitutes."""

import keras
import numpy as np
import pytest

from keras_transfer.analysis import minimal_pairs, sentence_scores, substitutes
from keras_transfer.analysis.behavior import acceptability
from keras_transfer.datasets import MinimalPairs
from keras_transfer.encoders import ElmoEncoder, GPT2Encoder
from keras_transfer.tasks import BidirectionalLM, CausalLM, MaskedLM
from keras_transfer.text import ElmoPreprocessor, Packing, TokenPreprocessor, WordPieceTokenizer
from tests.errors import check_errors
from tests.helpers import outputs_of
from tests.tasks.tiny import classifier, encoder, preprocessor

PAIRS = MinimalPairs(["aaa", "bb", "cc", "dddd"], ["a", "bbb", "ee", "d"], ["long", "long", "equal", "long"])


def by_length(texts):
    return [len(text) for text in texts]


def causal():
    keras.utils.set_random_seed(0)
    tokenizer = WordPieceTokenizer(["<end>", "[UNK]", "a", "b", "c"])
    encoder = GPT2Encoder(5, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=16)
    return CausalLM(encoder, TokenPreprocessor(tokenizer, Packing(end=["<end>"], pad="<end>"), 16))


# === Scores ===


@pytest.mark.core
def test_a_causal_model_predicts_the_first_token_from_the_end_of_a_text():
    model = causal()

    def log_likelihoods(*ids):
        ids = np.array([ids], "int32")
        logits = outputs_of(model, {"token_ids": ids, "padding_mask": np.ones_like(ids)})[0].astype("float64")
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    found = log_likelihoods(0, 2, 3, 4)
    expected = found[0, 2] + found[1, 3] + found[2, 4] + found[3, 0]  # The end is scored, too.
    np.testing.assert_allclose(sentence_scores(model, ["a b c", "a", "a b c"])[[0, 2]], expected, rtol=1e-5)
    np.testing.assert_allclose(model.score(["a b c"], prefix="<end>").log_likelihoods, expected, rtol=1e-5)
    found = log_likelihoods(2, 3, 4)
    expected = found[0, 3] + found[1, 4] + found[2, 0]
    np.testing.assert_allclose(model.score(["a b c"]).log_likelihoods, expected, rtol=1e-5)


def test_masked_and_bidirectional_models_score_by_their_own_likelihood():
    keras.utils.set_random_seed(0)
    masked = MaskedLM(encoder(), preprocessor())
    texts = ["a b", "c d e", "a b"]
    np.testing.assert_allclose(sentence_scores(masked, texts), masked.score(texts).log_likelihoods, rtol=1e-6)
    elmo = ElmoEncoder(embedding_dim=3, filters=[(1, 4), (2, 4)], projection_dim=4, units=6, max_characters=8)
    both = BidirectionalLM(elmo, ElmoPreprocessor(6, max_characters=8, vocabulary=["<S>", "</S>", "<UNK>", "a", "b"]))
    expected = both.score(texts).log_likelihoods.sum(axis=1)
    np.testing.assert_allclose(sentence_scores(both, texts), expected, rtol=1e-6)


# === Pairs ===


def test_pairs_are_counted_by_phenomenon_and_ties_count_as_half():
    found = minimal_pairs(by_length, PAIRS)
    assert [(row["phenomenon"], row["pairs"], row["accuracy"], row["ties"]) for row in found.rows] == [
        ("long", 3, pytest.approx(2 / 3), 0),
        ("equal", 1, 0.5, 1),
        ("all", 4, 0.625, 1),
    ]
    assert found.rows[2]["low"] < 0.625 < found.rows[2]["high"]
    assert [row["examples"] for row in found.rows] == [[("bb", "bbb", -1.0)], [], [("bb", "bbb", -1.0)]]
    assert str(found).splitlines()[2].split()[:4] == ["long", "3", "0", "0.667"]


def test_a_sentence_of_several_pairs_is_scored_once(monkeypatch):
    monkeypatch.setattr(acceptability, "_TOGETHER", 3)
    asked = []
    pairs = MinimalPairs(["aaa", "bb", "aaa", "aaa"], ["a", "bbb", "bbb", "a"], ["x"] * 4)
    found = minimal_pairs(lambda texts: asked.extend(texts) or by_length(texts), pairs, verbose=0)
    assert asked == ["aaa", "a", "bb", "bbb"] and found.rows[-1]["accuracy"] == 2.5 / 4


def test_pairs_that_are_wrong_are_listed_with_the_clearest_first():
    pairs = MinimalPairs(["a", "aa", "a"], ["aaa", "a", "aaaa"], [0, 0, 0])
    [row] = minimal_pairs(by_length, pairs).rows
    assert row["examples"] == [("a", "aaaa", -3.0), ("a", "aaa", -2.0)]


def test_pairs_are_compared_with_another_model():
    pairs = PAIRS._replace(phenomena=[0, 1, 1, 0])
    found = minimal_pairs(by_length, pairs, against=lambda texts: [-len(text) for text in texts])
    assert [row["phenomenon"] for row in found.rows] == [0, 1, "all"]
    assert [row["difference"] for row in found.rows] == [1.0, -0.5, 0.25]
    assert [row["before"] for row in found.rows] == [0.0, 0.75, 0.375]
    assert found.rows[2]["difference_low"] < 0.25 < found.rows[2]["difference_high"]
    assert "+0.250" in str(found)


def test_a_dict_of_pairs_is_grouped_by_its_names():
    found = minimal_pairs(by_length, {"one": PAIRS, "two": PAIRS._make(column[:1] for column in PAIRS)})
    assert [(row["phenomenon"], row["pairs"]) for row in found.rows] == [("one", 4), ("two", 1), ("all", 5)]


# === Substitutes ===


def test_substitutes_are_ordered_by_the_likelihood_of_the_whole_sentence():
    found = substitutes(by_length, "a good film", "good", candidates=["bad", "excellent", "very good"], k=2)
    assert found == [("excellent", 5.0), ("very good", 5.0)]
    keras.utils.set_random_seed(0)
    model = MaskedLM(encoder(), preprocessor())
    found = substitutes(model, "a b good", "good", k=3)
    original, *scores = sentence_scores(model, ["a b good", *(f"a b {word}" for word, _ in found)])
    assert len(found) == 3 and "good" not in dict(found)
    np.testing.assert_allclose([value for _, value in found], np.array(scores) - original, atol=1e-6)
    assert [value for _, value in found] == sorted((value for _, value in found), reverse=True)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: sentence_scores(classifier(), ["a"]), "must be a `CausalLM`, a `MaskedLM` or a `BidirectionalLM`"),
    (
        lambda: sentence_scores(lambda texts: [1.0], ["a", "b"]),
        "one score for each text. Received: shape=(1,), texts=2",
    ),
    (lambda: sentence_scores(lambda texts: [float("nan")], ["a"]), "The function must return numbers"),
    (lambda: sentence_scores(encoder(), ["a"]), "must be a `CausalLM`"),
    (lambda: causal().score(["a"], prefix="<s>"), "`prefix` must be a token of the vocabulary"),
    (lambda: causal().score([[2, 3]], prefix="auto"), "`prefix` requires texts"),
    (lambda: minimal_pairs(by_length, MinimalPairs(["a"], [], ["x"])), "good=1, bad=0, phenomena=1"),
    (lambda: minimal_pairs(by_length, MinimalPairs([], [], [])), "there must be one pair"),
    (lambda: substitutes(by_length, "a b", "c", candidates=["d"]), "must contain `word` exactly once"),
    (lambda: substitutes(by_length, "a b a", "a", candidates=["d"]), "must contain `word` exactly once"),
    (lambda: substitutes(by_length, "a b", "b"), "`candidates` are required"),
)
