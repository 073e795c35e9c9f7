"""The metrics of rankings equal their definitions, and those of scikit-learn where it has them."""

from functools import partial

import numpy as np
import pytest

from keras_transfer.metrics import NDCG, HitsAtK, MeanReciprocalRank, RecallAtK
from tests.errors import check_errors
from tests.metrics.cases import COUNT, result_of, run_metric_test

sklearn = pytest.importorskip("sklearn.metrics")
CANDIDATES = 8


def case(seed, rows):
    """Grades [rows, CANDIDATES] with few relevant ones, scores with ties, and weights."""
    random = np.random.default_rng(seed)
    grades = random.integers(0, 4, (rows, CANDIDATES)) * (random.random((rows, CANDIDATES)) < 0.3)
    scores = (random.integers(-6, 7, grades.shape) / 2).astype("float32")
    return grades, scores, random.choice([0.0, 1.0, 2.0], rows)


def ranked(grades, scores):
    """For each row whether its candidates are relevant, best first, the relevant ones last among equals."""
    return [(row[np.lexsort((row > 0, -given))] > 0) for row, given in zip(grades, scores)]


def mean(values, weights):
    return np.average(values, weights=weights) if np.sum(weights) else 0.0


@pytest.mark.parametrize("k", [None, 1, 3])
def test_the_ndcg_of_grades_equals_that_of_scikit_learn(k):
    grades, scores, weights = case(0, COUNT)
    expected = sklearn.ndcg_score(grades, scores, k=k, sample_weight=weights)
    assert 0.1 < expected < 0.9
    assert float(result_of(NDCG(k), grades, scores, weights)) == pytest.approx(expected, abs=1e-5)
    # Powers of two as weights, so that the mean does not hide differences between rows.
    few = grades[:12], scores[:12], 0.5 ** np.arange(12)
    assert float(result_of(NDCG(k), *few)) == pytest.approx(sklearn.ndcg_score(*few[:2], k=k, sample_weight=few[2]))


def test_the_mean_reciprocal_rank_of_one_right_candidate_equals_scikit_learn():
    _, scores, weights = case(1, COUNT)
    positions = np.random.default_rng(1).integers(0, CANDIDATES, COUNT)
    expected = sklearn.label_ranking_average_precision_score(
        np.eye(CANDIDATES, dtype=int)[positions], scores, sample_weight=weights
    )
    for labels in (positions, positions[:, None], np.eye(CANDIDATES)[positions]):
        assert float(result_of(MeanReciprocalRank(), labels, scores, weights)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("k", [1, pytest.param(3, marks=pytest.mark.core), 20])
def test_reciprocal_ranks_hits_and_recall_equal_their_definitions(k):
    grades, scores, weights = case(2, COUNT)
    rows = ranked(grades, scores)
    hits = [row[:k].any() for row in rows]
    ranks = [row.argmax() + 1 if row.any() else np.inf for row in rows]
    reciprocal = [1 / rank if rank <= k else 0.0 for rank in ranks]
    recall = [row[:k].sum() / max(row.sum(), 1) for row in rows]
    for metric, values in ((HitsAtK(k), hits), (MeanReciprocalRank(k), reciprocal), (RecallAtK(k), recall)):
        assert 0.01 < mean(values, weights) < 0.99
        assert float(result_of(metric, grades, scores, weights)) == pytest.approx(mean(values, weights), abs=1e-5)


def test_candidates_with_a_negative_grade_and_rows_without_others_do_not_count():
    grades, scores, weights = case(3, 40)
    padded = np.concatenate([grades, np.full((40, 3), -1)], axis=1)
    with_padding = np.concatenate([scores, np.full((40, 3), 99.0, "float32")], axis=1)
    padded, with_padding = (
        np.concatenate([padded, np.full((2, 11), -1)]),
        np.concatenate([with_padding] + [[[1.0] * 11]] * 2),
    )
    for metric in (NDCG(), HitsAtK(2), MeanReciprocalRank(), RecallAtK(2)):
        expected = float(result_of(metric, grades, scores, weights))
        found = result_of(metric, padded, with_padding, np.concatenate([weights, [1.0, 1.0]]))
        assert float(found) == pytest.approx(expected, abs=1e-6)
    assert float(result_of(HitsAtK(1), [0, -1], [[1.0, 0.0], [1.0, 0.0]])) == 1


@pytest.mark.report("Ties and padding change ranking metrics.", "sentence-transformers#3827")
def test_equal_scores_for_all_and_scores_that_are_not_numbers_are_not_a_success():
    for value in (0.0, np.nan):
        scores = np.full((2, 4), value, "float32")
        assert float(result_of(HitsAtK(3), [0, 3], scores)) == 0
        assert float(result_of(MeanReciprocalRank(), [0, 3], scores)) == 0.25


def test_rows_without_a_relevant_candidate_have_the_value_0():
    for metric in (NDCG(), HitsAtK(2), MeanReciprocalRank(), RecallAtK(2)):
        assert float(result_of(metric, [[0, 0], [1, 0]], [[0.5, 0.1], [0.5, 0.1]])) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (NDCG, "ndcg"),
        (partial(NDCG, k=5), "ndcg_at_5"),
        (partial(HitsAtK, k=1), "hits_at_1"),
        (partial(RecallAtK, k=5), "recall_at_5"),
        (partial(MeanReciprocalRank, k=5), "mean_reciprocal_rank"),
    ],
)
def test_they_are_well_behaved_metrics(make, name):
    grades, scores, _ = case(4, 20)
    run_metric_test(make, name, grades, scores, float(result_of(make(), grades, scores)))


test_other_shapes_are_an_error = check_errors(
    *(
        (
            lambda true=true, scores=scores: NDCG().update_state(np.zeros(true), np.zeros(scores)),
            "[batch] (positions) or [batch, candidates] ... Received: ",
        )
        for true, scores in (((2, 3), (2, 4)), ((3,), (2, 4)), ((2,), (2,)), ((2, 3, 1), (2, 3)))
    ),
)
