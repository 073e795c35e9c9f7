"""A `fit` or `evaluate` that fails leaves a model that trains as if nothing had happened."""

import keras
import numpy as np
import pytest

from tests.helpers import EAGER
from tests.tasks.tiny import difference, of_vectors

pytestmark = pytest.mark.core
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
def test_an_error_in_the_first_batch_of_a_dataset_keeps_the_weights(method):
    tf = pytest.importorskip("tensorflow")
    model = made(run_eagerly=True)
    before = model.get_weights()
    ids = {name: np.array(values) for name, values in model.preprocessor(TEXTS).items()}
    data = tf.data.Dataset.from_tensor_slices((ids, [5, 0])).batch(2)
    with pytest.raises(ValueError, match="Received: 5 at position 0"):
        getattr(model, method)(data, verbose=0)
    assert difference(model.get_weights(), before) == 0.0
