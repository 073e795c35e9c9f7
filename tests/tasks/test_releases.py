"""Tasks saved by an earlier release load in this one and predict the same."""

import pathlib

import keras
import numpy as np
import pytest

from keras_transfer.tasks import Task
from tests.tasks.tiny import encoder, preprocessor

REFERENCES = pathlib.Path(__file__).parents[1] / "references"
TEXTS = ["The film is good", "the films", "", "bad, bad film"]


@pytest.mark.parametrize("path", sorted(REFERENCES.glob("release_*.keras")), ids=lambda path: path.stem)
def test_a_task_saved_by_an_earlier_release_loads_and_predicts_the_same(path):
    model = keras.saving.load_model(path)
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), np.load(path.with_suffix(".npz"))["logits"], atol=1e-5)
    assert [w.path for w in model.weights if not w.trainable] == [
        f"block_0/attention/{layer}/{weight}"
        for layer in ("query_key_value", "output")
        for weight in ("kernel", "bias")
    ]
    assert type(model.optimizer) is keras.optimizers.AdamW


@keras.saving.register_keras_serializable("mine")
class Mine(Task):
    """A custom task with the arguments that the base class had in the first release."""

    def __init__(self, encoder, preprocessor=None, name=None):
        super().__init__(encoder, preprocessor, keras.layers.Dense(2)(encoder.output["pooled_output"]), name)


def test_a_custom_task_with_the_arguments_of_the_first_release_loads(tmp_path):
    model = Mine(encoder(), preprocessor())
    model.save(tmp_path / "mine.keras")
    same = keras.saving.load_model(tmp_path / "mine.keras")
    np.testing.assert_array_equal(same.predict(["a b"], verbose=0), model.predict(["a b"], verbose=0))
