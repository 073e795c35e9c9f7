"""Files of each kind that version 0.1 wrote answer as they did there."""

import shutil

import keras
import numpy as np
import pytest

import keras_transfer as kt
from tests.references import make_saved as made

FOLDER = made.FOLDER
ANSWERS = np.load(FOLDER / "answers.npz")


def check(name, found):
    np.testing.assert_allclose(found, ANSWERS[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("make", "ask"), made.TASKS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_task(make, ask):
    check(make.__name__, ask(keras.models.load_model(FOLDER / f"{make.__name__}.keras")))


@pytest.mark.parametrize("name", made.ENCODERS)
def test_an_encoder(name):
    check(f"encoder_{name}", made.states(keras.models.load_model(FOLDER / f"encoder_{name}.keras")))


@pytest.mark.parametrize("name", map(made.file_of, made.ADAPTERS))
def test_adapters_within_a_model_and_in_their_own_file(name):
    check(name, made.logits(keras.models.load_model(FOLDER / f"{name}.keras")))
    plain = keras.models.load_model(FOLDER / "adapters_none.keras")
    check(name, made.logits(kt.adaptation.load_adapters(plain, FOLDER / f"{name}.safetensors")))


@pytest.mark.parametrize("name", made.optimizers())
def test_an_optimizer_goes_on(name):
    model = keras.models.load_model(FOLDER / f"optimizer_{name}.keras")
    model.fit(made.TEXTS, [0, 1, 0, 1], verbose=0, shuffle=False)
    check(f"optimizer_{name}", made.logits(model))


def test_a_saved_model(tmp_path, process_without_this_package):
    shutil.unpack_archive(FOLDER / "served.zip", tmp_path)
    served = process_without_this_package("tests.serving.alone:answers", str(tmp_path), made.TEXTS, "serving_default")
    check("served", served["outputs"]["probabilities"])
