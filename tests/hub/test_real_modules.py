"""Universal Sentence Encoder Lite, a real module: embeddings, similarity, training, the ladder, `.keras` and export."""

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


@pytest.fixture
def module(data_dir):
    pytest.importorskip("tensorflow_text", reason="the module has ops of TF Text")
    return data_dir("tfhub/use_lite_tf2_converted")


@pytest.fixture
def reference(data_dir):
    return np.load(data_dir("tfhub/use_lite_reference.npz"))


def classifier(layer):
    model = keras.Sequential([keras.Input((), dtype="string"), layer, keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_embeddings_are_those_of_the_reference(module, reference):
    embeddings = HubLayer(module)(reference["sentences"].tolist())
    np.testing.assert_allclose(embeddings, reference["embeddings"], atol=1e-5)


@pytest.mark.slow
def test_cosines_agree_with_people_on_sts_b(module, reference, data_dir):
    with open(data_dir("glue/STS-B") / "dev.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    model = keras.Sequential([keras.Input((), dtype="string"), HubLayer(module), keras.layers.UnitNormalization()])
    first, second = (
        model.predict(tf.constant([row[name] for row in rows]), batch_size=128, verbose=0)
        for name in ("sentence1", "sentence2")
    )
    cosines = (first * second).sum(axis=1)
    np.testing.assert_allclose(cosines, reference["stsb_dev_cos"], atol=1e-5)
    assert np.corrcoef(cosines, [float(row["score"]) for row in rows])[0, 1] == pytest.approx(0.783, abs=0.002)


def test_training_changes_each_variable(module):
    layer = HubLayer(module, trainable=True)
    assert len(layer.trainable_weights) == len(layer.weights) == 29
    before = {weight.path: weight.numpy() for weight in layer.weights}
    losses = classifier(layer).fit(tf.constant(TEXTS), LABELS, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert {weight.path for weight in layer.weights if (weight.numpy() == before[weight.path]).all()} == set()


def test_the_ladder_has_its_two_layers(module):
    ladder = layer_groups(HubLayer(module))
    assert [(group.name, len(group.variables)) for group in ladder] == [
        *(("embeddings", 1), ("layer_0", 14), ("layer_1", 12)),
        ("other", 2),  # the dense layer after them
    ]
    assert "hidden_layers" in ladder[-1].variables[0].path


def test_a_frozen_lower_half_stays_while_the_upper_learns(module):
    layer = HubLayer(module, trainable=True)
    ladder = layer_groups(layer, groups=[("lower", "Embeddings|Layer_0"), ("upper", "")])
    for variable in ladder[0].variables:
        variable.trainable = False
    before = [[variable.numpy() for variable in group.variables] for group in ladder]
    classifier(layer).fit(tf.constant(TEXTS), LABELS, verbose=0)
    for group, old, moves in zip(ladder, before, (False, True)):
        assert all((new.numpy() != value).any() == moves for new, value in zip(group.variables, old, strict=True))


@pytest.mark.slow
def test_a_fine_tuned_classifier_survives_keras_and_keras_s_export(module, tmp_path):
    model = classifier(HubLayer(module, trainable=True))
    model.fit(tf.constant(TEXTS), LABELS, verbose=0)
    expected = model.predict(tf.constant(TEXTS), verbose=0)
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.saving.load_model(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_array_equal(loaded.predict(tf.constant(TEXTS), verbose=0), expected)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(served.serve(tf.constant(TEXTS)), expected, atol=1e-5)


def test_a_task_over_it_is_served(module, tmp_path):
    model = TextClassifier(HubEncoder(module), 2)
    export(model, tmp_path / "served", labels=["statement", "question"])
    served = tf.saved_model.load(str(tmp_path / "served")).signatures
    texts = tf.constant(TEXTS)
    probabilities = served["serving_default"](text=texts)["probabilities"]
    np.testing.assert_allclose(probabilities, tf.nn.softmax(model.predict(TEXTS, verbose=0)), atol=1e-6)
    np.testing.assert_allclose(served["embed"](text=texts)["embedding"], HubLayer(module)(texts), atol=1e-5)
