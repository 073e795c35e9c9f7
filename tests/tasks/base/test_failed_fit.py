"""A `fit` or `evaluate` that fails leaves a model that trains as if nothing had happened."""

import itertools

import keras
import numpy as np
import pytest

from keras_transfer.tasks import TextClassifier
from tests.helpers import EAGER
from tests.tasks.tiny import difference, of_vectors

TEXTS, LABELS = ["good", "bad a"], [1, 0]


def made(run_eagerly=False):
    model = of_vectors()
    model.compile(keras.optimizers.Adam(0.1), metrics=["accuracy"], run_eagerly=run_eagerly)
    return model


def renamed(model):
    """Batches with a wrong key, which only the model notices."""
    ids = {name: np.array(values) for name, values in model.preprocessor(TEXTS).items()}
    ids["tokens"] = ids.pop("token_ids")

    def batches():
        while True:
            yield ids, np.array(LABELS)

    return batches()


def interrupt(monkeypatch, step, call=1):
    """Lets a step, such as `train_step`, raise a KeyboardInterrupt in one of its calls."""
    original, calls = getattr(TextClassifier, step), itertools.count(1)

    def interrupted(self, *args, **kwargs):
        if next(calls) == call:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(TextClassifier, step, interrupted)


@pytest.mark.core
@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_after_an_error_in_the_first_step_the_next_fit_trains(method):
    model, other = made(), made(run_eagerly=EAGER)
    with pytest.raises(Exception) as error:  # of each backend
        steps = {"fit": {"steps_per_epoch": 1}, "evaluate": {"steps": 1}}[method]
        getattr(model, method)(renamed(model), verbose=0, **steps)
    assert "token" in str(error.value)
    for task in (model, other):
        task.fit(TEXTS, LABELS, epochs=2, shuffle=False, verbose=0)
    assert difference(model.get_weights(), other.get_weights()) < 1e-6
    if method == "evaluate":
        assert model.evaluate(TEXTS, LABELS, verbose=0) == pytest.approx(other.evaluate(TEXTS, LABELS, verbose=0))


def test_an_error_of_a_callback_before_the_first_epoch_is_raised_as_it_is():
    def fail(logs):
        raise ValueError("too few steps")

    callback = keras.callbacks.LambdaCallback(on_train_begin=fail)
    with pytest.raises(ValueError, match="too few steps"):
        made(run_eagerly=EAGER).fit(TEXTS, LABELS, callbacks=[callback], verbose=0)


@pytest.mark.core
@pytest.mark.parametrize("run_eagerly", [False, True])
def test_after_an_interrupt_in_the_first_step_the_next_fit_trains(run_eagerly, monkeypatch):
    model, other = made(run_eagerly), made(run_eagerly=EAGER)
    interrupt(monkeypatch, "train_step")
    with pytest.raises(KeyboardInterrupt):
        model.fit(TEXTS, LABELS, verbose=0)
    for task in (model, other):
        task.fit(TEXTS, LABELS, epochs=2, shuffle=False, verbose=0)
    assert difference(model.get_weights(), other.get_weights()) < 1e-6


