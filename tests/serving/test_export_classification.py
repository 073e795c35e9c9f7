"""Exports with several labels, windows, pairs that are read one by one, and numbers, without this package."""

import keras
import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.tasks import TextClassifier, TextRegressor
from tests.tasks.tiny import encoder, preprocessor

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

TEXTS = ["good a", "a b c d e f g h i j a b c bad", "", "é 😀"]


def task(cls, size, **options):
    keras.utils.set_random_seed(0)
    return cls(encoder(), size, preprocessor=preprocessor(sequence_length=8), **options)


def test_several_labels_of_long_texts(tmp_path, process_without_this_package):
    model = task(TextClassifier, 3, multi_label=True, thresholds=[0.0, 1.0, 0.5], windows="max")
    folder = serving.export(model, tmp_path / "1", label_names=["x", "y", "z"])
    found = process_without_this_package("tests.serving.alone:answers", folder, TEXTS, "serving_default")
    assert found["signatures"] == ["serving_default", "tokens"]
    expected = model.predict_proba(TEXTS)
    np.testing.assert_allclose(found["outputs"]["probabilities"], expected, atol=1e-5)
    np.testing.assert_array_equal(np.array(found["outputs"]["chosen"])[:, :2], [[1, 0]] * len(TEXTS))
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    assert serve(text=tf.constant([], tf.string))["chosen"].shape == (0, 3)


def test_numbers_of_siamese_pairs(tmp_path, process_without_this_package):
    model = task(TextRegressor, 2, siamese=True)
    folder = serving.export(model, tmp_path / "1", pairs=True)
    request = {"text": TEXTS, "text_pair": TEXTS[::-1]}
    found = process_without_this_package("tests.serving.alone:answers", folder, request, "serving_default")
    assert found["signatures"] == ["embed", "serving_default"]
    expected = model.predict((TEXTS, TEXTS[::-1]), verbose=0)
    np.testing.assert_allclose(found["outputs"]["values"], expected, atol=1e-5)
