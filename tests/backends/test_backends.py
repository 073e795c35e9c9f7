"""What TensorFlow computes, JAX and torch compute too, each in a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import layer_groups
from keras_transfer.encoders import BertEncoder, TransformerEncoder, encode
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import BertPreprocessor

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad"]
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 32}
ENCODERS = {
    "bert": lambda: BertEncoder(len(VOCABULARY), **SIZES, initializer_range=0.2),
    "bert_tanh": lambda: BertEncoder(len(VOCABULARY), **SIZES, activation="gelu_tanh", num_segments=0, pooler=False),
    "causal_pre": lambda: TransformerEncoder(len(VOCABULARY), **SIZES, norm="pre", causal=True),
    "input": lambda: TransformerEncoder(len(VOCABULARY), **SIZES, norm="input"),
}

pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="compares with TensorFlow")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with models, inputs and texts, and what TensorFlow makes of them."""
    folder = tmp_path_factory.mktemp("backends")
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 32)
    texts = [
        " ".join([*random.choice(list("abcdefgh"), random.integers(1, 20)), ["bad", "good"][label]]) for label in labels
    ]
    (folder / "texts.txt").write_text("\n".join(texts))
    preprocessor = BertPreprocessor(VOCABULARY, sequence_length=32)
    inputs = {name: value.numpy() for name, value in preprocessor(texts).items()}
    np.savez(folder / "inputs.npz", **inputs, labels=labels)
    outputs = {}
    for name, make in ENCODERS.items():
        encoder = make()
        encoder.save(folder / f"encoder_{name}.keras")
        states = encode(encoder, {name: inputs[name] for name in encoder.input}, hidden_states=True).hidden_states
        outputs |= {f"encoder_{name}/{i}": state.numpy() for i, state in enumerate(states)}
    model = TextClassifier(BertEncoder(len(VOCABULARY), **SIZES), 2, preprocessor=preprocessor, pooling="concat")
    model.compile(keras.optimizers.Adam(5e-3))
    model.save(folder / "task.keras")
    outputs["task"] = outputs["texts"] = model.predict(texts, verbose=0)
    return folder, outputs, [group.name for group in layer_groups(model)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_computes_the_same_trains_and_saves(saved, backend):
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    folder, expected, ladder = saved
    child = pathlib.Path(__file__).with_name("child.py")
    environment = {**os.environ, "KERAS_BACKEND": backend}
    run = subprocess.run([sys.executable, str(child), str(folder)], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["backend"] == backend and report["ladder"] == ladder
    assert report["tensorflow"] == []
    assert report["same"]
    assert report["losses"][-1] < 0.7 * report["losses"][0]
    assert report["text_losses"][-1] < 0.7 * report["text_losses"][0]
    # Dropout of a quarter: both halves, and what falls in both; 200,000 numbers, four standard deviations.
    np.testing.assert_allclose(report["dropped"], [0.25, 0.25, 0.0625], atol=0.004)
    outputs = np.load(folder / "outputs.npz")
    assert set(outputs) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, atol=1e-4, err_msg=name)
