"""Tasks with modules: training on raw text, `.keras`, and exports that need neither the modules nor this library."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transfer as kt
from keras_transfer.hub import HubEncoder, HubPreprocessor
from keras_transfer.tasks import TextClassifier
from tests.hub import saved_modules as modules
from tests.hub import tf1_modules

TEXTS, LABELS = modules.TEXTS * 8, list(modules.LABELS) * 8


class Learnt:
    """A task with its own module in `folder`, trained on raw text, and its state before training."""

    def __init__(self, kind, module, preprocessing, folder):
        self.kind, self.folder, of_2019 = kind, folder, kind == "bert of 2019"
        shutil.copytree(module, folder / "module")
        encoder = HubEncoder(folder / "module", signature="tokens" if of_2019 else None)
        preprocessor = None
        if kind != "text":
            preprocessor = HubPreprocessor(shutil.copytree(preprocessing, folder / "preprocessing"))
        pooling = "mean" if of_2019 else None  # the first token of this module does not depend on the others
        self.model = TextClassifier(encoder, num_classes=2, preprocessor=preprocessor, pooling=pooling)
        self.model.compile(keras.optimizers.Adam(0.03), run_eagerly=of_2019)  # whose graph takes long to trace
        self.before = {weight.path: weight.numpy() for weight in self.model.weights}
        self.losses = [self.model.evaluate(TEXTS, LABELS, verbose=0)[0]]
        self.model.fit(TEXTS, LABELS, batch_size=4, epochs=8, verbose=0)
        self.losses.append(self.model.evaluate(TEXTS, LABELS, verbose=0)[0])


@pytest.fixture(scope="module", params=["text", "bert", pytest.param("bert of 2019", marks=pytest.mark.slow)])
def learnt(request, preprocessing_module, tmp_path_factory):
    kind = request.param
    module = tf1_modules.folder("bert") if kind == "bert of 2019" else request.getfixturevalue(f"{kind}_module")
    return Learnt(kind, module, preprocessing_module, tmp_path_factory.mktemp("learnt") / "made")


def test_a_task_with_a_module_learns_from_raw_text(learnt):
    assert learnt.losses[1] < 0.7 * learnt.losses[0]
    for weight in learnt.model.weights:
        moved = (weight.numpy() != learnt.before[weight.path]).any()
        unused = learnt.kind == "bert of 2019" and "pooler" in weight.path
        assert moved or unused or "moving_mean" in weight.path, weight.path


@pytest.mark.parametrize("learnt", ["text"], indirect=True)
def test_predictions_do_not_depend_on_the_other_texts_or_the_kind_of_input(learnt):
    model = learnt.model
    one_by_one = np.concatenate([model.predict([text], verbose=0) for text in modules.TEXTS])
    np.testing.assert_allclose(model.predict(modules.TEXTS, verbose=0), one_by_one, atol=1e-6)
    stream = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(8)
    assert model.evaluate(stream, verbose=0)[0] == pytest.approx(learnt.losses[1], rel=1e-5)


def test_an_export_needs_neither_the_modules_nor_this_library(learnt, tmp_path, process_without_this_package):
    probabilities = tf.nn.softmax(learnt.model.predict(modules.TEXTS, verbose=0))
    kt.serving.export(learnt.model, tmp_path / "served", label_names=["bad", "good"])
    learnt.folder.rename(tmp_path / "away")
    try:
        answers = ("tests.serving.alone:answers", tmp_path / "served", modules.TEXTS, "serving_default")
        found = process_without_this_package(*answers)
    finally:
        (tmp_path / "away").rename(learnt.folder)
    assert found["signatures"] == ["embed", "serving_default", *([] if learnt.kind == "text" else ["tokens"])]
    np.testing.assert_allclose(found["outputs"]["probabilities"], probabilities, atol=1e-6)


def test_a_module_moved_out_of_its_archive_is_loaded_without_the_archive_s_checksum(tmp_path, text_module, cache_dir):
    from tests.hub.fetching import pack_folder, sha256

    archive = tmp_path / "module.tar.gz"
    archive.write_bytes(pack_folder(text_module))
    encoder = HubEncoder(archive, sha256=sha256(archive.read_bytes()))
    TextClassifier(encoder, num_classes=2).save(tmp_path / "model.keras")
    archive.unlink()
    with kt.hub.moved_handles({str(archive): str(text_module)}):
        loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=False)
    assert loaded.encoder.module.sha256 is None


def test_pooling_and_pairs_with_a_text_embedding_are_an_error(text_module):
    encoder = HubEncoder(text_module)
    with pytest.raises(ValueError, match="has only a pooled output.*Received: pooling='mean'"):
        TextClassifier(encoder, num_classes=2, pooling="mean")
    model = TextClassifier(encoder, num_classes=2)
    model.compile("sgd")
    with pytest.raises(ValueError, match="does not support pairs of texts. Received: "):
        model.fit((TEXTS, TEXTS), LABELS, verbose=0)
