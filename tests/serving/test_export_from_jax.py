"""A model on another backend is exported by a process on TensorFlow."""

import json

import keras
import numpy as np
import pytest

from keras_transfer import encoders, serving, tasks, text

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="there this process exports"),
]

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "film", "##s", "was", "good", "bad"]
TEXTS = ["the film was good", "bad films", "", "😀 good 👍🏽", "good " * 2_000]
LABELS = ["bad", "mixed", "good"]


def test_a_trained_model_is_exported(tmp_path):
    folder = tmp_path / "served" / "1"
    sizes = {"dropout": 0.5, "max_sequence_length": 8, "initializer_range": 0.5}
    encoder = encoders.BertEncoder(
        len(VOCABULARY), num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32, **sizes
    )
    model = tasks.TextClassifier(encoder, text.BertPreprocessor(VOCABULARY, sequence_length=8), num_classes=3)
    model.compile(keras.optimizers.SGD(0.05))
    model.get_layer("logits").kernel.assign(np.random.default_rng(0).normal(size=(16, 3)))  # so that answers differ
    model.fit(TEXTS, [0, 1, 2, 0, 1], epochs=2, verbose=0)
    assert serving.export(model, folder, label_names=LABELS) == folder
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(model.predict(TEXTS, verbose=0)))
    outputs = tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    assert outputs["label"].numpy().tolist() == [LABELS[i].encode() for i in np.argmax(expected, axis=1)]
    assert json.loads((folder / "assets.extra" / "labels.json").read_text("utf-8")) == LABELS
    assert np.ptp(expected, axis=0).max() > 1e-3  # The texts differ by a hundred times the tolerance.
    assert list(tmp_path.iterdir()) == [tmp_path / "served"]
    assert list(folder.parent.iterdir()) == [folder]

    pytest.importorskip("ai_edge_litert")
    with pytest.raises(ValueError, match=r"differs from the model .* Received: largest difference \S+, limit 1e-09"):
        options = {"quantization": "float16", "texts": TEXTS, "max_difference": 1e-9}
        serving.export(model, tmp_path / "small", format="litert", **options)
    assert not (tmp_path / "small").exists()


@keras.saving.register_keras_serializable(package="tests")
class Shouted(text.BertPreprocessor):
    """A class that is registered only in this process."""


def test_a_class_unknown_to_the_other_process_is_an_error_that_names_it(tmp_path):
    encoder = encoders.TransformerEncoder(
        len(VOCABULARY), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=16
    )
    model = tasks.TextClassifier(encoder, Shouted(VOCABULARY, sequence_length=8), num_classes=2)
    with pytest.raises(RuntimeError, match="only if a module registers them") as error:
        serving.export(model, tmp_path / "served")
    assert "Shouted" in str(error.value)
    assert list(tmp_path.iterdir()) == []
