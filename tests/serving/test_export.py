"""`export`: the signatures of the SavedModel, and that they give the same answers as the model for any text."""

import json
import logging
import shutil
import stat
import warnings

import keras
import numpy as np
import pytest

from keras_transfer import serving, tasks
from tests.helpers import eager

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

LABELS = ["bad", "mixed", "good"]  # those of the fixture `exported`
TEXTS = ["the film was good", "bad films", "", " ", "😀 good 👍🏽", "[MASK]", "[CLS] the [SEP]", "日本語のfilm"]
TEXTS += ["good " * 2_000]  # 10,000 characters


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(exported)


def run(loaded, *texts, signature="serving_default"):
    """The answers of an export to columns of texts, or those of a task's signatures, which are not written."""
    columns = [tf.constant(column, tf.string) for column in texts]
    function = loaded[signature].function if isinstance(loaded, dict) else loaded.signatures[signature]
    return {name: value.numpy() for name, value in function(**dict(zip(("text", "text_pair"), columns))).items()}


def probabilities(model, texts):
    return keras.ops.convert_to_numpy(keras.ops.softmax(model(texts)))


# Signatures


def inputs_of(signature):
    return {name: (spec.dtype, spec.shape.as_list()) for name, spec in signature.structured_input_signature[1].items()}


def outputs_of(signature):
    return {name: (spec.dtype, spec.shape.as_list()) for name, spec in signature.structured_outputs.items()}


TEXT, IDS = {"text": (tf.string, [None])}, ("token_ids", "segment_ids", "padding_mask")
ANSWER = {"label": (tf.string, [None]), "label_id": (tf.int32, [None]), "probabilities": (tf.float32, [None, 3])}
SIGNATURES = {
    "serving_default": (TEXT, ANSWER),
    "tokens": ({name: (tf.int32, [None, None]) for name in IDS}, {"logits": (tf.float32, [None, 3])}),
    "embed": (TEXT, {"embedding": (tf.float32, [None, 16])}),
}


def test_the_signatures_go_from_text_to_labels_and_to_vectors_and_from_ids_to_logits(loaded):
    assert {name: (inputs_of(each), outputs_of(each)) for name, each in loaded.signatures.items()} == SIGNATURES


# Answers


def test_the_answers_equal_those_of_the_model(loaded, classifier):
    outputs, expected = run(loaded, TEXTS), probabilities(classifier, TEXTS)
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    assert outputs["label_id"].tolist() == expected.argmax(axis=1).tolist()
    assert outputs["label"].tolist() == [LABELS[i].encode() for i in expected.argmax(axis=1)]
    assert set(outputs["label_id"].tolist()) == {0, 1, 2}


def test_the_answer_to_a_text_does_not_depend_on_the_other_texts(loaded):
    together = run(loaded, TEXTS)["probabilities"]
    alone = np.concatenate([run(loaded, [text])["probabilities"] for text in TEXTS])
    np.testing.assert_allclose(alone, together, atol=1e-5)


def test_300_texts_get_300_answers(loaded):
    outputs = run(loaded, TEXTS[:3] * 100)
    expected = np.tile(run(loaded, TEXTS[:3])["probabilities"], (100, 1))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)


def test_no_texts_get_no_answers(loaded):
    shapes = {name: value.shape for name, value in run(loaded, []).items()}
    assert shapes == {"label": (0,), "label_id": (0,), "probabilities": (0, 3)}
    assert run(loaded, [], signature="embed")["embedding"].shape == (0, 16)


def test_bytes_that_are_not_utf8_are_an_error(loaded):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Texts must be UTF-8"):
        run(loaded, ["good", b"caf\xe9"])


def test_tokens_gives_the_logits_of_the_model(loaded, classifier):
    logits = loaded.signatures["tokens"](**classifier.preprocessor(TEXTS))["logits"]
    np.testing.assert_allclose(logits, classifier(TEXTS), atol=1e-5)


def test_embed_pools_like_the_classifier_if_the_checkpoint_does_not_define_it(loaded, classifier):
    inputs = classifier.preprocessor(TEXTS)
    expected = classifier.encoder(inputs)["pooled_output"]
    np.testing.assert_allclose(run(loaded, TEXTS, signature="embed")["embedding"], expected, atol=1e-5)


def test_embed_pools_and_normalises_as_the_checkpoint_says(make_classifier):
    model = make_classifier(pooling="max", num_layers=1)
    model.encoder.pooling, model.encoder.normalize = "first", True
    first = model.encoder(model.preprocessor(TEXTS))["sequence_output"][:, 0].numpy()
    expected = first / np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(run(model.signatures(), TEXTS, signature="embed")["embedding"], expected, atol=1e-5)


