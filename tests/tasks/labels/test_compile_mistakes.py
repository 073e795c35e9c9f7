"""Losses and metrics that do not fit logits, or each other, are errors in `compile` and not inside a graph."""

import keras
import numpy as np
import pytest
from keras import metrics

from keras_transfer.optimizers import FusedAdamW
from keras_transfer.tasks.keras_losses import checked_loss, takes_vectors
from tests.helpers import EAGER
from tests.tasks.tiny import of_vectors

ONE_HOT = keras.losses.CategoricalCrossentropy(from_logits=True)


def name_of(value):
    """A test id without an address in memory, which differs between the test processes."""
    return next((str(getattr(value, key)) for key in ("__name__", "name") if hasattr(value, key)), str(value))


def loss_of(model, labels, logits):
    """The mean of a compiled loss, called as a function."""
    return float(keras.ops.mean(model.loss(np.array(labels), logits)))


@pytest.fixture(scope="module")
def model():
    return of_vectors()


@pytest.mark.parametrize(
    "metric",
    [
        metrics.AUC(),
        metrics.Precision(),
        metrics.F1Score(threshold=0.5),
        metrics.CategoricalCrossentropy(),
        metrics.binary_accuracy,
        "BinaryAccuracy",
        "crossentropy",
    ],
    ids=name_of,
)
def test_a_metric_of_probabilities_is_an_error(model, metric):
    for options in ({"metrics": [metric]}, {"metrics": {"logits": metric}}, {"weighted_metrics": [metric]}):
        with pytest.raises(ValueError, match="returns logits, but the metric expects probabilities"):
            model.compile("sgd", loss=ONE_HOT, **{"metrics": None, **options})


def test_each_loss_of_keras_for_probabilities_is_an_error_and_each_takes_the_labels_that_it_is_known_for():
    integers = {"SparseCategoricalCrossentropy", "CategoricalGeneralizedCrossEntropy"}
    unknown = {"CTC", "Circle"}
    refused = {"CategoricalGeneralizedCrossEntropy", "Dice", "KLDivergence", "Poisson", "Tversky"}
    asked = {"BinaryCrossentropy", "BinaryFocalCrossentropy", "CategoricalCrossentropy"}
    asked |= {"CategoricalFocalCrossentropy", "SparseCategoricalCrossentropy"}
    others = {"CategoricalHinge", "CosineSimilarity", "Hinge", "Huber", "LogCosh", "MeanAbsoluteError"}
    others |= {"MeanAbsolutePercentageError", "MeanSquaredError", "MeanSquaredLogarithmicError", "SquaredHinge"}
    found = {name: kind for name, kind in vars(keras.losses).items() if isinstance(kind, type)}
    assert found.keys() - {"Loss"} == integers | unknown | refused | asked | others  # Else sort a new one in.
    for name in found.keys() - {"Loss"}:
        assert takes_vectors(found[name]()) == (None if name in unknown else name not in integers), name
        if name in refused | asked:
            with pytest.raises(ValueError, match="`loss` expects probabilities"):
                checked_loss(found[name](), {})
        else:
            checked_loss(found[name](), {})
        if name in asked:
            checked_loss(found[name](from_logits=True), {})
    for function in (keras.losses.kl_divergence, "kl_divergence", keras.losses.dice, keras.losses.tversky, "poisson"):
        with pytest.raises(ValueError, match="`loss` expects probabilities"):
            checked_loss(function, {})


@pytest.mark.parametrize(
    ("loss", "metric", "expected"),
    [
        ("auto", metrics.F1Score(), r"but the metric expects one-hot labels \[texts, classes\]"),
        ("auto", metrics.AUC(from_logits=True), "expects integer labels, but the metric expects one-hot"),
        (
            ONE_HOT,
            metrics.SparseCategoricalAccuracy(),
            r"expects one-hot labels \[texts, classes\], but the metric expects",
        ),
        ("mse", metrics.sparse_categorical_accuracy, "but the metric expects integer labels"),
    ],
    ids=name_of,
)
def test_a_metric_of_other_labels_than_the_loss_is_an_error(model, loss, metric, expected):
    with pytest.raises(ValueError, match=expected):
        model.compile("sgd", loss=loss, metrics=[metric])


def test_the_metrics_of_the_task_become_the_accuracy_for_a_loss_of_one_hot_labels(model):
    for loss in (ONE_HOT, "mse"):
        model.compile("sgd", loss=loss, run_eagerly=EAGER)
        found = model.test_on_batch(
            ["good", "bad"], np.eye(2, dtype="float32")[model.predict(["good", "bad"]).argmax(-1)]
        )
        assert found[1] == 1.0


class SparseF1(metrics.F1Score):
    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(keras.ops.one_hot(y_true, 2), y_pred, sample_weight)


