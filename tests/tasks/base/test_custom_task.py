"""A subclass of `Task` of a user's own."""

import keras
import numpy as np
import pytest

from keras_transfer.tasks import Task
from tests.helpers import EAGER
from tests.tasks.tiny import difference, encoder, preprocessor


@keras.saving.register_keras_serializable("mine")
class Mine(Task):
    """A head without arguments of its own, so the constructor has those of the base class."""

    def __init__(self, encoder, preprocessor=None, name=None):
        super().__init__(encoder, preprocessor, keras.layers.Dense(2)(encoder.output["pooled_output"]), name)


def test_a_custom_task_is_saved_and_loaded_with_its_preprocessor(tmp_path):
    model = Mine(encoder(), preprocessor())
    model.save(tmp_path / "mine.keras")
    same = keras.saving.load_model(tmp_path / "mine.keras")
    np.testing.assert_array_equal(same.predict(["a b"], verbose=0), model.predict(["a b"], verbose=0))


class Two(Task):
    """A task with two outputs."""

    def __init__(self, encoder, preprocessor):
        pooled = encoder.output["pooled_output"]
        heads = {name: keras.layers.Dense(2, name=name) for name in ("first", "second")}
        super().__init__(encoder, preprocessor, {name: head(pooled) for name, head in heads.items()})

    def check_labels(self, labels):
        assert set(labels) == {"first", "second"}


@pytest.mark.core
def test_a_task_with_several_outputs_trains():
    keras.utils.set_random_seed(0)
    model = Two(encoder(), preprocessor())
    loss = {name: keras.losses.SparseCategoricalCrossentropy(from_logits=True) for name in ("first", "second")}
    model.compile("sgd", loss=loss, metrics=None, run_eagerly=EAGER)
    inputs = {name: np.array(values) for name, values in model.preprocessor(["a b", "good"]).items()}
    labels = {"first": np.array([0, 1]), "second": np.array([1, 1])}
    before = model.get_weights()
    assert np.isfinite(model.train_on_batch(inputs, labels)).all()
    model.fit(((inputs, labels) for _ in range(1)), verbose=0)
    assert all(difference([now], [then]) > 0 for now, then in zip(model.get_weights()[-4:], before[-4:]))
