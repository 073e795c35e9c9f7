"""A report on several labels for each row has the scores of scikit-learn, with intervals, for all labels and each."""

import re

import numpy as np
import pytest

from keras_transfer.analysis import MultiLabelReport, report
from tests.tasks.tiny import classifier, of_words

NAMES = ["film", "fun", "sad"]
LABELS, PREDICTED = [["film"], ["film", "fun"], [], ["fun"]], [["film"], ["film"], ["fun"], ["fun"]]


def test_the_report_has_micro_and_macro_f1_the_subset_accuracy_and_the_scores_of_each_label():
    found = MultiLabelReport(LABELS, PREDICTED, label_names=NAMES, resamples=20)
    assert {name: score.value for name, score in found.metrics.items()} == pytest.approx(
        {"micro_f1": 6 / 8, "macro_f1": (1 + 0.5) / 2, "subset_accuracy": 2 / 4}  # "sad" does not occur
    )
    fun = found.classes["fun"]
    assert (fun["precision"], fun["recall"], fun["f1"].value, fun["count"]) == (0.5, 0.5, 0.5, 2)
    assert found.classes["sad"] == {"precision": 0.0, "recall": 0.0, "f1": (0.0, 0.0, 0.0), "count": 0}
    text = str(found)
    assert text.startswith("4 rows, 3 labels, 2 have exactly the right labels\n")
    assert re.search(r"^micro F1 +0\.7500  \[", text, re.MULTILINE)
    assert re.search(r"^film +1\.000 +1\.000 +1\.000 +\[.*, 1\.0000\] +2$", text, re.MULTILINE)


def test_the_scores_equal_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn: pip install scikit-learn")
    random = np.random.default_rng(0)
    labels, predicted = (random.integers(0, 2, (50, 3)) for _ in range(2))
    found = MultiLabelReport(labels, predicted, label_names=NAMES, resamples=2)
    for average in ("micro", "macro"):
        expected = sklearn.f1_score(labels, predicted, average=average)
        assert found.metrics[f"{average}_f1"].value == pytest.approx(expected)
    assert found.metrics["subset_accuracy"].value == pytest.approx(sklearn.accuracy_score(labels, predicted))
    columns = sklearn.precision_recall_fscore_support(labels, predicted)
    classes = [{**values, "f1": values["f1"].value} for values in found.classes.values()]
    for name, column in zip(("precision", "recall", "f1", "count"), columns):
        assert [values[name] for values in classes] == pytest.approx(list(column))


def test_intervals_contain_the_values_and_depend_on_the_seed_and_the_confidence():
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, (80, 3))
    predicted = np.where(random.random((80, 3)) < 0.7, labels, 1 - labels)
    found, same, other, narrow = (
        MultiLabelReport(labels, predicted, label_names=NAMES, seed=seed, resamples=100, confidence=confidence)
        for seed, confidence in ((1, 0.95), (1, 0.95), (2, 0.95), (1, 0.5))
    )
    assert found.metrics == same.metrics and found.metrics != other.metrics
    for score, inner in zip(found.metrics.values(), narrow.metrics.values(), strict=True):
        assert score.low < inner.low < score.value < inner.high < score.high
    assert all(values["f1"].low < values["f1"].value < values["f1"].high for values in found.classes.values())


def test_a_model_with_several_labels_is_evaluated_with_its_thresholds(eagerly):
    model = of_words(list("abyz"), label_names=NAMES, multi_label=True)
    texts = ["a", "b y", "z z"]
    model.thresholds = np.sort(model.predict_proba(texts), axis=0)[:2].mean(axis=0).tolist()
    found = report(model, texts, model.predict_labels(texts), slices={"with b": "b"}, num_examples=2, resamples=2)
    assert isinstance(found, MultiLabelReport) and found.metrics["subset_accuracy"].value == 1
    assert 0 < found.metrics["subset_accuracy"].low < found.metrics["subset_accuracy"].high == 1
    assert found.labels.sum() == 6 and found.slices[-1].rows.tolist() == [1]
    np.testing.assert_array_equal(found.probabilities, model.predict_proba(texts))
    assert len(found.hardest) == 2 and found.hardest[0].text == (texts[found.hardest[0].position],)
    renamed = report(model, texts, [["x"], [], []], label_names=["x", "y", "z"], resamples=2)
    assert list(renamed.classes) == ["x", "y", "z"] and (renamed.predicted == found.predicted).all()
    with pytest.raises(
        ValueError, match=r"`label_names` must be 3 names, as the model has. Received: label_names=\['x'\]"
    ):
        report(model, texts, [[], [], []], label_names=["x"])
    model = classifier(num_classes=3, label_names=NAMES, multi_label=True)
    pairs = report(model, (["good", "a"], ["b", "bad"]), [["film"], []], resamples=2)
    assert sorted(example.text for example in pairs.hardest) == [("a", "bad"), ("good", "b")]