def test_texts_are_padded_to_the_longest_of_a_request(classifier):
    ids, mask = (keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask"))
    real = keras.layers.Embedding(20, 1, name="real")
    # The fraction of real tokens shows the padded length.
    outputs = {"sequence_output": real(ids), "pooled_output": keras.layers.GlobalAveragePooling1D()(real(ids))}
    encoder = keras.Model({"token_ids": ids, "padding_mask": mask}, outputs)
    real.set_weights([np.arange(20)[:, None] > 0])
    model = tasks.TextClassifier(encoder, classifier.preprocessor, num_classes=3)
    fractions = run(model.signatures(), ["good", "the film was"], signature="embed")["embedding"]
    np.testing.assert_allclose(fractions, [[3 / 5], [1]], atol=1e-6)


def test_pairs_are_two_inputs(classifier):
    signatures = classifier.signatures(pairs=True)
    assert list(signatures["serving_default"].inputs) == ["text", "text_pair"]
    outputs, expected = run(signatures, TEXTS, TEXTS[::-1]), probabilities(classifier, (TEXTS, TEXTS[::-1]))
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    assert np.abs(expected - probabilities(classifier, TEXTS)).max() > 0.01


# The folder


UNICODE = np.array(["schlecht", "weder\nnoch", "güt 👍"])


@pytest.fixture(scope="module")
def moved(make_classifier, classifier, tmp_path_factory):
    """A larger classifier whose vocabulary was in a file, and its export at another place, with labels of unicode.

    It uses neither segments nor the pooler of its encoder.
    """
    folder = tmp_path_factory.mktemp("moved")
    file = folder / "vocab.txt"
    file.write_text("\n".join(classifier.preprocessor.vocabulary))
    sizes = {"hidden_dim": 256, "intermediate_dim": 1024, "num_layers": 1, "num_segments": 0}
    model = make_classifier(vocabulary=file, pooling="concat", **sizes)
    served = serving.export(model, folder / "served", label_names=UNICODE)
    file.unlink()
    elsewhere = shutil.move(served, folder / "elsewhere")
    return model, elsewhere, tf.saved_model.load(elsewhere)


def test_weights_are_written_once(moved):
    model, folder, _ = moved
    weights = 4 * model.count_params()
    written = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert weights < written < weights + 1e6  # The graph and the tokenizer take 0.7 MB. Twice would be 3.5 MB more.


def test_the_vocabulary_is_inside_and_the_folder_can_be_moved(moved):
    model, _, loaded = moved
    np.testing.assert_allclose(run(loaded, TEXTS)["probabilities"], probabilities(model, TEXTS), atol=1e-5)


def test_without_its_pooler_and_segments_an_encoder_is_exported_without_them(moved):
    _, _, loaded = moved
    assert run(loaded, TEXTS, signature="embed")["embedding"].shape == (len(TEXTS), 3 * 256)
    assert set(inputs_of(loaded.signatures["tokens"])) == {"token_ids", "padding_mask"}


def test_labels_may_be_an_array_of_any_unicode(moved):
    outputs = run(moved[2], TEXTS)
    assert [label.decode() for label in outputs["label"]] == UNICODE[outputs["label_id"]].tolist()
    assert json.loads((moved[1] / "assets.extra" / "labels.json").read_text("utf-8")) == UNICODE.tolist()


def test_the_labels_are_in_the_folder(exported):
    assert json.loads((exported / "assets.extra" / "labels.json").read_text("utf-8")) == LABELS


def test_the_returned_folder_has_default_permissions(exported):
    assert exported.is_dir() and exported.name == "1"
    assert {file.name for file in exported.parent.iterdir()} == {"1"}
    assert stat.S_IMODE(exported.stat().st_mode) == stat.S_IMODE((exported / "variables").stat().st_mode)


def test_export_prints_nothing_and_does_not_change_the_model(make_classifier, tmp_path, capfd, caplog):
    model = make_classifier(num_layers=1)
    with eager():
        before = model.predict(TEXTS, verbose=0)
    capfd.readouterr()
    caplog.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        serving.export(model, tmp_path / "served")
    assert tuple(capfd.readouterr()) == ("", "") and caplog.messages == []
    with eager():
        np.testing.assert_array_equal(model.predict(TEXTS, verbose=0), before)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    model.fit(TEXTS, [i % 3 for i in range(len(TEXTS))], verbose=0)
    assert np.abs(model.predict(TEXTS, verbose=0) - before).max() > 0.01


def test_a_single_string_is_an_error_that_names_the_input_and_the_shape(exported):
    function = tf.saved_model.load(str(exported)).signatures["serving_default"]
    for text in ("good", [["good"]]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Shape of tensor text .* expected shape \[\?\]"):
            function(text=tf.constant(text))


def test_the_method_of_keras_exports_the_tokenizer_and_the_labels_and_logs_no_temporary_folder(
    classifier, exported, tmp_path, caplog, monkeypatch
):
    logger = logging.getLogger("tensorflow")
    monkeypatch.setattr(logger, "propagate", True)
    with caplog.at_level("INFO", logger.name):
        folder = classifier.export(tmp_path / "served", format="tf_saved_model", verbose=None, label_names=LABELS)
    names = [path / "assets.extra" / name for path in (exported, folder) for name in ("labels.json", "export.json")]
    assert [name.read_text() for name in names[:2]] == [name.read_text() for name in names[2:]]
    assert not [line for line in caplog.messages if "Assets" in line]
    with pytest.raises(FileExistsError):
        classifier.export(folder)
