"""What an earlier release saved loads in this one, and answers the same."""

import pathlib

import keras
import numpy as np
import pytest

import keras_transfer  # noqa: F401 (registers the classes that a file names)

REFERENCES = pathlib.Path(__file__).parents[1] / "references"
TEXTS = ["The film is good", "the films", "", "bad, bad film"]


@pytest.mark.parametrize("path", sorted(REFERENCES.glob("release_*.keras")), ids=lambda path: path.stem)
def test_a_task_that_a_release_saved_loads_and_answers_the_same(path):
    model = keras.saving.load_model(path)
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), np.load(path.with_suffix(".npz"))["logits"], atol=1e-5)
    assert [w.path for w in model.weights if not w.trainable] == [
        f"block_0/attention/{layer}/{weight}"
        for layer in ("query_key_value", "output")
        for weight in ("kernel", "bias")
    ]
    assert type(model.optimizer) is keras.optimizers.AdamW


def test_there_is_a_file_of_the_first_release():
    assert (REFERENCES / "release_0.1.keras").exists()
