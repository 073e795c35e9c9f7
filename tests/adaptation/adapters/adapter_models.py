"""Tiny models of every kind of task and encoder, for the tests of adapters."""

import keras
import numpy as np
from keras import ops

from keras_transfer.encoders import T5, BertEncoder, GPT2Encoder, RobertaEncoder
from keras_transfer.tasks import CausalLM, MaskedLM, Seq2SeqLM, TextClassifier, TokenClassifier

SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 12}
DIM, INNER = 8, 16
IDS = np.array([[2, 7, 9, 14, 3], [2, 11, 3, 0, 0]], "int32")
INPUTS = {"token_ids": IDS, "segment_ids": 0 * IDS, "padding_mask": (IDS > 0).astype("int32")}
INPUTS |= {"decoder_token_ids": IDS[:, :4] // 2, "decoder_padding_mask": INPUTS["padding_mask"][:, :4]}
LABELS = np.array([0, 1])


def encoder(cls=BertEncoder, **options):
    """An encoder whose weights are all random, so that each of them counts."""
    keras.utils.set_random_seed(0)
    options = {**SIZES, "dropout": 0.0, **options}
    if cls is T5:
        options = {**options, "head_dim": 4}
        del options["max_sequence_length"]
    made = cls(20, **options)
    random = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(ops.convert_to_numpy(weight) + random.normal(scale=0.2, size=weight.shape))
    return made


def classifier(cls=BertEncoder, **options):
    return TextClassifier(encoder(cls, **options), num_classes=2, dropout=0.0)


def mixed(encoder):
    return TextClassifier(encoder, num_classes=2, scalar_mix=True)


def tagger():
    return TokenClassifier(encoder(RobertaEncoder), label_names=["A", "B"], dropout=0.0)


def language_model():
    return CausalLM(encoder(GPT2Encoder))


def writer(cls=T5, **options):
    """A model that reads one text and writes another, with one block in each half."""
    return Seq2SeqLM(encoder(cls, num_layers=1, **options))


def masked():
    return MaskedLM(encoder())


def outputs(model, inputs=INPUTS):
    """What a model computes for a batch, as an array."""
    found = model({name: inputs[name] for name in model.input if name in inputs}, training=False)
    if isinstance(found, dict):
        found = found.get("decoder_sequence_output", found["sequence_output"])
    return np.array(ops.convert_to_numpy(found))


def count(weights):
    return sum(int(np.prod(weight.shape)) for weight in weights)


def values(model):
    return {weight.path: np.array(ops.convert_to_numpy(weight)) for weight in model.weights}


def randomize(model, name="default"):
    """Gives adapters random weights, so that they change what the model computes."""
    from keras_transfer.adaptation.adapters.adapters import adapted_encoder, adapter_weights

    random = np.random.default_rng(1)
    for weight in adapter_weights(adapted_encoder(model), name).values():
        weight.assign(ops.convert_to_numpy(weight) + random.normal(scale=0.3, size=weight.shape))
    return model


def train(model, steps=1):
    """Takes a few steps towards random labels."""
    inputs = {name: INPUTS[name] for name in model.input if name in INPUTS}
    shape = model.output.shape[1:-1]
    labels = LABELS if not shape else np.where(IDS > 0, IDS % 2, -1)
    labels = IDS[:, :4] % 5 if isinstance(model, Seq2SeqLM) else labels
    model.compile(keras.optimizers.Adam(0.05), metrics=[], run_eagerly=keras.backend.backend() == "tensorflow")
    for _ in range(steps):
        model.train_on_batch(inputs, labels)
    return model
