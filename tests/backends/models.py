"""Run on TensorFlow by test_backends.py: saves models, with the outputs of TensorFlow for some texts."""

import pathlib

import keras
import numpy as np

from keras_transfer.adaptation import layer_groups
from keras_transfer.encoders import BertEncoder, TransformerEncoder, encode
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import BertPreprocessor

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
        BertEncoder(len(VOCABULARY), **{**SIZES, "num_layers": 1}), 2, preprocessor=preprocessor, pooling="concat"
    )
    model.compile(keras.optimizers.Adam(5e-3))
    model.save(folder / "task.keras")
    outputs["task"] = model.predict(texts, verbose=0)
    np.savez(folder / "outputs.npz", **outputs)
    return [group.name for group in layer_groups(model)]
