"""The signatures of a tagger give the same words and labels for raw text as the model, for long texts too."""

import keras
import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.serving import exporting
from keras_transfer.serving.formats.savedmodel import make_signatures
from tests.tasks.tagging.taggers import NAMES, examples, tagger

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
TEXTS = ["a good, bad film", "", "abc", "a good , " * 40]


@pytest.fixture(scope="module", params=["bert", pytest.param("elmo", marks=pytest.mark.slow)])
def served(request):
    """A tagger after some training, and the signatures that its export has."""
    model = tagger(request.param, scalar_mix=request.param == "elmo")
    model.compile(keras.optimizers.Adam(0.03), run_eagerly=True)
    model.fit(*examples(), epochs=2, verbose=0)
    return model, make_signatures(model, NAMES)


def test_serving_default_goes_from_text_to_words_with_labels(served):
    model, signatures = served
    answer = signatures["serving_default"](text=tf.constant(TEXTS))
    expected, logits = model.predict_words(TEXTS), model.predict(TEXTS, verbose=0)
    assert answer["words"].shape == (4, 120) and answer["probabilities"].shape == (4, 120, 3)
    for i, pairs in enumerate(expected):
        count = len(pairs)
        for name, column in (("words", 0), ("label", 1)):
            found = [value.decode() for value in answer[name][i].numpy()]
            assert found == [pair[column] for pair in pairs] + [""] * (120 - count)
        np.testing.assert_allclose(answer["probabilities"][i, :count], tf.nn.softmax(logits[i]), atol=1e-6)
        assert answer["label_id"][i].numpy().tolist() == [NAMES.index(tag) for _, tag in pairs] + [-1] * (120 - count)
        assert not answer["probabilities"][i, count:].numpy().any()


def test_words_goes_from_words_to_labels(served):
    model, signatures = served
    words = [["a", "good", ",", ""], ["", "", "", ""], ["bad", "", "b", ""]]
    answer = signatures["words"](words=tf.constant(words))
    expected = model.predict_words([["a", "good", ","], [], ["bad", "", "b"]])
    assert answer["label"].shape == (3, 4)
    for found, pairs in zip(answer["label"].numpy(), expected, strict=True):
        assert [value.decode() for value in found] == [tag for _, tag in pairs] + [""] * (4 - len(pairs))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0)])
def test_a_request_may_be_empty(served, shape):
    _, signatures = served
    assert signatures["serving_default"](text=tf.constant([], tf.string))["label"].shape == (0, 0)
    assert signatures["words"](words=tf.zeros(shape, tf.string))["label"].shape == shape


def test_tokens_goes_from_ids_to_logits(served):
    model, signatures = served
    rows = model.preprocessor.encode_words([["a", "good"], ["bad"]])
    inputs = {name: rows.inputs[name] for name in model.input}
    np.testing.assert_allclose(signatures["tokens"](**inputs)["logits"], model(inputs), atol=1e-6)


def test_labels_can_be_renamed_and_mistakes_are_errors(tmp_path, monkeypatch):
    model, written = tagger(), []
    monkeypatch.setattr(exporting, "write_export", lambda *given: written.append(given[-1]))
    serving.export(model, tmp_path / "1", label_names=["l", "w", "m"])
    assert [options["label_names"] for options in written] == [["l", "w", "m"]]
    with pytest.raises(ValueError, match="must be 3 different names, one for each class"):
        serving.export(model, tmp_path / "2", label_names=["l", "w"])
    with pytest.raises(ValueError, match="`TokenClassifier` does not support pairs of texts. Received: pairs=True"):
        serving.export(model, tmp_path / "2", pairs=True)
