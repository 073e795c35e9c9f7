"""A KerasHub backbone with KerasHub's preprocessor: raw texts, `.keras`, presets, export."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_transfer import serving, tasks
from tests.helpers import save_and_load

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
keras_hub = pytest.importorskip("keras_hub")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "film", "##s", "was", "good", "bad", "fine"]
TEXTS = ["the film was good", "bad films", "good films", "the film was bad", "", "😀 good", "good " * 2_000]
LABELS = [1, 0, 1, 0, 1, 1, 1]


def backbone(**arguments):
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 16}
    return keras_hub.models.BertBackbone(vocabulary_size=len(VOCABULARY), dropout=0.0, **{**sizes, **arguments})


def preprocessor(sequence_length=8):
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=VOCABULARY, lowercase=True)
    return keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=sequence_length)


def predict(model, texts=TEXTS):
    return model.predict(texts, verbose=0)


@pytest.fixture(scope="module")
def trained():
    """A classifier trained on raw texts, and the training's history."""
    keras.utils.set_random_seed(0)
    model = tasks.TextClassifier(backbone(), preprocessor(), num_classes=2, dropout=0.0)
    model.compile(keras.optimizers.Adam(0.02, beta_1=0.8))
    history = model.fit(TEXTS, LABELS, batch_size=4, epochs=60, verbose=0)
    return model, history.history


# Raw texts


@pytest.mark.report(
    "KerasHub's backbones have no tagger and no question answering.", "keras-hub#624", "keras-hub#878", "keras-hub#754"
)
def test_it_learns_from_raw_texts(trained):
    model, history = trained
    assert history["loss"][-1] < 0.1 < history["loss"][0]
    assert predict(model).argmax(axis=1).tolist() == LABELS


def test_raw_texts_give_the_same_logits_as_preprocessed_ones(trained, eagerly):
    model, _ = trained
    ids = preprocessor()(TEXTS)
    np.testing.assert_allclose(predict(model), model(ids, training=False), atol=1e-5)


def test_pairs_of_raw_texts_give_the_same_logits_as_preprocessed_ones(trained, eagerly, monkeypatch):
    model, _ = trained
    monkeypatch.setattr(model, "fitted_on", None)  # It was trained on single texts.
    pairs = (TEXTS, TEXTS[::-1])
    ids = preprocessor()(pairs, y=None)  # KerasHub alone takes a tuple for texts and labels
    expected = model(ids, training=False)
    np.testing.assert_allclose(predict(model, pairs), expected, atol=1e-5)
    dataset = tf.data.Dataset.from_tensor_slices((pairs, LABELS)).batch(3)
    np.testing.assert_allclose(predict(model, dataset), expected, atol=1e-5)


# Loading


@pytest.mark.report(
    "A fine-tuned classifier does not load, or lacks its tokenizer.",
    "keras-hub#1042",
    "keras-hub#784",
    "keras-hub#1547",
)
def test_a_keras_file_brings_back_predictions_vocabulary_optimizer_loss_and_metrics(trained, eagerly):
    model, _ = trained
    loaded = save_and_load(model)
    np.testing.assert_array_equal(predict(loaded), predict(model))
    assert loaded.preprocessor.tokenizer.get_vocabulary() == VOCABULARY
    assert loaded.preprocessor.sequence_length == 8
    assert type(loaded.optimizer) is keras.optimizers.Adam
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert loaded.optimizer.beta_1 == 0.8 and int(loaded.optimizer.iterations) == 120
    for ours, theirs in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert loaded.loss.get_config() == model.loss.get_config()
    evaluated = [m.evaluate(TEXTS, LABELS, verbose=0, return_dict=True) for m in (model, loaded)]
    assert evaluated[0] == evaluated[1] and set(evaluated[0]) == {"loss", "accuracy"}
    loaded.fit(TEXTS[:4], LABELS[:4], batch_size=4, verbose=0)
    assert int(loaded.optimizer.iterations) == 121 and np.abs(predict(loaded) - predict(model)).max() > 1e-4


def test_a_file_lacks_the_own_lora_of_a_backbone_and_saving_says_so(eagerly, caplog):
    model = tasks.TextClassifier(backbone(), preprocessor(), num_classes=2)
    model.encoder.enable_lora(2)
    own = [weight for weight in model.trainable_weights if "lora" in weight.path]
    for weight in own:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    loaded = save_and_load(model)
    assert "has no LoRA, and its LoRA weights no longer train" in caplog.text
    assert own and len(loaded.trainable_weights) == len(model.trainable_weights) - len(own)
    np.testing.assert_allclose(predict(loaded), predict(model), atol=1e-5)


@pytest.mark.slow
def test_a_process_that_has_not_imported_keras_hub_loads_it(trained, tmp_path):
    model, _ = trained
    model.save(tmp_path / "model.keras")
    script = """
import sys, json, keras, keras_transfer
assert "keras_hub" not in sys.modules
path, texts = json.load(sys.stdin)
print(json.dumps(keras.saving.load_model(path).predict(texts, verbose=0).tolist()))
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps([str(tmp_path / "model.keras"), TEXTS]),
        capture_output=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(json.loads(result.stdout), predict(model), atol=1e-5)


# Export


@pytest.mark.slow
def test_an_export_takes_strings(trained, tmp_path):
    model, _ = trained
    folder = serving.export(model, tmp_path / "served", label_names=["bad", "good"])
    signatures = tf.saved_model.load(folder).signatures
    outputs = signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(outputs["probabilities"], keras.ops.softmax(predict(model)), atol=1e-5)
    assert outputs["label"].numpy().tolist() == [[b"bad", b"good"][label] for label in LABELS]
    assert signatures["serving_default"](text=tf.constant([], tf.string))["probabilities"].shape == (0, 2)

    embeddings = signatures["embed"](text=tf.constant(TEXTS))["embedding"]
    pooled = model.encoder(preprocessor()(TEXTS))["pooled_output"]
    np.testing.assert_allclose(embeddings, pooled, atol=1e-5)
    ids = {name: tf.cast(value, tf.int32) for name, value in preprocessor()(TEXTS).items()}  # its mask is of bools
    logits = signatures["tokens"](**ids)["logits"]
    np.testing.assert_allclose(logits, predict(model), atol=1e-5)


@pytest.mark.slow
@pytest.mark.report("A model of pairs cannot be exported.", "hub#747")
def test_a_loaded_model_can_be_exported_with_pairs(trained, tmp_path, monkeypatch):
    model, _ = trained
    monkeypatch.setattr(model, "fitted_on", None)  # It was trained on single texts.
    folder = serving.export(save_and_load(model), tmp_path / "served", pairs=True)
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    outputs = serve(text=tf.constant(TEXTS), text_pair=tf.constant(TEXTS[::-1]))
    expected = keras.ops.softmax(predict(model, (TEXTS, TEXTS[::-1])))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
