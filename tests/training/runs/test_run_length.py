"""Tasks and callbacks warn if a learning rate schedule ends before the run."""

import logging

import keras
import numpy as np
import pytest

from keras_transfer.callbacks import GradualUnfreezing, Stage
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.optimizers.schedules import InverseSquareRoot, LinearWarmupDecay, SlantedTriangular, WarmupCosine
from keras_transfer.training.progress import Progress, warn_if_shorter
from tests.helpers import logged
from tests.tasks import tiny
from tests.training.runs.staging_models import Restarting

X, Y = np.ones((16, 5), "float32"), np.ones((16, 3), "float32")


def make_model(rate, **options):
    layers = [keras.layers.Dense(4, name="low"), keras.layers.Dense(3, name="top")]
    model = keras.Sequential([keras.Input((5,)), *layers])
    model.compile(keras.optimizers.Adam(rate, **options), "mse")
    return model


def warnings_of(caplog, optimizer, steps):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "keras_transfer"):
        warn_if_shorter(optimizer, steps)
    return [record.getMessage() for record in caplog.records]


def test_a_schedule_shorter_than_the_run_gives_one_warning(caplog):
    optimizer = keras.optimizers.AdamW(SlantedTriangular(2e-4, 100))
    assert warnings_of(caplog, optimizer, 100) == []
    (message,) = warnings_of(caplog, optimizer, 400)
    assert "SlantedTriangular" in message and "step 100," in message and "total_steps=400" in message
    assert warnings_of(caplog, optimizer, 400) == []
    assert len(warnings_of(caplog, optimizer, 500)) == 1


def test_a_schedule_far_longer_than_the_run_gives_one_warning(caplog):
    optimizer = keras.optimizers.AdamW(SlantedTriangular(2e-4, 1000))
    (message,) = warnings_of(caplog, optimizer, 99)
    assert "ends at step 99, but the learning rate schedule SlantedTriangular only at step 1000" in message
    assert "total_steps=99" in message and warnings_of(caplog, optimizer, 99) == []
    assert warnings_of(caplog, keras.optimizers.AdamW(SlantedTriangular(2e-4, 1000)), 100) == []


@pytest.mark.parametrize("wrap", ["loss scaling", "layerwise", "both"])
def test_a_schedule_is_found_in_an_optimizer_that_wraps_another(caplog, wrap):
    model = make_model(0.1)
    optimizer = keras.optimizers.Adam(WarmupCosine(2e-4, 100))
    if wrap != "loss scaling":
        optimizer = LayerwiseOptimizer(optimizer, model, decay=0.5)
    if wrap != "layerwise":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    assert "WarmupCosine" in warnings_of(caplog, optimizer, 101)[0]


@pytest.mark.parametrize("every", [None, 2])
def test_the_steps_of_a_schedule_are_batches_since_the_first_of_the_optimizer(caplog, every):
    model = make_model(SlantedTriangular(0.1, 10), gradient_accumulation_steps=every)
    model.fit(X, Y, batch_size=2, verbose=0)  # 8 batches
    # Keras passes the number of batches to the schedule.
    assert float(model.optimizer.learning_rate) == pytest.approx(float(SlantedTriangular(0.1, 10)(8)))
    assert warnings_of(caplog, model.optimizer, 2) == []
    (message,) = warnings_of(caplog, model.optimizer, 8)
    assert "at step 16 (it begins at step 8)" in message


@pytest.mark.parametrize(
    "rate", [0.1, lambda: 0.1, InverseSquareRoot(0.1, 5), keras.optimizers.schedules.CosineDecay(0.1, 5)], ids=type
)
def test_a_rate_without_an_end_gives_no_warning(caplog, recwarn, rate):
    assert warnings_of(caplog, keras.optimizers.SGD(rate), 1000) == []
    assert [warning for warning in recwarn if issubclass(warning.category, UserWarning)] == []


def test_a_rate_function_without_source_code_is_not_an_error(caplog):
    assert warnings_of(caplog, keras.optimizers.SGD(eval("lambda: 0.1")), 1000) == []


def messages(caplog):
    return logged(caplog, "schedule")


@pytest.mark.slow
def test_a_task_warns_at_the_start_of_new_and_resumed_runs(caplog):
    model = tiny.classifier()
    x = {name: np.array(value) for name, value in tiny.preprocessor()(tiny.examples(8)[0]).items()}
    options = {"batch_size": 4, "epochs": 3, "verbose": 0}
    model.compile(keras.optimizers.Adam(LinearWarmupDecay(1e-3, 6)), run_eagerly=True)
    model.fit(x, np.array(tiny.examples(8)[1]), **{**options, "epochs": 2})
    model.fit(x, np.array(tiny.examples(8)[1]), initial_epoch=2, **options)
    assert messages(caplog) == []
    model.compile(keras.optimizers.Adam(LinearWarmupDecay(1e-3, 5)), run_eagerly=True)
    model.fit(x, np.array(tiny.examples(8)[1]), **options)
    (message,) = messages(caplog)
    assert "ends at step 5, but the run ends at step 6" in message and "total_steps=6" in message


@pytest.mark.slow
def test_our_callbacks_warn_in_runs_of_other_models(caplog):
    model = make_model(SlantedTriangular(0.1, 10))
    model.fit(X, Y, batch_size=2, verbose=0, epochs=2, callbacks=[GradualUnfreezing()])
    assert "at step 16" in messages(caplog)[0] and len(messages(caplog)) == 1


def test_a_run_that_restarts_the_schedule_gives_no_warning_but_later_runs_do(caplog):
    model = make_model(SlantedTriangular(0.1, 10))
    restarting = Restarting([Stage("top", epochs=1), Stage("all")])
    model.fit(X, Y, batch_size=2, verbose=0, epochs=2, callbacks=[restarting, Progress()])
    assert messages(caplog) == []
    model.fit(X, Y, batch_size=2, verbose=0, callbacks=[Progress()])
    assert "at step 16" in messages(caplog)[0] and len(messages(caplog)) == 1