def test_intervals_are_those_of_rows_that_are_drawn_anew():
    random = np.random.default_rng(0)
    labels, predicted = (random.integers(0, 2, (12, 3)) for _ in range(2))
    found = MultiLabelReport(
        labels, predicted, label_names=NAMES, seed=5, resamples=1
    )  # whose limits are the scores of one draw
    rows = np.random.default_rng(5).integers(12, size=12)
    drawn = MultiLabelReport(labels[rows], predicted[rows], label_names=NAMES, resamples=1)
    for name in ("micro_f1", "macro_f1"):
        assert found.metrics[name].low == found.metrics[name].high == pytest.approx(drawn.metrics[name].value)
    for name, values in found.classes.items():
        assert values["f1"].low == pytest.approx(drawn.classes[name]["f1"].value)


@pytest.mark.parametrize("right", [True, False])
def test_the_interval_of_macro_f1_contains_its_value_if_resamples_lack_labels(right):
    labels = np.eye(20, dtype=int)
    predicted = labels if right else np.repeat(labels[:1], 20, axis=0)
    found = MultiLabelReport(labels, predicted, label_names=[*map(str, range(20))], resamples=200).metrics["macro_f1"]
    assert found.low <= found.value <= found.high


def with_probabilities(rows=60, **options):
    """A report on random predictions whose probabilities are those of their labels."""
    random = np.random.default_rng(0)
    probabilities = random.random((rows, 3)).round(2)
    labels = random.random((rows, 3)) < probabilities
    texts = [" ".join(["word"] * (row % 7 + 1)) for row in range(rows)]
    options = {"texts": texts, "resamples": 20, **options}
    return MultiLabelReport(
        labels.astype(int), probabilities >= 0.5, label_names=NAMES, probabilities=probabilities, **options
    )


def test_examples_are_those_whose_set_of_labels_has_the_lowest_probability_and_the_most_confident_mistakes():
    labels, probabilities = [["film"], [], ["fun"]], [[0.9, 0.2, 0.1], [0.6, 0.1, 0.1], [0.2, 0.3, 0.4]]
    texts = (["a", "b", "c"], ["x", "y", "z"])
    found = MultiLabelReport(
        labels, [["film"], ["film"], []], label_names=NAMES, probabilities=probabilities, texts=texts, resamples=2
    )
    likely = {0: 0.9 * 0.8 * 0.9, 1: 0.4 * 0.9 * 0.9, 2: 0.8 * 0.3 * 0.6}
    assert [example.position for example in found.hardest] == [2, 1, 0]
    assert {example.position: example.label_probability for example in found.hardest} == pytest.approx(likely)
    first, second = found.confident_mistakes
    assert (first.position, first.label, first.predicted, first.text) == (1, (), ("film",), ("b", "y"))
    assert (first.probability, second.probability) == pytest.approx((0.6 * 0.9 * 0.9, 0.8 * 0.7 * 0.6))
    assert (second.position, second.label, second.predicted) == (2, ("fun",), ())
    both = MultiLabelReport(
        [["film", "sad"]], [["sad"]], label_names=NAMES, probabilities=[[0.001, 0.1, 0.9]], resamples=2
    )
    assert both.hardest[0].label == ("film", "sad") and both.hardest[0].text is None
    assert "which are also the most confident mistakes" in str(both)
    assert re.search(r"^0 +film \| sad +sad +0\.809 +8e-04$", str(both), re.MULTILINE)
    assert re.search(r"^1 +\(none\) +film +0\.486", str(found), re.MULTILINE)
    few = MultiLabelReport(
        labels, [[], [], []], label_names=NAMES, probabilities=probabilities, resamples=2, num_examples=1
    )
    assert [len(few.hardest), len(few.confident_mistakes)] == [1, 1]


def test_examples_with_impossible_labels_are_in_the_order_of_their_number():
    labels, certain = [["film"], ["film", "fun"], []], np.zeros((3, 3))
    found = MultiLabelReport(labels, [[], [], []], label_names=NAMES, probabilities=certain, resamples=2)
    assert [example.position for example in found.hardest] == [1, 0, 2]
    assert [example.position for example in found.confident_mistakes] == [0, 1]


def test_each_label_of_each_row_counts_for_the_calibration_whatever_the_thresholds_are():
    labels, probabilities = [["film"], ["film"]], [[0.9, 0.2], [0.3, 0.1]]
    found = MultiLabelReport(labels, labels, label_names=NAMES[:2], probabilities=probabilities, resamples=2)
    assert found.metrics["subset_accuracy"].value == 1  # with a threshold of 0.25
    filled = [(part.count, part.confidence, part.accuracy) for part in found.reliability if part.count]
    assert np.ravel(filled) == pytest.approx([1, 0.7, 0, 1, 0.8, 1, 2, 0.9, 1])
    assert found.calibration_error == pytest.approx((0.7 + 0.2 + 0.1 + 0.1) / 4)
    assert "counts, as predicted if its probability is above 0.5." in str(found)
    assert re.search("^confidence +labels +mean", str(found), re.MULTILINE)


