"""Tasks with two frozen blocks or more, for the tests of cached features."""

import keras
import numpy as np

from keras_transfer.adaptation import freeze
from keras_transfer.tasks import TextClassifier, TokenClassifier
from keras_transfer.text import batches, word_batches
from tests.tasks import tiny
from tests.tasks.tagging import taggers

TEXTS, LABELS = tiny.examples(8)
SENTENCES, TAGS = taggers.examples(8, longest=16)


def classifier(below="block_1", **options):
    """A classifier with two blocks, frozen below a layer group."""
    return freeze(tiny.classifier(num_layers=2, **options), below=below)


def texts(model, **options):
    return batches(TEXTS, LABELS, preprocessor=model.preprocessor, **{"batch_size": 4, "seed": 0, **options})


def pairs(model):
    return batches((TEXTS, TEXTS[::-1]), LABELS, preprocessor=model.preprocessor, batch_size=4, seed=0)


def tagger(below="block_1", kind="bert", **options):
    return freeze(taggers.tagger(kind, num_layers=2, **options), below=below)


def sentences(model):
    names = model.label_names
    return word_batches(SENTENCES, TAGS, preprocessor=model.preprocessor, batch_size=4, seed=0, label_names=names)


def of_encoder(encoder, task=TextClassifier, below="block_1"):
    """A task without dropout on an encoder of 12 tokens, and batches of prepared ids."""
    options = {"label_names": ["a", "b"]} if task is TokenClassifier else {"num_classes": 2}
    model = task(encoder, dropout=0.0, **options)
    random = np.random.default_rng(0)
    mask = (np.arange(4) < np.array([[4], [2], [3], [1]])).astype("int32")
    inputs = {"token_ids": random.integers(1, 12, (4, 4)).astype("int32") * mask, "padding_mask": mask}
    inputs["segment_ids"] = np.minimum(np.arange(4) // 2, 1).astype("int32") * mask
    if "character_ids" in model.input:
        inputs = {"character_ids": random.integers(1, 200, (4, 4, 8)).astype("int32"), "padding_mask": mask}
    labels = np.zeros((4, 4), "int32") if task is TokenClassifier else np.array([0, 1, 1, 0])
    data = model.dataset({name: inputs[name] for name in model.input}, labels, batch_size=2)
    return freeze(model, below=below), data


def values(weights):
    return [keras.ops.convert_to_numpy(weight).copy() for weight in weights]


def largest_difference(ours, theirs):
    return max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))
