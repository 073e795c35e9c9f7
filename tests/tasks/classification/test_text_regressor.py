"""A regressor: floats in, floats out, files, checkpoints and mistakes."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import estimate_fisher
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.tasks import TextClassifier, TextRegressor
from keras_transfer.tasks.text_regressor import Numbers
from tests.helpers import eager
from tests.tasks.tiny import encoder, examples, preprocessor


def regressor(num_targets=1, **options):
    keras.utils.set_random_seed(0)
    return TextRegressor(encoder(), num_targets=num_targets, preprocessor=preprocessor(), dropout=0.0, **options)


def test_it_learns_numbers_and_predicts_them_in_order():
    texts, labels = examples(64)
    model = regressor()
    model.compile(keras.optimizers.Adam(0.01))
    scores = 3.0 * np.array(labels) - 1
    losses = model.fit(texts, scores, epochs=12, batch_size=16, verbose=0).history["loss"]
    with eager():
        after = model.evaluate(texts, scores, verbose=0, return_dict=True)
        predicted = model.predict(texts, verbose=0)
    assert after["loss"] < 0.5 * losses[0]
    assert predicted.shape == (64, 1)
    assert after["loss"] == pytest.approx(np.mean((predicted[:, 0] - scores) ** 2), rel=1e-3)


def test_several_targets_and_pairs_of_texts():
    model = regressor(2)
    model.compile("sgd", run_eagerly=True)
    pairs = ["a", "b", "c"], ["d", "e", "f"]
    model.fit(pairs, np.ones((3, 2)), verbose=0)
    assert model.predict(pairs, verbose=0).shape == (3, 2)


def test_a_checkpoint_restores_it(tmp_path, eagerly):
    model = regressor(2, pooling="pooled")
    expected = model.predict(["a b"], verbose=0)
    model.save_pretrained(tmp_path / "saved")
    loaded = TextRegressor.from_pretrained(tmp_path / "saved")
    assert loaded.num_targets == 2
    np.testing.assert_allclose(loaded.predict(["a b"], verbose=0), expected, atol=1e-6)
    with pytest.raises(CheckpointError, match="'single_label_classification' or.*problem_type='regression'"):
        TextClassifier.from_pretrained(tmp_path / "saved")


def test_the_head_of_a_classifier_is_not_one_of_a_regressor(tmp_path):
    TextClassifier(encoder(), num_classes=3, preprocessor=preprocessor(), pooling="pooled").save_pretrained(
        tmp_path / "saved"
    )
    with pytest.raises(CheckpointError, match="must be one for 'regression'.*problem_type='single_label"):
        TextRegressor.from_pretrained(tmp_path / "saved")
    assert TextRegressor.from_pretrained(tmp_path / "saved", num_targets=1, head="new").num_targets == 1


def test_the_export_answers_with_the_numbers():
    model = regressor()
    assert list(model.signatures()) == ["serving_default", "embed", "tokens"]
    outputs = keras.ops.convert_to_tensor([[1.5]])
    assert model.labels.response(outputs)["values"] is outputs


@pytest.mark.parametrize(
    ("num_targets", "labels", "message"),
    [
        (1, ["x", "y"], r"finite numbers \(in float32\), one for each text. Received: 'x' at position 0"),
        (2, [1.0, 2.0], r"of shape \[texts, 2\]. Received: shape \(2,\)"),
        (1, [1.0, 1e300], r"finite numbers \(in float32\).*Received: 1e\+300 at position 1"),
        (2, [[1.0, 2.0], [np.inf, 2.0]], r"Received: inf at position \(1, 0\)"),
    ],
)
def test_wrong_labels_are_one_clear_error(num_targets, labels, message):
    model = regressor(num_targets)
    model.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match=message):
        model.fit(["a", "b"], labels, verbose=0)


def test_labels_must_be_finite_in_the_type_that_they_are_trained_in():
    floatx = keras.config.floatx()
    try:
        for dtype, wrong in (("bfloat16", 1e39), ("float16", 1e5), ("float32", 1e39), ("float64", np.inf)):
            keras.config.set_floatx(dtype)
            Numbers().check([1.0, 1e300 if dtype == "float64" else 1e4])
            with pytest.raises(ValueError, match=rf"\(in {dtype}\), one for each text. Received: .* at position 1"):
                Numbers().check([1.0, wrong])
    finally:
        keras.config.set_floatx(floatx)


@pytest.mark.core
@pytest.mark.parametrize("scores", [[0.5, 1.5], [[0.5], [1.5]], np.array([0.5, 1.5])], ids=["list", "column", "array"])
def test_a_step_reads_labels_and_weights_as_float32(scores):
    model = regressor()
    batch = model.dataset(["a", "b"], scores, np.array([1.0, 2.0]))[0]
    assert [keras.backend.standardize_dtype(part.dtype) for part in batch[1:]] == ["float32"] * 2
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(batch[1]), [0.5, 1.5])


def test_a_stream_has_labels_and_weights_of_float32():
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((["a", "b"], np.array([0.5, 1.5]), np.ones(2))).batch(2)
    found = regressor().dataset(rows)
    assert [spec.dtype for spec in found.element_spec[1:]] == [tf.float32] * 2
    assert next(iter(found))[1].numpy().tolist() == [0.5, 1.5]


def test_one_batch_has_labels_of_float32(monkeypatch):
    model, seen = regressor(), []
    model.compile("sgd", run_eagerly=True)
    train_step = model.train_step
    monkeypatch.setattr(model, "train_step", lambda data: seen.append(data[1].dtype) or train_step(data))
    for x in (["a", "b"], model.dataset(["a", "b"])[0][0]):
        model.train_on_batch(x, np.array([0.5, 1.5]))
    assert seen == ["float32"] * 2


def test_no_labels_are_drawn_from_its_outputs(eagerly):
    with pytest.raises(ValueError, match="are not the logits of one label. Pass `empirical=True` and `loss`"):
        estimate_fisher(regressor(2), ["a"])
    fisher = estimate_fisher(regressor(1), ["a", "b"], [1.0, 2.0], empirical=True, loss="mse")
    assert max(values.max() for values in fisher.values()) > 0


def test_an_accuracy_of_the_user_may_be_a_metric_of_numbers(eagerly):
    def rounded_accuracy(y_true, y_pred):
        return keras.ops.mean(keras.ops.cast(keras.ops.abs(y_true - y_pred) < 0.5, "float32"))

    class ToleranceAccuracy(keras.metrics.MeanMetricWrapper):
        def __init__(self):
            super().__init__(rounded_accuracy, name="tolerance")

    model = regressor()
    model.compile("sgd", metrics=[rounded_accuracy, ToleranceAccuracy()])
    found = model.evaluate(["good", "bad"], np.array([[0.0], [9.0]], "float32"), return_dict=True, verbose=0)
    assert found["rounded_accuracy"] == found["tolerance"]
    for metric in ("accuracy", "acc", keras.metrics.Accuracy(), keras.metrics.binary_accuracy):
        with pytest.raises(ValueError, match="predicts numbers, which have no accuracy"):
            model.compile("sgd", metrics=[metric])


def test_labels_may_be_a_table_with_one_column():
    pandas = pytest.importorskip("pandas")
    model = regressor()
    model.compile("sgd")
    expected = model.evaluate(["good", "bad"], [0.0, 9.0], verbose=0)
    assert model.evaluate(["good", "bad"], pandas.DataFrame({"score": [0.0, 9.0]}), verbose=0) == expected
