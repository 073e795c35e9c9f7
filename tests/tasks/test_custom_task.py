"""A subclass of `Task` of a user's own."""

import keras
import numpy as np

from keras_transfer.tasks import Task
from tests.tasks.tiny import encoder, preprocessor


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