def test_without_labels_and_predictions_f1_is_zero_although_all_is_right():
    found = MultiLabelReport(
        [[], []], [[], []], label_names=["film"], probabilities=[[0.1], [0.2]], texts=["a", "b b"], resamples=2
    )
    assert {name: score.value for name, score in found.metrics.items()} == {
        "micro_f1": 0.0,
        "macro_f1": 0.0,
        "subset_accuracy": 1.0,
    }
    assert found.confident_mistakes == [] and [example.position for example in found.hardest] == [1, 0]


def test_slices_have_the_scores_of_their_rows():
    found = with_probabilities(slices={"first": np.arange(60) < 4, "none": np.zeros(60, bool)})
    assert [part.name for part in found.slices][-2:] == ["first", "none"] and len(found.slices) == 5
    rows = slice(0, 4)
    alone = MultiLabelReport(
        found.labels[rows].astype(int),
        found.predicted[rows],
        label_names=NAMES,
        probabilities=found.probabilities[rows],
    )
    first, none = found.slices[-2:]
    assert {name: score.value for name, score in first.metrics.items()} == pytest.approx(
        {name: score.value for name, score in alone.metrics.items()}
    )
    assert first.metrics["subset_accuracy"] == alone.metrics["subset_accuracy"]
    assert first.calibration_error == pytest.approx(alone.calibration_error)
    assert none.metrics == {} and np.isnan(none.calibration_error)
    head = r"^slice +rows +subset accuracy +interval +micro F1 +interval +calibration error$"
    assert re.search(head, str(found), re.MULTILINE)


def test_the_page_has_the_tables_of_the_text_and_two_pictures(tmp_path):
    page = with_probabilities().to_html(tmp_path / "page.html", title="A & B").read_text("utf-8")
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert "darker: more labels" in page
    assert titles[:3] == ["Labels", "Reliability", "Slices"] and titles[3].startswith("Hardest examples")
    assert page.count("<svg") == 2 and "subset accuracy of each slice, dashed: all rows" in page
    assert "<title>A &amp; B</title>" in page and "confusion" not in page.lower()


def test_without_probabilities_there_are_slices_but_no_calibration_and_no_examples(tmp_path):
    found = MultiLabelReport(LABELS, PREDICTED, label_names=NAMES, texts=["a", "a b", "a", "b"], resamples=2)
    assert found.hardest == found.confident_mistakes == [] and np.isnan(found.calibration_error)
    assert found.reliability is None and len(found.slices) == 2
    assert "calibration" not in str(found) and "Hardest" not in str(found)
    assert found.to_html(tmp_path / "page.html").read_text("utf-8").count("<svg") == 1


@pytest.mark.parametrize(
    ("labels", "predicted", "options", "message"),
    [
        ([["film"]], PREDICTED, {}, "Received: labels=1, predictions=4"),
        ([], [], {}, "at least one row. Received: labels=0"),
        ([["fil"]], [[]], {}, "argument `y_true`. .* Did you mean 'film'. Received: 'fil' at position 0"),
        ([["film"]], [["fil"]], {}, "argument `y_pred`. .* Received: 'fil' at position 0"),
        ([[0, 1]], [[0, 1, 1]], {}, r"numbers of shape \[texts, 3\]. Received: int64 of shape \(1, 2\)"),
        ([[0, 1, 0.5]], [[0, 1, 1]], {}, r"`y_true` must be .*zeros and ones. .* Received: 0.5 at position \(0, 2\)"),
        ([[0, 1, 0]], [[0, 1e-9, 1]], {}, r"`y_pred` must be .*probabilities.* Received: 1e-09 at position \(0, 1"),
        (LABELS, PREDICTED, {"label_names": ["a", "a"]}, "must be different names"),
        (LABELS, PREDICTED, {"label_names": None}, r"at least one. Received: label_names=\[\]"),
        (LABELS, PREDICTED, {"texts": ["a"]}, r"Received: texts=\[1\], rows=4"),
        (LABELS, PREDICTED, {"probabilities": [[0.5, 0.5]]}, r"\(4, 3\). Received: probabilities=\(1, 2\)"),
        ([[]], [[]], {"probabilities": [[0.5, 1, 1.5]]}, r"between 0 and 1. Received: 1.5 at position \(0, 2\)"),
        ([[]], [[]], {"probabilities": [[0.5], "a"]}, "`probabilities` must be an array of numbers"),
        (LABELS, PREDICTED, {"texts": (["a"] * 4, ["b"] * 3)}, r"Received: texts=\[4, 3\], rows=4"),
        (LABELS, PREDICTED, {"texts": "abcd"}, r"Received: texts=\[1\], rows=4"),
        ([[]], [[]], {"probabilities": [[0.5, np.nan, 1]]}, r"Received: nan at position \(0, 1\)"),
    ],
)
def test_invalid_arguments_are_errors(labels, predicted, options, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelReport(labels, predicted, **{"label_names": NAMES, **options})
