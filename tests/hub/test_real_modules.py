"""Universal Sentence Encoder Lite, a real module: embeddings, training, layer groups, `.keras` and export."""

import csv

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.adaptation import layer_groups
from keras_transfer.hub import HubEncoder, HubLayer
from keras_transfer.serving import export
from keras_transfer.tasks import TextClassifier

TEXTS = ["How old are you?", "An elephant is a large animal.", "Is it raining?", "It rains."] * 2
LABELS = np.array([1, 0, 1, 0] * 2)


@pytest.fixture(scope="module")
def module(data_dir):
    pytest.importorskip("tensorflow_text", reason="the module has ops of TF Text")
    return data_dir("tfhub/use_lite_tf2_converted")


@pytest.fixture(scope="module")
def frozen(module):
    return HubLayer(module)


@pytest.fixture(scope="module")
def reference(data_dir):
    return np.load(data_dir("tfhub/use_lite_reference.npz"))


def fit(model, epochs):
    """Returns the losses of some steps, without a graph since they are few."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, run_eagerly=True)
    return model.fit(tf.constant(TEXTS), LABELS, epochs=epochs, verbose=0).history["loss"]


@pytest.fixture(scope="module")
def trained(module):
    """A classifier after a few steps, the weights of its layer before, and its losses."""
    keras.utils.set_random_seed(0)
    layer = HubLayer(module, trainable=True)
    before = {weight.path: weight.numpy() for weight in layer.weights}
    model = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.Dense(2)])
    return model, before, fit(model, epochs=4)


def test_embeddings_match_the_reference(frozen, reference):
    np.testing.assert_allclose(frozen(reference["sentences"].tolist()), reference["embeddings"], atol=1e-5)


@pytest.fixture(scope="module")
def pairs(data_dir):
    """The sentence pairs of the STS-B dev set with their human similarity scores."""
    with open(data_dir("glue/STS-B") / "dev.tsv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def cosines(layer, pairs):
    first, second = (
        np.concatenate(
            [layer([pair[name] for pair in pairs[start : start + 128]]) for start in range(0, len(pairs), 128)]
        )
        for name in ("sentence1", "sentence2")
    )
    return (first * second).sum(axis=1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))


def test_128_cosines_on_sts_b_match_the_reference(frozen, reference, pairs):
    np.testing.assert_allclose(cosines(frozen, pairs[:128]), reference["stsb_dev_cos"][:128], atol=1e-5)


@pytest.mark.slow
def test_all_cosines_on_sts_b_match_the_reference_and_correlate_with_human_scores(frozen, reference, pairs):
    ours = cosines(frozen, pairs)
    np.testing.assert_allclose(ours, reference["stsb_dev_cos"], atol=1e-5)
    assert np.corrcoef(ours, [float(pair["score"]) for pair in pairs])[0, 1] == pytest.approx(0.783, abs=0.002)


def test_training_changes_each_variable(trained):
    model, before, losses = trained
    layer = model.layers[0]
    assert len(layer.trainable_weights) == len(layer.weights) == 29
    assert losses[-1] < losses[0]
    assert {weight.path for weight in layer.weights if (weight.numpy() == before[weight.path]).all()} == set()


def test_the_layer_groups_include_its_two_layers(frozen):
    groups = layer_groups(frozen)
    assert [(group.name, len(group.variables)) for group in groups] == [
        *(("embeddings", 1), ("layer_0", 14), ("layer_1", 12)),
        ("other", 2),  # the dense layer after them
    ]
    assert "hidden_layers" in groups[-1].variables[0].path


def test_a_task_with_the_module_is_served(module, frozen, tmp_path):
    model = TextClassifier(HubEncoder(module), num_classes=2)
    export(model, tmp_path / "served", label_names=["statement", "question"])
    served = tf.saved_model.load(str(tmp_path / "served")).signatures
    texts = tf.constant(TEXTS)
    probabilities = served["serving_default"](text=texts)["probabilities"]
    np.testing.assert_allclose(probabilities, tf.nn.softmax(model.predict(TEXTS, verbose=0)), atol=1e-6)
    np.testing.assert_allclose(served["embed"](text=texts)["embedding"], frozen(texts), atol=1e-5)