class SoftmaxPrecision(metrics.Precision):
    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(y_true, keras.ops.softmax(y_pred), sample_weight)


class SparseOfLogits(keras.losses.CategoricalCrossentropy):
    def call(self, y_true, y_pred):
        return super().call(keras.ops.one_hot(y_true, 2), keras.ops.softmax(y_pred))


@pytest.mark.parametrize(
    ("loss", "metric"),
    [
        ("auto", SparseF1),
        (ONE_HOT, SoftmaxPrecision),
        (SparseOfLogits(), SparseF1),
    ],
    ids=["labels", "logits", "loss"],
)
def test_a_subclass_that_converts_labels_or_logits_itself_is_compiled_and_evaluated(model, loss, metric):
    labels = np.eye(2, dtype="float32") if loss is ONE_HOT else [0, 1]
    model.compile("sgd", loss=loss, metrics=[metric()], run_eagerly=EAGER)
    logits, expected = model.predict(["good", "bad"], verbose=0), metric()
    expected.update_state(np.array(labels), logits)
    found = model.test_on_batch(["good", "bad"], labels)
    assert found[0] == pytest.approx(loss_of(model, labels, logits), rel=1e-5)
    np.testing.assert_allclose(found[1], keras.ops.convert_to_numpy(expected.result()), rtol=1e-5)


class NamedPrecision(metrics.Precision):
    pass


def test_a_subclass_that_converts_nothing_is_checked_as_its_base(model):
    with pytest.raises(ValueError, match="returns logits, but the metric expects probabilities"):
        model.compile("sgd", loss=ONE_HOT, metrics=[NamedPrecision()])


@pytest.mark.parametrize(
    ("loss", "metric"),
    [
        pytest.param("auto", "accuracy", marks=pytest.mark.core),
        ("auto", metrics.SparseCategoricalCrossentropy(from_logits=True)),
        pytest.param(ONE_HOT, metrics.F1Score(), marks=pytest.mark.core),
        (keras.losses.BinaryCrossentropy(from_logits=True), metrics.Precision(thresholds=0)),
        (lambda y_true, y_pred: keras.ops.mean(y_pred, axis=-1), metrics.F1Score()),
    ],
    ids=name_of,
)
def test_what_fits_is_compiled_and_evaluated(model, loss, metric):
    labels = [0, 1] if loss == "auto" else np.eye(2, dtype="float32")
    model.compile("sgd", loss=loss, metrics=[metric], run_eagerly=EAGER)
    found = model.test_on_batch(["good", "bad"], labels)
    expected = loss_of(model, labels, model.predict(["good", "bad"], verbose=0))
    assert len(found) == 2 and found[0] == pytest.approx(expected, rel=1e-5)


def test_a_single_metric_and_names_in_a_dict_of_losses_mean_the_same_as_usual(model):
    model.compile("sgd", run_eagerly=EAGER)
    expected = model.test_on_batch(["good", "bad"], [0, 1])
    for options in ({"metrics": "accuracy"}, {"metrics": metrics.SparseCategoricalAccuracy()}):
        for loss in ("auto", {"logits": "auto"}, ["auto"]):
            model.compile("sgd", loss=loss, **options, run_eagerly=EAGER)
            assert model.test_on_batch(["good", "bad"], [0, 1]) == pytest.approx(expected)
    with pytest.raises(ValueError, match="Unknown loss. Did you mean 'focal'"):
        model.compile("sgd", loss={"logits": "focl"})


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (keras.optimizers.Adam, r"Create it: add `\(\)` after its name. Received: optimizer=<class"),
        (1e-3, r"pass `keras_transfer.optimizers.FusedAdamW\(0.001\)`. Received: optimizer=0.001"),
        (keras.optimizers.SGD(-0.1), r"must be a finite number of at least 0. Received: learning_rate=-0.1"),
        (FusedAdamW(float("nan")), "must be a finite number of at least 0. Received: learning_rate=nan"),
    ],
    ids=["class", "rate", "negative", "nan"],
)
def test_what_is_no_optimizer_or_has_no_possible_rate_is_an_error(model, optimizer, message):
    with pytest.raises(ValueError, match=message):
        model.compile(optimizer)


def test_integer_labels_do_not_go_with_a_loss_of_one_hot_labels(model):
    for loss in (ONE_HOT, "mse", keras.losses.BinaryCrossentropy(from_logits=True)):
        model.compile("sgd", loss=loss, metrics=[], run_eagerly=EAGER)
        for call in (model.fit, model.evaluate):
            with pytest.raises(ValueError, match=r"labels of shape \[texts, 2\].* For integers, use `loss='auto'`"):
                call(["good", "bad"], [0, 1], verbose=0)
