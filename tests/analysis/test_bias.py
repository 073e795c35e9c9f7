"""Associations of words, by hand, and against wefe; what removes them."""

import itertools

import numpy as np
import pytest

from keras_transfer.analysis.bias import association_test, remove_direction, swap_words
from keras_transfer.checkpoints import WordVectors
from keras_transfer.tasks import TextEmbedder
from tests.errors import check_errors
from tests.tasks import tiny

WORDS = [f"{name}{i}" for name in "xyab" for i in range(4)]
SETS = [WORDS[start : start + 4] for start in (0, 4, 8, 12)]


def some_vectors(seed=0, dim=6, words=WORDS):
    return WordVectors(words, np.random.default_rng(seed).normal(size=(len(words), dim)))


def cosine(a, b):
    a, b = (np.asarray(each, "float64") for each in (a, b))
    return a @ b / np.sqrt((a @ a) * (b @ b))


def associations(vectors, words, a, b):
    """s(w, A, B) of Caliskan et al., word by word."""
    found = [[np.mean([cosine(vectors[w], vectors[each]) for each in side]) for side in (a, b)] for w in words]
    return {word: first - second for word, (first, second) in zip(words, found)}


def test_the_effect_the_statistic_and_the_exact_p_value_are_those_of_the_paper():
    vectors, (x, y, a, b) = some_vectors(), SETS
    test = association_test(vectors, x, y, a, b)
    expected = associations(vectors, x + y, a, b)
    values = np.array(list(expected.values()))
    assert {row["target"]: row["association"] for row in test.rows} == pytest.approx(expected, abs=1e-12)
    assert test.statistic == pytest.approx(values[:4].sum() - values[4:].sum(), abs=1e-12)
    assert test.effect == pytest.approx((values[:4].mean() - values[4:].mean()) / values.std(ddof=1), abs=1e-12)
    partitions = [sum(expected[word] for word in part) for part in itertools.combinations(x + y, 4)]
    assert "(all 70 partitions)" in str(test) and len(partitions) == 70
    assert test.p == np.mean([each >= values[:4].sum() - 1e-12 for each in partitions])


def test_a_sample_of_partitions_has_nearly_the_p_value_of_all():
    vectors, sets = some_vectors(), SETS
    exact, sampled = (association_test(vectors, *sets, samples=samples) for samples in (70, 69))
    assert "all 70" in str(exact) and "sampled 69" in str(sampled)
    assert sampled.p * 69 == pytest.approx(round(sampled.p * 69))
    words = [f"{name}{i}" for name in "xyab" for i in range(9)]
    large, sets = some_vectors(1, 6, words), [words[start : start + 9] for start in (0, 9, 18, 27)]
    exact, sampled = (association_test(large, *sets, samples=samples) for samples in (100_000, 40_000))
    assert "all 48,620" in str(exact) and "sampled 40,000" in str(sampled)
    assert sampled.p == pytest.approx(exact.p, abs=4 * np.sqrt(exact.p * (1 - exact.p) / 40_000))
    assert sampled.p == association_test(large, *sets, samples=40_000).p


def test_a_partition_that_could_not_be_more_extreme_has_the_least_p_value():
    table = np.repeat([[1.0, 0.2], [0.2, 1.0], [1.0, 0.1], [0.1, 1.0]], 4, axis=0)
    test = association_test(WordVectors(WORDS, table), *SETS)
    assert test.p == 1 / 70 and test.effect == pytest.approx(2 * np.sqrt(7 / 8))
    assert association_test(WordVectors(WORDS, table), SETS[1], SETS[0], *SETS[2:]).p == 1


def test_equal_associations_have_no_effect():
    test = association_test(WordVectors(WORDS, np.tile([1.0, 2.0], (16, 1))), *SETS)
    assert (test.effect, test.statistic, test.p) == (0, 0, 1)


def test_words_without_a_vector_are_left_out_and_listed():
    vectors = some_vectors()
    test = association_test(vectors, ["x0", "no", "x1"], ["y0", "y1", "y2"], SETS[2], ["b0", "b1", "nor"])
    assert test.missing == ["no", "nor"] and {row["target"] for row in test.rows} == {"x0", "x1", "y0", "y1", "y2"}
    values = list(associations(vectors, ["x0", "x1", "y0", "y1", "y2"], SETS[2], ["b0", "b1"]).values())
    assert test.effect == pytest.approx((np.mean(values[:2]) - np.mean(values[2:])) / np.std(values, ddof=1))
    assert "Without a vector: no, nor." in str(test) and str(test).count("\n") == 8


def test_texts_have_the_vectors_of_a_function():
    vectors = some_vectors()
    texts = [[f"This is {word}." for word in part] for part in SETS]
    test = association_test(lambda texts: np.stack([vectors[text[8:-1]] for text in texts]), *texts)
    assert test.effect == association_test(vectors, *SETS).effect


