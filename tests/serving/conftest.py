"""A small classifier whose answers differ from text to text, and its export, made once for all tests."""

import numpy as np
import pytest

from keras_transfer import encoders, serving, tasks, text

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY += ["[", "]", "mask", "the", "film", "##s", "was", "good", "bad"]
LABELS = ["bad", "mixed", "good"]


@pytest.fixture(scope="session")
def make_classifier():
    """A function that makes a classifier of three classes, from arguments of the encoder and the task's `pooling`."""

    def make(vocabulary=VOCABULARY, pooling=None, **arguments):
        sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 32}
        # A high dropout rate, which must have no effect.
        encoder = encoders.BertEncoder(len(VOCABULARY), **{**sizes, "dropout": 0.5, **arguments})
        preprocessor = text.BertPreprocessor(vocabulary, sequence_length=24)
        model = tasks.TextClassifier(encoder, preprocessor, num_classes=len(LABELS), pooling=pooling)
        # With large weights all three labels occur for any seed.
        random = np.random.default_rng(2)
        for weight in model.weights:
            if len(weight.shape) > 1:
                weight.assign(random.normal(scale=0.5, size=weight.shape))
        return model

    return make


@pytest.fixture(scope="session")
def classifier(make_classifier):
    """A `TextClassifier` with random weights."""
    return make_classifier()


@pytest.fixture(scope="session")
def exported(classifier, tmp_path_factory):
    """The folder of its SavedModel, with the labels bad, mixed and good."""
    return serving.export(classifier, tmp_path_factory.mktemp("serving") / "served" / "1", label_names=LABELS)
