"""A model on another backend than TensorFlow is exported by a process that has TensorFlow's."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_transfer import encoders, serving, tasks, text

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "##s", "was", "good", "bad"]
TEXTS = ["the film was good", "bad films", "", "😀 good 👍🏽", "good " * 2_000]

# Trains on raw texts, exports, and prints what the model says.
JAX = """
import json, sys
import keras
from keras_transfer import encoders, serving, tasks, text

vocabulary, texts, folder = json.load(sys.stdin)
keras.utils.set_random_seed(3)
encoder = encoders.BertEncoder(len(vocabulary), 1, 2, 16, 32, dropout=0.5, max_sequence_length=8, initializer_range=0.5)
model = tasks.TextClassifier(encoder, 3, text.BertPreprocessor(vocabulary, sequence_length=8))
model.compile(keras.optimizers.SGD(0.05))
model.fit(texts, [0, 1, 2, 0, 1], epochs=2, verbose=0)
folder = serving.export(model, folder, labels=["bad", "mixed", "good"])
probabilities = keras.ops.softmax(model.predict(texts, verbose=0))
print(json.dumps([keras.backend.backend(), str(folder), keras.ops.convert_to_numpy(probabilities).tolist()]))
"""


@pytest.mark.slow
def test_a_model_trained_on_jax_is_exported(tmp_path):
    pytest.importorskip("jax", reason="needs JAX: pip install keras_transfer[jax]")
    folder = tmp_path / "served" / "1"
    result = subprocess.run(
        [sys.executable, "-c", JAX],
        input=json.dumps([VOCABULARY, TEXTS, str(folder)]),
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    backend, where, expected = json.loads(result.stdout)
    assert backend == "jax" and where == str(folder)
    outputs = tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    best = np.argmax(expected, axis=1)
    assert outputs["label"].numpy().tolist() == [[b"bad", b"mixed", b"good"][i] for i in best]
    assert np.ptp(expected, axis=0).max() > 0.1
    assert list(tmp_path.iterdir()) == [tmp_path / "served"]
    assert list(folder.parent.iterdir()) == [folder]


@keras.saving.register_keras_serializable(package="tests")
class Shouted(text.BertPreprocessor):
    """A class that only this process knows."""


def test_a_class_that_the_other_process_does_not_know_is_named(tmp_path, monkeypatch):
    encoder = encoders.TransformerEncoder(len(VOCABULARY), 1, 2, 8, 16, max_sequence_length=16)
    model = tasks.TextClassifier(encoder, 2, Shouted(VOCABULARY, sequence_length=8))
    # The other process is started from this one, as from one with JAX.
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match="registered by a module of yours") as error:
        serving.export(model, tmp_path / "served")
    assert "Shouted" in str(error.value)
    assert list(tmp_path.iterdir()) == []
