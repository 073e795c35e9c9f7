"""Tasks over KerasHub presets: `from_pretrained`, raw texts in `fit`, `.keras`, export."""

import keras
import numpy as np
import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.tasks import TextClassifier, TokenClassifier
from tests.checkpoints import presets
from tests.helpers import in_graph

tf = pytest.importorskip("tensorflow")

TEXTS, LABELS = presets.TEXTS, [1, 0, 1]
SENTENCES = [["the", "film", "was", "good"], ["bad", "films"]]
TAGS = [["DET", "NOUN", "VERB", "ADJ"], ["ADJ", "NOUN"]]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """`(folder, backbone, preprocessor)` of a preset."""
    made = presets.bert(dropout=0.0)
    return presets.save(tmp_path_factory.mktemp("bert") / "preset", *made), *made


@pytest.fixture(scope="module")
def classifier(bert):
    """A classifier over the preset, trained on raw texts."""
    keras.utils.set_random_seed(0)
    model = TextClassifier.from_pretrained(bert[0], num_classes=2, dropout=0.0)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)  # faster than tracing for a few steps
    model.fit(TEXTS, LABELS, epochs=2, verbose=0)
    return model


def test_from_pretrained_equals_a_classifier_with_backbone_and_preprocessor(bert):
    folder, backbone, preprocessor = bert
    model = TextClassifier.from_pretrained(folder, num_classes=2)
    expected = TextClassifier(backbone, preprocessor, num_classes=2)
    expected.get_layer("logits").set_weights(model.get_layer("logits").get_weights())
    np.testing.assert_array_equal(model.predict(TEXTS, verbose=0), expected.predict(TEXTS, verbose=0))


def test_the_length_and_arguments_of_the_backbone_can_be_set(bert):
    model = TextClassifier.from_pretrained(bert[0], num_classes=2, sequence_length=6, encoder={"dropout": 0.3})
    assert model.preprocessor.sequence_length == 6 and model.encoder.dropout == 0.3


def test_fit_moves_every_weight_of_the_classifier(classifier, bert):
    _, backbone, _ = bert
    rows = {weight.path: weight.numpy() for weight in backbone.weights}
    moved = {weight.path for weight in classifier.weights if (weight.numpy() != rows.get(weight.path, 0)).any()}
    # Softmax ignores a shift of all keys, so the gradient of their bias is only rounding error.
    assert {weight.path for weight in classifier.weights} - moved <= {path for path in rows if "key/bias" in path}


def test_its_signature_takes_strings(classifier):
    found = in_graph(classifier.signatures()["serving_default"], TEXTS)["probabilities"]
    np.testing.assert_allclose(found, keras.ops.softmax(classifier.predict(TEXTS, verbose=0)), atol=1e-6)


@pytest.mark.slow
def test_another_family_learns_too(tmp_path):
    folder = presets.save(tmp_path / "roberta", *presets.roberta())
    keras.utils.set_random_seed(0)
    model = TextClassifier.from_pretrained(folder, num_classes=2)
    model.compile(keras.optimizers.Adam(0.03), run_eagerly=True)
    losses = model.fit(["film", " film film"], [0, 1], epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]


def test_a_preset_of_bert_learns_to_label_words(bert):
    keras.utils.set_random_seed(0)
    model = TokenClassifier.from_pretrained(bert[0], label_names=["DET", "NOUN", "VERB", "ADJ"], dropout=0.0)
    model.compile(keras.optimizers.Adam(0.1), run_eagerly=True)
    model.fit(SENTENCES, TAGS, epochs=6, verbose=0)
    expected = [list(zip(words, tags)) for words, tags in zip(SENTENCES, TAGS)]
    assert model.predict_words(SENTENCES) == expected


def test_labeling_words_with_another_preset_requires_a_preprocessor(tmp_path):
    folder = presets.save(tmp_path / "roberta", *presets.roberta())
    with pytest.raises(CheckpointError, match=r"pass `from_pretrained\(source, preprocessor=...\)`"):
        TokenClassifier.from_pretrained(folder, label_names=["X", "Y"])
