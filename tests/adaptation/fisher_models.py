"""Shared by the tests of Fisher information: small models, the same on every backend, and data."""

import keras
import numpy as np

from tests.tasks import tiny

TEXTS, LABELS = tiny.examples(8)


def features(count=20):
    random = np.random.default_rng(0)
    return random.normal(size=(count, 4)).astype("float32"), random.integers(0, 3, count)


def small():
    """A task with dropout, the same each time."""
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(num_layers=1, dropout=0.3)
    return tiny.TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(sequence_length=16), dropout=0.3)


def set_weights(model):
    """The same weights on every backend."""
    random = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(random.normal(scale=0.5, size=weight.shape).astype("float32"))
    return model


def linear(**options):
    inputs = keras.Input((4,))
    return set_weights(keras.Model(inputs, keras.layers.Dense(3, name="dense", **options)(inputs)))


def words():
    """A model with an embedding, which sums the gradients of repeated tokens."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(6, 5, name="embedding")(ids)
    x = keras.layers.Dropout(0.5)(keras.layers.Dense(5, activation="tanh", name="hidden")(x))
    return set_weights(keras.Model(ids, keras.layers.Dense(3, name="logits")(keras.layers.GlobalMaxPooling1D()(x))))


class data_of(keras.utils.PyDataset):
    """Batches from a list."""

    def __init__(self, items):
        super().__init__()
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]
