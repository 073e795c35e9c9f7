"""Modules in the TF1 Hub format in Keras models: `fit`, `.keras`, standalone exports and two replicas."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transfer.hub import HubLayer
from tests.hub import tf1_modules

TEXTS = tf.constant(tf1_modules.TEXTS)
LABELS = np.array([1, 0, 0, 1])
NUMBERS = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), "float32")
MODULES = {  # inputs, and the number of weights that training does not change
    "elmo": (TEXTS, 0),
    "elmo, only its mixture trains": (TEXTS, 2),
    "vocabulary": (TEXTS, 0),
    "batch norm": (NUMBERS, 0),
    "zh_segmenter": (tf.constant(["我爱北京天安门", "今天天气很好", "你好", "北京"]), 0),
}


def folder_of(name, data_dir):
    if name != "zh_segmenter":
        return tf1_modules.folder(name)
    pytest.importorskip("tensorflow_text", reason="zh_segmenter needs TF Text: pip install tensorflow-text")
    return str(data_dir("tfhub/zh_segmenter_tf1hub"))


def classifier(layer, inputs, run_eagerly=False):
    """A Sequential model for strings or numbers. Vectors of characters are reduced to their maximum."""
    keras.utils.set_random_seed(0)
    parts = [keras.Input(inputs.shape[1:], dtype=inputs.dtype.name), layer]
    parts += [keras.layers.GlobalMaxPooling1D()] if layer.output_key == "logits" else []
    model = keras.Sequential([*parts, keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, run_eagerly=run_eagerly)
    return model


@pytest.mark.parametrize(
    ("name", "trainable"),
    [
        *(("elmo", True), ("vocabulary", True), ("vocabulary", False), ("batch norm", True), ("zh_segmenter", True)),
        pytest.param("elmo, only its mixture trains", True, marks=pytest.mark.slow),
    ],
)
def test_fit_changes_only_trainable_weights(name, trainable, data_dir):
    inputs, fixed = MODULES[name]
    key = "logits" if name == "zh_segmenter" else "default"
    layer = HubLayer(folder_of(name, data_dir), trainable=trainable, output_key=key)
    model = classifier(layer, inputs, run_eagerly=not trainable)
    before, head = layer.get_weights(), model.layers[-1].get_weights()
    model.fit(inputs, LABELS, epochs=3, verbose=0)
    moved = [bool(np.any(new != old)) for new, old in zip(layer.get_weights(), before, strict=True)]
    assert moved == ([True] * (len(moved) - fixed) + [False] * fixed if trainable else [False] * len(moved))
    assert all(np.any(new != old) for new, old in zip(model.layers[-1].get_weights(), head))


KINDS = [pytest.param("elmo", marks=pytest.mark.slow), "vocabulary"]


@pytest.mark.parametrize("name", KINDS)
def test_a_loaded_keras_file_predicts_the_same(name, tmp_path):
    layer = HubLayer(tf1_modules.folder(name), trainable=True, output_key="default")
    model = classifier(layer, TEXTS, run_eagerly=True)
    model.fit(TEXTS, LABELS, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))
    loaded.fit(TEXTS, LABELS, verbose=0)


# Exports


@pytest.mark.parametrize("name", KINDS)
def test_an_export_predicts_in_another_process_without_the_module(name, tmp_path, process_without_this_package):
    module = shutil.copytree(tf1_modules.folder(name), tmp_path / "module")
    model = classifier(HubLayer(module, trainable=True, output_key="default"), TEXTS, run_eagerly=True)
    model.fit(TEXTS, LABELS, verbose=0)
    model.export(tmp_path / "served", verbose=False)
    shutil.rmtree(module)
    files = [path.name for path in (tmp_path / "served" / "assets").iterdir()]
    assert files == {"elmo": [], "vocabulary": ["vocabulary.txt"]}[name]
    found = process_without_this_package("tests.serving.alone:answers", tmp_path / "served", tf1_modules.TEXTS)
    np.testing.assert_allclose(found["outputs"], model(TEXTS), atol=1e-6)
    assert not [warning for warning in found["warnings"] if "gradient" in warning]


def test_the_resources_do_not_contain_a_second_copy_of_the_weights(tmp_path):
    module = tf1_modules.write(tmp_path / "module", tf1_modules.vocabulary(words(tmp_path), rows=100_000))
    layer = HubLayer(module)
    saved = tf.Module()
    saved.weights, saved.resources = [weight.value for weight in layer.weights], layer.resources
    saved.serve = tf.function(layer, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    tf.saved_model.save(saved, str(tmp_path / "saved"))
    (size,) = [path.stat().st_size for path in (tmp_path / "saved" / "variables").glob("*.data*")]
    assert 1_600_000 < size < 1_610_000  # 100,000 x 4 numbers of four bytes
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded.serve(TEXTS), layer(TEXTS))


def words(folder):
    (folder / "words.txt").write_text("a\ngood\nfilm\nbad\n")
    return folder / "words.txt"


def test_an_export_of_a_loaded_object_contains_its_tables(tmp_path):
    layer = HubLayer(tf.saved_model.load(tf1_modules.folder("vocabulary"), tags=[]))
    model = keras.Sequential([keras.Input((), dtype="string"), layer])
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_array_equal(exported.serve(TEXTS), model(TEXTS))


def test_exporting_a_module_with_reference_variables_is_an_error_that_says_why(tmp_path):
    model = classifier(HubLayer(tf1_modules.folder("reference variables")), NUMBERS)
    with pytest.raises(ValueError, match="it has reference variables of TensorFlow 1, which TensorFlow 2 can neither"):
        model.export(tmp_path / "exported", verbose=False)


# Two replicas


@pytest.fixture(scope="module")
def report(tensorflow_process, tmp_path_factory):
    """The results of one device and of two replicas, from a process with two CPU devices."""
    found = tensorflow_process("tests.hub.tf1_mirrored:main", tmp_path_factory.mktemp("mirrored"))
    assert found["replicas"] == 2
    return found


@pytest.mark.parametrize("name", ["elmo", "vocabulary"])
def test_two_replicas_train_and_export_like_one_device(report, name):
    found = report[name]
    assert found["difference"] < 1e-6 and found["answers"] < 1e-6 and found["export"] < 1e-6
    assert found["replicas"] == 0
    assert all(found["moved"])


def test_replicas_continue_with_the_mean_of_their_statistics(report):
    found = report["batch norm"]
    assert found["replicas"] == 0 and found["export"] < 1e-6
    assert all(found["moved"])
    assert 1e-4 < found["difference"] < 0.5  # each replica normalizes with its own half of the batch


def test_reference_variables_on_several_replicas_are_an_error(report):
    assert "reference variables of TensorFlow 1 cannot be used under tf.distribute. Received: " in report["error"]
