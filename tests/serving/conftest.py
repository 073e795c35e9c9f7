"""A small classifier whose answers differ from text to text, and its export, made once for all tests."""

import keras
import pytest

from keras_transfer import encoders, serving, tasks, text

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY += ["[", "]", "mask", "the", "film", "##s", "was", "good", "bad"]
LABELS = ["bad", "mixed", "good"]


@pytest.fixture(scope="session")
def make_classifier():
    """A function that makes a classifier of three classes, from arguments of the encoder and the task's `pooling`."""

    def make(vocabulary=VOCABULARY, pooling=None, **arguments):
        keras.utils.set_random_seed(3)
        sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 32}
        # Large start weights, so that all three labels occur, and much dropout, which must not show.
        other = {"dropout": 0.5, "initializer_range": 0.5}
        encoder = encoders.BertEncoder(len(VOCABULARY), **{**sizes, **other, **arguments})
        preprocessor = text.BertPreprocessor(vocabulary, sequence_length=24)
        return tasks.TextClassifier(encoder, len(LABELS), preprocessor, pooling)

    return make


@pytest.fixture(scope="session")
def classifier(make_classifier):
    """A `TextClassifier` with random weights."""
    return make_classifier()


@pytest.fixture(scope="session")
def exported(classifier, tmp_path_factory):
    """The folder of its SavedModel, with the labels bad, mixed and good."""
    return serving.export(classifier, tmp_path_factory.mktemp("serving") / "served" / "1", labels=LABELS)
