"""The metrics work in `fit` and `evaluate`, on replicas, and in tasks."""

import keras
import numpy as np
import pytest

from keras_transfer import metrics
from tests.helpers import EAGER
from tests.metrics.cases import CROSSENTROPY, pass_through, result_of
from tests.tasks.tiny import examples, of_vectors

CLASSES = 3


def class_metrics():
    """Metrics of integer labels and logits, one of each base."""
    return [metrics.F1Score(), metrics.AUC(capacity=64), metrics.ExpectedCalibrationError(), metrics.NDCG(2)]


def class_data(rows=22):
    random = np.random.default_rng(0)
    return random.integers(0, CLASSES, rows), random.normal(size=(rows, CLASSES)).astype("float32"), random.random(rows)


def regression_data():
    return np.random.default_rng(0).normal(size=(2, 22, 1)).astype("float32")


@pytest.mark.core
def test_an_epoch_of_fit_equals_one_batch_with_all_rows():
    true, outputs, weights = class_data()
    weights[5:8] = 0.0
    jit_compile = keras.backend.backend() != "torch"  # which has no XLA
    model = pass_through((CLASSES,), CROSSENTROPY, weighted_metrics=class_metrics(), jit_compile=jit_compile)
    history = model.fit(outputs, true, batch_size=11, epochs=2, sample_weight=weights, verbose=0).history
    for metric in class_metrics():
        expected = float(result_of(metric, true, outputs, weights))
        assert abs(expected) > 0.01
        assert history[metric.name] == pytest.approx([expected] * 2, abs=1e-5)


def test_a_classifier_is_compiled_with_them_and_evaluated():
    model = of_vectors()
    texts, labels = examples(16)
    found = [*metrics.glue_metrics("MRPC"), metrics.Recall(None), metrics.AUC(), metrics.MatthewsCorrelation()]
    model.compile("sgd", metrics=found, run_eagerly=EAGER)
    logs = model.evaluate(texts, labels, verbose=0, return_dict=True)
    logits = model.predict(texts, verbose=0)
    assert logs["f1"] == pytest.approx(float(result_of(metrics.F1Score("binary"), labels, logits)))
    assert logs["auc"] == pytest.approx(float(result_of(metrics.AUC(), labels, logits)))
    assert np.shape(logs["recall"]) == (2,)


def test_several_labels_per_text_need_a_loss_of_them():
    model, random = of_vectors(), np.random.default_rng(0)
    texts, _ = examples(16)
    labels = random.integers(0, 2, (16, 2)).astype("float32")
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile("sgd", loss=loss, metrics=[metrics.F1Score("micro")], run_eagerly=True)
    logs = model.evaluate(texts, labels, verbose=0, return_dict=True)
    expected = result_of(metrics.F1Score("micro"), labels, model.predict(texts, verbose=0))
    assert logs["f1"] == pytest.approx(float(expected))
    for metric in (metrics.F1Score(), metrics.AUC()):
        with pytest.raises(ValueError, match="but the metric treats labels .* as several per text"):
            model.compile("sgd", loss=keras.losses.CategoricalCrossentropy(from_logits=True), metrics=[metric])


class Counted(metrics.F1Score):
    """Counts how often its update is traced."""

    traces = 0

    def update_state(self, *args, **kwargs):
        self.traces += 1
        super().update_state(*args, **kwargs)


def test_steps_with_them_are_traced_once():
    model, counted = of_vectors(), Counted()
    model.compile("sgd", metrics=[counted, metrics.AUC()])
    model.evaluate(*examples(16), batch_size=4, verbose=0)
    assert counted.traces == 1


def test_a_full_buffer_is_reported_by_fit_and_training_goes_on():
    true, outputs = regression_data()
    model = pass_through((1,), "mse", metrics=[metrics.PearsonCorrelation(capacity=20)])
    with pytest.warns(
        UserWarning, match=r"'pearson_correlation' is NaN, because it has room for 20 rows and received 2"
    ):
        history = model.fit(outputs, true, batch_size=11, epochs=2, verbose=0).history
    assert np.isnan(history["pearson_correlation"]).all() and np.isfinite(history["loss"]).all()


def test_two_replicas_compute_what_one_device_does(tensorflow_process):
    found = tensorflow_process("tests.metrics.mirrored:main")
    assert found["replicas"] == 2
    assert found["two"] == pytest.approx(found["one"], abs=1e-5)
    assert all(abs(value) > 0.01 for value in found["one"].values())


def test_a_full_buffer_of_one_replica_makes_the_result_nan(tensorflow_process):
    assert np.isnan(tensorflow_process("tests.metrics.mirrored:full"))
