"""Properties of metrics: the value of plain NumPy or Python, for any rows, in any batches and in any order."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transfer.metrics import (
    AUC,
    NDCG,
    EntityF1,
    ExpectedCalibrationError,
    F1Score,
    HitsAtK,
    MatthewsCorrelation,
    MeanReciprocalRank,
    PearsonCorrelation,
    Perplexity,
    Precision,
    Recall,
    RecallAtK,
    Rouge,
    SpearmanCorrelation,
    entities,
    entity_report,
    squad_scores,
)
from tests.properties import EXAMPLES, texts

seeds = st.integers(0, 2**31)
counts = st.integers(1, 40)


def value(metric, *arrays, batch=None):
    for start in range(0, len(arrays[0]), batch or len(arrays[0])):
        metric.update_state(*(array[start : start + (batch or len(array))] for array in arrays))
    return float(metric.result())


def rows(seed, count, classes):
    random = np.random.default_rng(seed)
    # Rounded scores, so that some are equal, and no -0.0, which is less than 0.0 to the `argmax` of Keras.
    return random.integers(0, classes, count), random.normal(size=(count, classes)).round(1).astype("float32") + 0


@given(seed=seeds, count=counts, classes=st.integers(2, 5))
def test_scores_of_classes_are_those_of_their_confusion_matrix(seed, count, classes):
    true, logits = rows(seed, count, classes)
    predicted, ratios = logits.argmax(axis=1), {"precision": [], "recall": [], "f1": []}
    for each in {*true.tolist(), *predicted.tolist()}:  # As in scikit-learn, a class that does not occur has no score.
        right = ((true == each) & (predicted == each)).sum()
        given_rows, real = (predicted == each).sum(), (true == each).sum()
        ratios["precision"].append(right / given_rows if given_rows else 0.0)
        ratios["recall"].append(right / real if real else 0.0)
        ratios["f1"].append(2 * right / (given_rows + real) if given_rows + real else 0.0)
    for metric, name in ((Precision, "precision"), (Recall, "recall"), (F1Score, "f1")):
        assert value(metric("macro"), true, logits, batch=7) == pytest.approx(np.mean(ratios[name]), abs=1e-6)
        assert value(metric("micro"), true, logits, batch=7) == pytest.approx((true == predicted).mean(), abs=1e-6)


@given(seed=seeds, count=counts, classes=st.integers(2, 4))
def test_the_matthews_correlation_is_that_of_the_one_hot_classes(seed, count, classes):
    true, logits = rows(seed, count, classes)
    real, found = np.eye(classes)[true], np.eye(classes)[logits.argmax(axis=1)]
    both, a, b = (
        np.cov(x.T, y.T, bias=True)[:classes, classes:].trace()
        for x, y in ((real, found), (real, real), (found, found))
    )
    expected = both / np.sqrt(a * b) if a * b > 1e-12 else 0.0
    assert value(MatthewsCorrelation(), true, logits, batch=9) == pytest.approx(expected, abs=1e-5)


@given(seed=seeds, count=st.integers(2, 40))
def test_the_auc_is_the_fraction_of_pairs_in_order(seed, count):
    true, logits = rows(seed, count, 2)
    if len(set(true.tolist())) < 2:
        return
    score = (logits[:, 1] - logits[:, 0]).astype("float64")
    score = keras.ops.convert_to_numpy(keras.ops.sigmoid(score.astype("float32")))
    wins = [(a > b) + (a == b) / 2 for a in score[true == 1] for b in score[true == 0]]
    assert value(AUC(), true, logits, batch=9) == pytest.approx(np.mean(wins), abs=0.02)


@given(seed=seeds, count=st.integers(3, 40))
def test_correlations_are_those_of_numpy_and_of_ranks(seed, count):
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(seed)
    true, found = random.normal(size=(2, count, 1)).round(1).astype("float32")
    if np.ptp(true) == 0 or np.ptp(found) == 0:
        return
    expected = np.corrcoef(true[:, 0], found[:, 0])[0, 1]
    assert value(PearsonCorrelation(), true, found, batch=9) == pytest.approx(expected, abs=1e-4)
    expected = stats.spearmanr(true[:, 0], found[:, 0]).statistic
    assert value(SpearmanCorrelation(), true, found, batch=9) == pytest.approx(expected, abs=1e-4)


@given(seed=seeds, count=counts, bins=st.integers(1, 15))
def test_the_calibration_error_is_the_weighted_gap_of_each_bin(seed, count, bins):
    true, logits = rows(seed, count, 3)
    probabilities = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == true
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    near = np.abs(confidence * bins - (confidence * bins).round()) < 1e-4  # Rounding decides their bin.
    if near.any():
        return
    expected = sum(abs(confidence[place == b].sum() - right[place == b].sum()) for b in range(bins)) / count
    assert value(ExpectedCalibrationError(bins), true, logits, batch=9) == pytest.approx(expected, abs=1e-4)


@given(seed=seeds, count=st.integers(1, 8), candidates=st.integers(1, 7), k=st.integers(1, 8))
def test_rankings_are_scored_as_sorted_lists(seed, count, candidates, k):
    random = np.random.default_rng(seed)
    grades = random.integers(0, 2, (count, candidates)).astype("float32")
    scores = np.argsort(random.random((count, candidates)), axis=1).astype("float32")  # all different
    expected = {"mrr": [], "hits": [], "recall": [], "ndcg": []}
    for grade, score in zip(grades, scores):
        ordered = grade[np.argsort(-score)]
        places = np.flatnonzero(ordered) + 1
        first = places[0] if len(places) else np.inf
        expected["mrr"].append(1 / first)
        expected["hits"].append(float(first <= k))
        expected["recall"].append((places <= k).sum() / max(len(places), 1))
        gain, best = (sum(g / np.log2(i + 2) for i, g in enumerate(order)) for order in (ordered, np.sort(grade)[::-1]))
        expected["ndcg"].append(gain / best if best else 0.0)
    found = {"mrr": MeanReciprocalRank(), "hits": HitsAtK(k), "recall": RecallAtK(k), "ndcg": NDCG()}
    for name, metric in found.items():
        assert value(metric, grades, scores, batch=3) == pytest.approx(np.mean(expected[name]), abs=1e-5), name


LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
tags = st.lists(st.lists(st.sampled_from(LABELS), min_size=1, max_size=8), min_size=1, max_size=5)


@given(true=tags, data=st.data())
def test_entities_are_counted_as_sets_of_spans(true, data):
    found = [data.draw(st.lists(st.sampled_from(LABELS), min_size=len(row), max_size=len(row))) for row in true]
    real, given_spans = ({(i, *span) for i, row in enumerate(part) for span in entities(row)} for part in (true, found))
    both = len(real & given_spans)
    expected = 2 * both / (len(real) + len(given_spans)) if real or given_spans else 0.0
    assert entity_report(true, found)["micro"]["f1"] == pytest.approx(expected)
    width = max(map(len, true))
    ids = np.array([[LABELS.index(tag) for tag in row] + [-1] * (width - len(row)) for row in true])
    logits = np.eye(5, dtype="float32")[
        [[LABELS.index(tag) for tag in row] + [0] * (width - len(row)) for row in found]
    ]
    assert value(EntityF1(LABELS), ids, logits, batch=2) == pytest.approx(expected, abs=1e-6)


@given(row=st.lists(st.sampled_from(LABELS), min_size=1, max_size=12))
def test_entities_do_not_overlap_and_cover_all_labels_but_o(row):
    found = entities(row)
    covered = [place for _, start, end in found for place in range(start, end)]
    assert covered == [place for place, label in enumerate(row) if label != "O"]
    assert all(row[place].endswith(kind) for kind, start, end in found for place in range(start, end))


@given(seed=seeds, count=st.integers(1, 5), length=st.integers(1, 6))
def test_the_perplexity_counts_only_used_places(seed, count, length):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(count, length, 4)).astype("float32")
    labels, weights = random.integers(0, 4, (count, length)), random.integers(0, 2, (count, length)).astype("float32")
    if not weights.any():
        return
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    used = -np.take_along_axis(logs, labels[..., None], axis=-1)[..., 0][weights > 0]
    assert value(Perplexity(), labels, logits, weights, batch=2) == pytest.approx(np.exp(used.mean()), rel=1e-4)


@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_texts_that_are_equal_have_the_best_scores_and_others_at_most_these(pairs):
    truth, found = map(list, zip(*pairs))
    same = squad_scores([[text] for text in truth], truth)
    scores = squad_scores([[text] for text in truth], found)
    assert same["exact_match"] == 100 and same["f1"] == pytest.approx(100)
    assert 0 <= scores["exact_match"] <= scores["f1"] + 1e-6 <= 100 + 1e-5


@settings(max_examples=EXAMPLES or 2)
@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
def test_rouge_is_symmetric_and_between_0_and_1(pairs):
    truth, found = map(list, zip(*pairs))
    pytest.importorskip("rouge_score")
    there, back = Rouge(), Rouge()
    there.update_state(truth, found)
    back.update_state(found, truth)
    results = {name: float(score) for name, score in there.result().items()}
    assert all(0 <= score <= 1 for score in results.values())
    assert results == pytest.approx({name: float(score) for name, score in back.result().items()}, abs=1e-6)
