"""Search in blocks finds what a sort of all scores finds."""

import tracemalloc

import numpy as np
import pytest

from keras_transfer.tasks import text_embedder as vector_search
from keras_transfer.tasks.text_embedder import top_k


def brute_force(queries, corpus, k):
    scores = queries @ corpus.T
    indices = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, indices, axis=1), indices


@pytest.mark.parametrize("k", [1, 5, 63, 200])
@pytest.mark.parametrize("blocks", [None, (7, 128), (3, 100)])
def test_search_equals_brute_force_in_blocks_of_any_size(k, blocks, monkeypatch):
    if blocks is not None:
        monkeypatch.setattr(vector_search, "QUERIES", blocks[0])
        monkeypatch.setattr(vector_search, "CORPUS", blocks[1])
    random = np.random.default_rng(0)
    # Products of small integers are exact, and many of them are equal.
    queries, corpus = (random.integers(-2, 3, (count, 4)).astype("float32") for count in (20, 777))
    scores, indices = top_k(queries, corpus, k)
    expected = brute_force(queries, corpus, k)
    assert (expected[0][:, :1] == expected[0][:, 1:2]).any() or k == 1
    np.testing.assert_array_equal(scores, expected[0])
    np.testing.assert_array_equal(indices, expected[1])
    assert (scores.dtype, indices.dtype) == ("float32", "int64")


@pytest.mark.parametrize("size", [1, 64, 65, 129])
@pytest.mark.report(
    "A search for more texts than the corpus has returns placeholders.",
    "sentence-transformers#3873",
    "sentence-transformers#3887",
)
def test_search_returns_a_whole_corpus_in_order(size):
    random = np.random.default_rng(size)
    queries, corpus = (random.normal(size=(count, 8)).astype("float32") for count in (3, size))
    scores, indices = top_k(queries, corpus, size)
    np.testing.assert_allclose(scores, brute_force(queries, corpus, size)[0], rtol=1e-5)
    assert np.sort(indices).tolist() == [list(range(size))] * 3 and (np.diff(scores) <= 0).all()


def test_equal_vectors_are_all_found_lowest_index_first():
    queries, corpus = np.eye(2, dtype="float32"), np.tile(np.eye(2, dtype="float32"), (500, 1))
    scores, indices = top_k(queries, corpus, 4)
    assert indices.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]] and (scores == 1).all()


def test_scores_are_divided_by_the_lengths_of_the_vectors_of_the_corpus(monkeypatch):
    monkeypatch.setattr(vector_search, "CORPUS", 64)
    random = np.random.default_rng(0)
    queries, corpus = (random.normal(size=(count, 4)).astype("float32") for count in (3, 100))
    lengths = np.linalg.norm(corpus, axis=1)
    scores, indices = top_k(queries, corpus, 5, lengths)
    expected = brute_force(queries, corpus / lengths[:, None], 5)
    np.testing.assert_allclose(scores, expected[0], rtol=1e-5)
    np.testing.assert_array_equal(indices, expected[1])


@pytest.mark.parametrize(("k", "factor"), [(300, 1), (300, 0), (10, 0), (150, 0)])
def test_a_search_for_many_or_equal_scores_needs_the_memory_of_few_blocks(k, factor):
    random = np.random.default_rng(0)
    queries, corpus = (random.normal(size=(count, 2)).astype("float32") * factor for count in (16, 100_000))
    tracemalloc.start()
    _, indices = top_k(queries, corpus, k)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 100_000 * 8  # An index for each score.
    assert factor or (indices == np.arange(k)).all()