@pytest.mark.core
def test_after_an_interrupt_in_the_second_step_the_weights_are_those_of_the_first(monkeypatch):
    model, other = made(run_eagerly=True), made(run_eagerly=True)
    interrupt(monkeypatch, "train_step", 2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(TEXTS, LABELS, batch_size=1, shuffle=False, verbose=0)
    other.train_on_batch(TEXTS[:1], LABELS[:1])
    assert difference(model.get_weights(), other.get_weights()) < 1e-6
    assert np.isfinite(model.fit(TEXTS, LABELS, verbose=0).history["loss"]).all()


@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_after_an_interrupt_evaluate_and_predict_return_what_they_would(method, monkeypatch):
    model, other = made(), made(run_eagerly=EAGER)
    interrupt(monkeypatch, {"evaluate": "test_step", "predict": "predict_step"}[method])
    data = (TEXTS, LABELS) if method == "evaluate" else (TEXTS,)
    with pytest.raises(KeyboardInterrupt):
        getattr(model, method)(*data, verbose=0)
    found, expected = (np.array(getattr(task, method)(*data, verbose=0)) for task in (model, other))
    assert difference([found], [expected]) < 1e-5


@pytest.mark.core
@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
@pytest.mark.parametrize("earlier", ["train_on_batch", "predict_on_batch"])
def test_a_failure_keeps_the_weights_that_were_set_since_the_last_batch(method, earlier, monkeypatch):
    interrupt(monkeypatch, "train_step", 2 if earlier == "train_on_batch" else 1)
    model = made(run_eagerly=True)
    getattr(model, earlier)(*(TEXTS, LABELS)[: 1 + (earlier == "train_on_batch")])
    expected = [np.full_like(value, 7.0) for value in model.get_weights()]
    model.set_weights(expected)
    with pytest.raises(KeyboardInterrupt):
        getattr(model, method)(TEXTS, LABELS)
    assert difference(model.get_weights(), expected) == 0.0


def test_an_evaluate_that_fails_in_a_callback_and_is_caught_there_does_not_end_the_fit(monkeypatch):
    def fails(self, *args, **kwargs):
        raise OSError

    class Evaluates(keras.callbacks.Callback):
        errors = 0

        def on_train_batch_end(self, batch, logs=None):
            try:
                self.model.evaluate(TEXTS, LABELS, verbose=0)
            except OSError:
                self.errors += 1

    monkeypatch.setattr(TextClassifier, "test_step", fails)
    model, other, callback = made(run_eagerly=EAGER), made(run_eagerly=EAGER), Evaluates()
    for task, callbacks in ((model, [callback]), (other, [])):
        task.fit(TEXTS, LABELS, batch_size=1, shuffle=False, callbacks=callbacks, verbose=0)
    assert callback.errors == 2
    assert difference(model.get_weights(), other.get_weights()) < 1e-6


def test_labels_that_are_refused_before_a_step_leave_the_traced_functions():
    model = made(run_eagerly=True)
    model.fit(TEXTS, LABELS, validation_data=(TEXTS, LABELS), verbose=0)
    before = model.train_function, model.test_function
    for call in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match="Received: 5 at position 0"):
            call(TEXTS, [5, 0])
    assert all(now is function for now, function in zip((model.train_function, model.test_function), before))


def test_a_wrong_label_that_was_only_read_ahead_does_not_hide_the_error_of_a_callback():
    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise RuntimeError("The disk is full.")

    model = made(run_eagerly=True)
    with pytest.raises(RuntimeError, match="The disk is full"):
        model.fit(TEXTS, LABELS, callbacks=[Fails()], verbose=0)


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="on torch, Keras catches what a first metric raises")
def test_after_an_interrupt_in_a_metric_the_next_fit_trains():
    class Interrupts(keras.metrics.Mean):
        first = True

        def update_state(self, y_true, y_pred, sample_weight=None):
            if Interrupts.first:
                Interrupts.first = False
                raise KeyboardInterrupt
            super().update_state(y_pred)

    model = of_vectors()
    model.compile(keras.optimizers.Adam(0.1), metrics=["accuracy", Interrupts(name="mean")])
    with pytest.raises(KeyboardInterrupt):
        model.fit(TEXTS, LABELS, verbose=0)
    assert np.isfinite(model.fit(TEXTS, LABELS, verbose=0).history["mean"]).all()


@pytest.mark.parametrize("method", ["evaluate", "fit"])
def test_an_error_in_a_later_batch_of_a_dataset_is_raised_as_it_is_and_keeps_the_weights(method):
    tf = pytest.importorskip("tensorflow")
    model = made(run_eagerly=True)
    before = model.get_weights()
    ids = {name: np.array(values) for name, values in model.preprocessor(TEXTS).items()}
    data = tf.data.Dataset.from_tensor_slices((ids, [0, 5])).batch(1)
    model.optimizer.learning_rate = 0.0
    with pytest.raises(ValueError, match="Received: 5 at position 0") as error:
        getattr(model, method)(data, verbose=0)
    assert type(error.value.__cause__).__module__.startswith("tensorflow")
    assert difference(model.get_weights(), before) == 0.0


def test_a_second_fit_goes_on_from_moving_averages_of_the_weights():
    model = of_vectors()
    model.compile(keras.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5))
    model.fit(TEXTS, LABELS, verbose=0)
    before = [keras.ops.convert_to_numpy(weight).copy() for weight in model.trainable_weights]
    model.fit(TEXTS, LABELS, verbose=0)
    assert difference([keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights], before) > 0
