"""Models saved on TensorFlow load on another backend: they compute the same, train and save without TensorFlow."""

import pathlib

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import layer_groups
from keras_transfer.encoders import BertEncoder, TransformerEncoder, encode
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import BertPreprocessor
from tests.processes import run

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "good", "bad"]
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 16}
ENCODERS = {
    "bert": lambda: BertEncoder(len(VOCABULARY), **SIZES, initializer_range=0.2),
    "bert_tanh": lambda: BertEncoder(len(VOCABULARY), **SIZES, activation="gelu_tanh", num_segments=0, pooler=False),
    "causal_pre": lambda: TransformerEncoder(len(VOCABULARY), **SIZES, norm="pre", causal=True),
    "input": lambda: TransformerEncoder(len(VOCABULARY), **SIZES, norm="input"),
}


def save(folder):
    """Saves models, texts, their ids and labels, and TensorFlow's outputs; returns the names of the layer groups."""
    folder = pathlib.Path(folder)
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 32)
    texts = [  # which are all padded to 16 tokens, because each new shape is compiled
        " ".join([*random.choice(list("abcdefgh"), random.integers(7, 14)), ["bad", "good"][label]]) for label in labels
    ]
    (folder / "texts.txt").write_text("\n".join(texts))
    preprocessor = BertPreprocessor(VOCABULARY, sequence_length=16)
    inputs = {name: value.numpy() for name, value in preprocessor(texts).items()}
    np.savez(folder / "inputs.npz", **inputs, labels=labels)
    outputs = {}
    for name, make in ENCODERS.items():
        encoder = make()
        encoder.save(folder / f"{name}.keras")
        states = encode(encoder, {key: inputs[key] for key in encoder.input}, hidden_states=True).hidden_states
        outputs |= {f"{name}/{i}": keras.ops.convert_to_numpy(state) for i, state in enumerate(states)}
    model = TextClassifier(
        BertEncoder(len(VOCABULARY), **{**SIZES, "num_layers": 1}),
        num_classes=2,
        preprocessor=preprocessor,
        pooling="concat",
    )
    model.compile(keras.optimizers.Adam(5e-3))
    model.save(folder / "task.keras")
    outputs["task"] = model.predict(texts, verbose=0)
    np.savez(folder / "outputs.npz", **outputs)
    return [group.name for group in layer_groups(model)]


BACKEND = keras.backend.backend()
pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(BACKEND == "tensorflow", reason="loads on another backend what TensorFlow saved"),
]
# Without text these must not be imported. (Keras's own `save` looks for TensorFlow.)
HEAVY = {"tensorflow", "tensorflow_hub", "tensorflow_text", "keras_hub", "torch", "transformers"} - {BACKEND}
WITHOUT_TEXT = f"""
import json, sys, keras_transfer
imported = [sorted({HEAVY} & set(sys.modules))]
import keras, numpy
assert keras.backend.backend() == "{BACKEND}"
model = keras.saving.load_model(sys.argv[1] + "/task.keras")
inputs = dict(numpy.load(sys.argv[1] + "/inputs.npz"))
labels = inputs.pop("labels")
model.jit_compile = {BACKEND == "jax"}
model.fit(inputs, labels, verbose=0)
print(json.dumps([*imported, sorted({HEAVY} & set(sys.modules))]))
"""


@pytest.fixture(scope="module")
def saved(tensorflow_process, tmp_path_factory):
    """The folder that TensorFlow has written, and the names of the task's layer groups there."""
    folder = tmp_path_factory.mktemp("backends")
    return folder, tensorflow_process("tests.backends.test_backends:save", str(folder))


def compiled(model):
    """Compiles the steps on JAX again: on TensorFlow without a GPU, Keras saves `jit_compile="auto"` as False."""
    model.jit_compile = BACKEND == "jax"
    return model


def inputs_of(folder):
    inputs = dict(np.load(folder / "inputs.npz"))
    return inputs, inputs.pop("labels")


@pytest.mark.parametrize("name", ENCODERS)
def test_every_hidden_state_of_an_encoder_equals_that_of_tensorflow(saved, name):
    folder, _ = saved
    inputs, expected = inputs_of(folder)[0], np.load(folder / "outputs.npz")
    encoder = keras.saving.load_model(folder / f"{name}.keras")
    model = keras.Model(encoder.input, encode(encoder, hidden_states=True).hidden_states)
    states = model.predict_on_batch({key: inputs[key] for key in encoder.input})
    assert len(states) == len([key for key in expected if key.startswith(f"{name}/")]) == 3
    for i, state in enumerate(states):
        np.testing.assert_allclose(state, expected[f"{name}/{i}"], atol=1e-4)


def test_a_task_gives_the_same_outputs_trains_and_is_saved(saved, tmp_path):
    folder, groups = saved
    (inputs, labels), expected = inputs_of(folder), np.load(folder / "outputs.npz")["task"]
    texts = pathlib.Path(folder / "texts.txt").read_text().splitlines()
    model = compiled(keras.saving.load_model(folder / "task.keras"))
    assert [group.name for group in layer_groups(model)] == groups
    for x in (inputs, texts):
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-4)
    assert model.predict([], verbose=0).shape == (0, 2)
    losses = model.fit(texts, labels, batch_size=8, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    model.save(tmp_path / "again.keras")
    again = compiled(keras.saving.load_model(tmp_path / "again.keras"))
    np.testing.assert_array_equal(again.predict(inputs, verbose=0), model.predict(inputs, verbose=0))


def test_import_and_training_without_text_do_not_import_tensorflow(saved):
    assert run("-c", WITHOUT_TEXT, saved[0], KERAS_BACKEND=BACKEND) == [[], []]
