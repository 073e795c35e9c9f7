"""Several labels for a text: lists of names or zeros and ones, thresholds, files and checkpoints."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.tasks import TextClassifier
from tests.helpers import logged
from tests.tasks.tiny import WORDS, classifier, encoder, examples, of_words, preprocessor

NAMES = ["funny", "sad", "long"]
TEXTS, LISTS = ["good a", "bad b", "good bad"], [["funny"], [], ["long", "funny"]]
HOT = np.array([[1, 0, 0], [0, 0, 0], [1, 0, 1]], "float32")


@pytest.fixture
def model():
    model = of_words(WORDS, label_names=NAMES, multi_label=True, dropout=0.0)
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    return model


def test_lists_of_names_train_as_zeros_and_ones_do(model):
    start = model.get_weights()
    by_name = model.fit(TEXTS, LISTS, shuffle=False, verbose=0).history
    assert model.evaluate(TEXTS, LISTS, verbose=0) == model.evaluate(TEXTS, HOT, verbose=0)
    model.set_weights(start)
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    assert model.fit(TEXTS, HOT, shuffle=False, verbose=0).history == by_name


def test_the_loss_is_the_mean_over_all_classes_and_the_accuracy_is_that_of_logits(model):
    logits = model.predict(TEXTS, verbose=0)
    likely = 1 / (1 + np.exp(-logits))
    expected = -(HOT * np.log(likely) + (1 - HOT) * np.log(1 - likely)).mean()
    found = model.evaluate(TEXTS, HOT, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["accuracy"] == pytest.approx(((logits > 0) == HOT).mean())


def test_each_class_has_a_probability_and_a_threshold_of_its_own(model):
    likely = model.predict_proba(TEXTS)
    np.testing.assert_allclose(likely, 1 / (1 + np.exp(-model.predict(TEXTS, verbose=0))), atol=1e-6)
    model.thresholds = [0.0, 1.0, float(np.sort(likely[:, 2])[1])]
    answers = model.predict_labels(TEXTS)
    assert all("funny" in names and "sad" not in names for names in answers)
    assert sum("long" in names for names in answers) == 2


def test_tuned_thresholds_have_the_highest_f1(model, monkeypatch):
    random = np.random.default_rng(0)
    labels, likely = random.integers(0, 2, (50, 3)), random.uniform(size=(50, 3)).round(1).astype("float32")
    labels[:, 1] = 0
    with np.errstate(divide="ignore"):
        logits = np.log(likely) - np.log(1 - likely)
    monkeypatch.setattr(model, "predict", lambda x, **options: np.clip(logits, -9, 9))
    likely = np.clip(likely, 1 / (1 + np.exp(9)), 1 / (1 + np.exp(-9)))
    thresholds = model.tune_thresholds(["a"] * 50, labels)

    def f1(column, threshold):
        chosen = likely[:, column] >= threshold
        return 2 * (chosen & (labels[:, column] == 1)).sum() / (chosen.sum() + labels[:, column].sum())

    for column in (0, 2):
        best = max(f1(column, threshold) for threshold in np.linspace(0, 1, 101))
        assert f1(column, thresholds[column]) == pytest.approx(best)
    assert thresholds[1] == 0.5 and model.thresholds is thresholds


def test_thresholds_that_change_for_other_adapters_are_one_warning(caplog):
    model = classifier(None, label_names=NAMES, multi_label=True)
    add_adapters(model, "bitfit", name="first").tune_thresholds(TEXTS, LISTS)
    assert not logged(caplog, "adapters")
    add_adapters(model, "bitfit", name="second").tune_thresholds(TEXTS, LISTS)
    (message,) = logged(caplog, "adapters")
    assert "found with the head of second. Set `model.thresholds` when you activate others, such as first" in message


def test_a_checkpoint_says_that_a_text_has_several_labels(tmp_path, eagerly):
    model = TextClassifier(encoder(), preprocessor=preprocessor(), label_names=NAMES, multi_label=True)
    model.save_pretrained(tmp_path / "saved")
    loaded = TextClassifier.from_pretrained(tmp_path / "saved")
    assert loaded.multi_label and loaded.label_names == NAMES
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-6)
    with pytest.raises(CheckpointError, match="has multi_label=True.*Received: multi_label=False"):
        TextClassifier.from_pretrained(tmp_path / "saved", multi_label=False)


def test_the_answer_of_an_export_is_one_number_for_each_class(model):
    model.thresholds = [0.0, 1.0, 0.5]
    answer = model.labels.response(
        keras.ops.convert_to_tensor(np.array([[0.0, 0.0, 1.0], [0.0, 9.0, -1.0]], "float32"))
    )
    np.testing.assert_array_equal(answer["chosen"], [[1, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(answer["probabilities"][0], [0.5, 0.5, 0.7310586], atol=1e-6)
    assert list(model.signatures()) == ["serving_default", "embed", "tokens"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([["funny"], ["glad"], []], "Received: 'glad' at position 1"),
        (["funny", "sad", "sad"], "must be lists of names. Received: 'funny' at position 0"),
        ([0, 1, 2], r"numbers of shape \[texts, 3\].*Received: int64 of shape \(3,\)"),
        (HOT[:, :2], r"Received: float32 of shape \(3, 2\)"),
        (HOT * 2, r"from 0 to 1. Received: 2.0 at position \(0, 0\)"),
    ],
)
@pytest.mark.report("Names of labels for a model with several labels are read letter by letter.", "setfit#69")
def test_other_labels_are_one_clear_error(model, labels, message):
    with pytest.raises(ValueError, match=message):
        model.fit(TEXTS, labels, verbose=0)


def test_what_needs_one_label_for_a_text_is_an_error(model):
    with pytest.raises(ValueError, match="requires labels that are classes.*Received: class_weight='balanced'"):
        model.fit(TEXTS, HOT, class_weight="balanced", verbose=0)
    with pytest.raises(ValueError, match="`class_weight` requires labels that are classes"):
        model.fit(TEXTS, HOT, class_weight={0: 1.0}, verbose=0)
    with pytest.raises(ValueError, match="Only a classifier with `multi_label=True` has thresholds"):
        classifier().tune_thresholds(["a"], [0])
    for thresholds in ([0.5], [0.5, 0.5, 2.0], 0.5, ["a", "b", "c"]):
        with pytest.raises(ValueError, match="`thresholds` must be 3 probabilities"):
            TextClassifier(encoder(), num_classes=3, multi_label=True, thresholds=thresholds)
    with pytest.raises(ValueError, match="require `multi_label=True`"):
        TextClassifier(encoder(), num_classes=2, thresholds=[0.5, 0.5])


def test_calibration_keeps_the_labels_that_thresholds_predict(model, eagerly):
    random = np.random.default_rng(0)
    texts, _ = examples(40)
    layer = model.get_layer("logits")
    layer.kernel.assign(layer.kernel * (6.0 / model.predict(texts, verbose=0).std()))
    labels = ((model.predict(texts, verbose=0) > 0) ^ (random.random((40, 3)) < 0.25)).astype(int)
    model.thresholds = [0.3, 0.9, 1.0]
    before = model.predict_labels(texts)
    found = model.calibrate(texts, labels)
    assert found.temperature > 1.5 and model.thresholds[0] > 0.3 and model.thresholds[2] == 1.0
    assert model.predict_labels(texts) == before
    logits = model.predict(texts, verbose=0).astype("float64")
    at_best, *others = (
        np.logaddexp(0, factor * logits * (1 - 2 * labels)).mean() for factor in (1, 0.9, 0.98, 1.02, 1.1)
    )
    assert at_best <= min(others) + 1e-9


def test_nothing_is_changed_by_data_that_cannot_calibrate(model):
    before = model.get_layer("logits").get_weights()
    with pytest.raises(ValueError, match="at least one text. Received: labels=0, texts=0"):
        model.calibrate([], [])
    with pytest.raises(ValueError, match="at least one text"):
        model.tune_thresholds([], [])
    with pytest.raises(ValueError, match="Received: labels=1, texts=2"):
        model.calibrate(["a", "b"], [["sad"]])
    np.testing.assert_array_equal(model.get_layer("logits").get_weights()[0], before[0])


def test_rows_without_any_label_are_labels(model):
    np.testing.assert_array_equal(model.labels.encode([[], []]), np.zeros((2, 3)))


def test_a_calibrated_model_has_the_likeliest_temperature_and_keeps_its_answers(eagerly):
    model = classifier(3)
    texts, labels = examples(64)
    layer = model.get_layer("logits")
    layer.kernel.assign(layer.kernel * (8.0 / model.predict(texts, verbose=0).std()))  # far too confident
    before = model.predict(texts, verbose=0)
    found = model.calibrate(texts, labels)
    after = model.predict(texts, verbose=0)
    np.testing.assert_allclose(after * found.temperature, before, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(after.argmax(1), before.argmax(1))
    assert found.temperature > 1 and found.error_after < found.error_before

    def cost(logits):
        likely = np.exp(logits - logits.max(1, keepdims=True))
        likely /= likely.sum(1, keepdims=True)
        return -np.log(likely[np.arange(64), labels]).mean()

    at_best = cost(after.astype("float64"))
    assert at_best <= min(cost(after * factor) for factor in (0.9, 0.98, 1.02, 1.1)) + 1e-9
