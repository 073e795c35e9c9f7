"""Precision, recall, F1 and the Matthews correlation equal those of scikit-learn, from logits."""

import itertools
from functools import partial

import keras
import numpy as np
import pytest

from keras_transfer.metrics import F1Score, MatthewsCorrelation, Precision, Recall
from tests.errors import check_errors
from tests.helpers import EAGER
from tests.metrics.cases import COUNT, CROSSENTROPY, ROWS, random_weights, result_of, results_of, run_metric_test

sklearn = pytest.importorskip("sklearn.metrics")
METRICS = {Precision: sklearn.precision_score, Recall: sklearn.recall_score, F1Score: sklearn.f1_score}
AVERAGES = ("macro", "weighted", "micro", None)


def class_cases(count, classes):
    """Labels, logits without ties and weights of many cases, some without rows or with few of the classes."""
    random = np.random.default_rng(classes)
    labels, weights = np.zeros((count, ROWS), "int32"), np.zeros((count, ROWS), "float32")
    logits = random.permuted(np.tile(np.arange(classes) / 2, (count, ROWS, 1)), axis=2).astype("float32")
    for case in range(count):
        labels[case] = random.choice(random.choice(classes, random.integers(1, classes + 1), replace=False), ROWS)
        logits[case, :, random.integers(classes)] += random.integers(3) + 0.25
        logits[case, random.random(ROWS) < 0.3, labels[case, 0]] += 5.25
        weights[case] = random_weights(random)
    return labels, logits, weights


@pytest.mark.core
@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_scores_of_one_label_per_row_equal_those_of_scikit_learn(classes):
    kinds = list(itertools.product(METRICS, AVERAGES + (("binary",) if classes == 2 else ())))
    cases = class_cases(COUNT // 3 + 1, classes)
    *found, matthews = results_of([*(cls(average) for cls, average in kinds), MatthewsCorrelation()], *cases)
    different = set()
    for case, (labels, logits, weights) in enumerate(zip(*cases, strict=True)):
        real = weights > 0
        true, given, weights = labels[real], logits.argmax(1)[real], weights[real]
        cls, average = kinds[case % len(kinds)]
        scores, expected, correlation = found[case % len(kinds)][case], 0.0, 0.0
        if len(true):
            options = {"average": average, "zero_division": 0, "labels": range(classes) if average is None else None}
            expected = METRICS[cls](true, given, sample_weight=weights, **options)
            correlation = sklearn.matthews_corrcoef(true, given, sample_weight=weights)
        np.testing.assert_allclose(scores, expected, atol=1e-6, err_msg=f"{cls} {average} {case}")
        assert matthews[case] == pytest.approx(correlation, abs=1e-6)
        different |= {np.mean(expected).round(4), round(correlation, 4)}
    assert len(different) > 10


@pytest.mark.parametrize("average", AVERAGES)
def test_scores_of_several_labels_per_row_equal_those_of_scikit_learn(average):
    random, metrics = np.random.default_rng(0), {cls: cls(average) for cls in METRICS}
    columns = COUNT if average is None else 5
    for _ in range(1 if average is None else 10):
        labels = (random.random((ROWS, columns)) < random.random(columns) ** 2).astype("int32")
        logits = random.normal(size=labels.shape).astype("float32")
        weights = np.maximum(random_weights(random), random.random(ROWS) < 0.5)
        given = (logits > 0).astype(int)
        for cls, expected in METRICS.items():
            expected = expected(labels, given, average=average, sample_weight=weights, zero_division=0)
            found = result_of(metrics[cls], labels, logits, weights)
            np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=str(cls))


def test_the_matthews_correlation_of_a_rare_class_is_exact():
    true = np.zeros(200_000, "int32")
    true[:3] = 1
    given = np.roll(true, 1)
    expected = sklearn.matthews_corrcoef(true, given)
    assert float(result_of(MatthewsCorrelation(), true, np.eye(2)[given])) == pytest.approx(expected, rel=1e-5)


def test_one_logit_is_that_of_class_1_and_the_threshold_its_probability():
    labels, logits = np.array([1, 1, 0, 0, 1]), np.array([3.0, 0.5, 1.0, -1.0, -2.0])
    probabilities = 1 / (1 + np.exp(-logits))
    both = np.stack([np.ones(5), logits + 1], axis=1)
    for threshold in (None, 0.7, 0.1):
        expected = sklearn.precision_score(labels, probabilities >= (threshold or 0.5))
        for outputs in (logits, logits[:, None], both):
            for wanted in (labels, labels[:, None], labels.astype("float32")):
                metric = Precision("binary", threshold=threshold)
                assert float(result_of(metric, wanted, outputs)) == pytest.approx(expected)


def test_the_class_id_may_be_class_0():
    labels, logits = np.array([1, 1, 0, 0, 1]), np.array([3.0, -0.5, 1.0, -1.0, -2.0])
    expected = sklearn.f1_score(labels, logits > 0, pos_label=0)
    assert float(result_of(F1Score("binary", class_id=0), labels, logits)) == pytest.approx(expected)