@pytest.mark.core
def test_texts_have_the_vectors_of_an_embedder():
    embedder = TextEmbedder(tiny.encoder(initializer_range=0.5), tiny.preprocessor())
    sets = ["a good", "b good"], ["c", "d"], ["good b", "a b c"], ["b", "d a"]
    test = association_test(embedder, *sets)
    assert test.effect == pytest.approx(association_test(embedder.embed, *sets).effect, abs=1e-6) and test.effect


def test_the_statistic_and_the_effect_are_those_of_wefe():
    # What wefe 0.4.1 prints for these vectors and sets.
    test = association_test(some_vectors(3, 20), *SETS)
    assert test.statistic == pytest.approx(-0.3558657467365265, abs=1e-6)
    # Its standard deviation is that of a population, and ours, as in the paper's code, that of a sample.
    assert test.effect == pytest.approx(-0.5106080086091036 * np.sqrt(7 / 8), abs=1e-6)
    assert test.p == pytest.approx(0.7571242875712428, abs=0.02)  # It draws 10,000 partitions.


def test_a_removed_direction_is_in_no_word_but_those_that_keep_it():
    words = ["he", "she", "man", "woman", "nurse", "pilot", "beard"]
    vectors = some_vectors(0, 5, words)
    pairs = [("he", "she"), ("man", "woman"), ("king", "queen")]
    found = remove_direction(vectors, pairs, keep=["beard"])
    units = {word: vectors[word].astype("float64") / np.linalg.norm(vectors[word]) for word in words}
    differences = np.stack([units["he"] - units["she"], units["man"] - units["woman"]])
    direction = np.linalg.eigh(differences.T @ differences)[1][:, -1]
    for word in ("nurse", "pilot"):
        expected = vectors[word] - direction * (vectors[word] @ direction)
        np.testing.assert_allclose(found[word], expected, atol=1e-6)
        assert cosine(found[word], found["he"]) == pytest.approx(cosine(found[word], found["she"]), abs=1e-6)
    np.testing.assert_array_equal(found["beard"], vectors["beard"])
    for first, second in pairs[:2]:
        difference = found[first].astype("float64") - found[second]
        assert abs(cosine(difference, direction)) == pytest.approx(1, abs=1e-6)
        assert np.sign(difference @ direction) == np.sign((units[first] - units[second]) @ direction)
        sizes = [np.linalg.norm(each) for each in (found[first], vectors[first], vectors[second])]
        assert sizes[0] == pytest.approx(np.mean(sizes[1:]), abs=1e-6)


def test_after_removal_the_words_of_pairs_have_no_effect():
    vectors = some_vectors(0, 6)
    pairs = list(zip(*SETS[2:]))
    assert abs(association_test(vectors, *SETS).effect) > 0.1
    test = association_test(remove_direction(vectors, pairs), *SETS)
    assert (test.effect, test.p) == (0, 1)


def test_swapped_words_keep_their_case_and_are_whole_words():
    pairs = [("he", "she"), ("his", "her"), ("him", "her"), ("Mr.", "Ms."), ("police man", "police woman")]
    texts = ["He saw the HERO, and she saw him.", "Her cat: HIS dog, theirs", "Mr. X is a police man", ""]
    swapped = swap_words(texts, pairs)
    assert swapped[0] == "She saw the HERO, and he saw her." and swapped[1] == "His cat: HER dog, theirs"
    assert swapped[2:] == ["Ms. X is a police woman", ""]
    assert swap_words(np.array(["\u017fhe h\u0131s"]), pairs) == ["\u017fhe h\u0131s"]  # Letters that only look alike.


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: association_test(some_vectors(), ["x0", "x1"], *SETS[1:]), "same number of targets. Received: x=2, y=4"),
    (
        lambda: association_test(some_vectors(), SETS[0], ["y0", "p", "q", "r"], *SETS[2:]),
        "two words of `y` must have a vector. Received: without=['p', 'q', 'r']",
    ),
    (lambda: association_test(lambda texts: np.ones(3), *SETS), "[texts, dim] ... texts=4, vectors=(3,)"),
    (lambda: association_test(lambda texts: np.zeros((4, 2)), *SETS), "finite and not zero. Received: texts=['x0'"),
    (lambda: association_test(tiny.encoder(), *SETS), "a `TextEmbedder(encoder, preprocessor)`, or a function"),
    (lambda: remove_direction(some_vectors(), [("p", "q")]), "At least one pair ... Received: pairs=[('p', 'q')]"),
    (lambda: remove_direction(some_vectors(), [("x0", "x1")], keep=["p"]), "`keep` must have a vector ... ['p']"),
    (
        lambda: remove_direction(some_vectors(), [("x0", "y0"), ("x1", "y0")]),
        "A word can be in one pair only, to whose words others become equally similar. Received: twice=['y0']",
    ),
    (lambda: swap_words("he", [("he", "she")]), "`texts` must be a list"),
    (lambda: swap_words(["he"], ["she"]), "`pairs` must be a list"),
)