def test_each_label_may_have_a_threshold_of_its_own():
    random, thresholds = np.random.default_rng(0), [0.2, 0.5, 0.9]
    labels, logits = random.integers(0, 2, (50, 3)), random.normal(size=(50, 3)).astype("float32")
    given = 1 / (1 + np.exp(-logits.astype("float64"))) >= thresholds
    expected = sklearn.recall_score(labels, given, average=None)
    np.testing.assert_allclose(result_of(Recall(None, threshold=thresholds), labels, logits), expected, atol=1e-6)
    layer = keras.layers.Dense(3, kernel_initializer="identity")
    model = keras.Sequential([keras.Input((3,)), layer])
    metric = Recall(None, threshold=thresholds)
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=[metric], run_eagerly=EAGER)
    model.fit(logits, labels.astype("float32"), verbose=0)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(metric.result()), expected, atol=1e-6)


def test_a_probability_equal_to_the_threshold_is_enough_as_in_a_classifier():
    labels, logits = [[1, 1, 1], [1, 1, 1]], [[0.0, -9.0, 9.0], [-1.0, -99.0, 99.0]]
    recall = result_of(Recall(None, threshold=[0.5, 0.0, 1.0]), labels, logits)  # The sigmoid of 99 is 1.
    assert recall.tolist() == [0.5, 1.0, 0.5]
    assert float(result_of(Recall("binary", threshold=0.5), [1], [0.0])) == 1
    assert float(result_of(Recall("binary"), [1], [[0.0, 0.0]])) == 0  # The first of equal classes is most likely.


def test_a_label_that_does_not_exist_and_an_output_that_is_not_a_number_make_the_result_nan():
    for metric in (F1Score(), F1Score("micro"), MatthewsCorrelation()):
        assert np.isnan(float(result_of(metric, [0, 1, 3], np.eye(3))))
        assert float(result_of(metric, [0, 1, 3], np.eye(3), [1.0, 1.0, 0.0])) == 1
        assert np.isnan(float(result_of(metric, [0, 1, 2], np.diag([1.0, 1.0, np.nan]))))
    assert np.isnan(float(result_of(F1Score("micro"), [[1, 0]], [[np.nan, 1.0]])))


def test_words_count_each_and_those_with_a_negative_label_do_not():
    random = np.random.default_rng(0)
    labels, logits = random.integers(-1, 3, (4, 9)), random.normal(size=(4, 9, 3)).astype("float32")
    real = labels >= 0
    expected = sklearn.f1_score(labels[real], logits.argmax(-1)[real], average="macro")
    assert float(result_of(F1Score(), labels, logits)) == pytest.approx(expected, abs=1e-6)
    kept = real & np.array([[True], [False], [True], [True]])
    expected = sklearn.f1_score(labels[kept], logits.argmax(-1)[kept], average="macro")
    assert float(result_of(F1Score(), labels, logits, [1.0, 0.0, 1.0, 1.0])) == pytest.approx(expected, abs=1e-6)
    weights = random.random((4, 9))
    expected = sklearn.f1_score(labels[real], logits.argmax(-1)[real], average="macro", sample_weight=weights[real])
    assert float(result_of(F1Score(), labels, logits, weights)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "name", "score"),
    [
        (partial(Precision, average="weighted"), "precision", partial(sklearn.precision_score, average="weighted")),
        (partial(Recall, average="micro"), "recall", partial(sklearn.recall_score, average="micro")),
        (partial(F1Score, average="binary", threshold=0.5, class_id=0), "f1", partial(sklearn.f1_score, pos_label=0)),
        (MatthewsCorrelation, "matthews_correlation", sklearn.matthews_corrcoef),
    ],
)
def test_they_are_well_behaved_metrics(make, name, score):
    random = np.random.default_rng(0)
    labels, logits = random.integers(0, 2, 22), random.normal(size=(22, 2)).astype("float32")
    run_metric_test(make, name, labels, logits, score(labels, logits.argmax(-1)), loss=CROSSENTROPY)


test_invalid_arguments_are_an_error = check_errors(
    ({"threshold": -0.1}, "must be a probability from 0 to 1 ... Received: threshold=-0.1"),
    ({"threshold": [0.5, 1.5]}, "a list of one for each class. Received: threshold=[0.5, 1.5]"),
    ({"class_id": 1}, "requires `average='binary'`. Received: class_id=1, average='macro'"),
    call=lambda options: F1Score(**options),
)


test_labels_that_do_not_fit_the_logits_or_the_metric_are_an_error = check_errors(
    ((F1Score(), (4,), (5, 3)), "Received: (4,) and (5, 3)"),
    ((F1Score(), (4, 2), (4, 3)), "Received: (4, 2) and (4, 3)"),
    ((F1Score(), (4, 3), (4,)), "Received: (4, 3) and (4,)"),
    ((F1Score("binary"), (4,), (4, 3)), "requires two classes and one label per row. Received: 3 classes"),
    ((F1Score("binary"), (4, 2), (4, 2)), "one label per row. Received: several labels per row of 2 classes"),
    ((F1Score(threshold=0.3), (4,), (4, 3)), "is the most likely class. Received: threshold=0.3, classes=3"),
    ((F1Score(threshold=[0.3, 0.4]), (4, 3), (4, 3)), "Received: 2 thresholds for 3 classes"),
    ((MatthewsCorrelation(), (4, 3), (4, 3)), "one integer label per row. Received: classes=3"),
    call=lambda metric, true, shape: metric.update_state(np.zeros(true, "int32"), np.zeros(shape, "float32")),
)
