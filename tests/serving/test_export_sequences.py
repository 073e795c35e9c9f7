"""Exports of random fields and of multiple choice give the answers of the model, without this package."""

import numpy as np
import pytest

from keras_transfer import serving
from tests.tasks.classification.test_multiple_choice import examples, task
from tests.tasks.tagging.test_word_chain import random_tagger

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")


def test_a_random_field_gives_the_most_likely_sequences(tmp_path, process_without_this_package):
    model = random_tagger()
    texts = ["a good, bad abc d", "", "abc", "a good , " * 40]
    folder = serving.export(model, tmp_path / "1")
    answer = process_without_this_package("tests.serving.alone:answers", folder, texts, "serving_default")["outputs"]
    for i, pairs in enumerate(model.predict_words(texts)):
        assert answer["words"][i][: len(pairs)] == [word for word, _ in pairs]
        assert answer["label"][i][: len(pairs)] == [tag for _, tag in pairs]
        assert set(answer["label_id"][i][len(pairs) :]) <= {-1}
    logits = model.predict(texts[:1], verbose=0)[0]
    expected = model.random_field.marginals(logits[None])[0]
    np.testing.assert_allclose(answer["probabilities"][0][: len(logits)], expected, atol=1e-5)
    loaded = tf.saved_model.load(folder)
    empty = loaded.signatures["words"](words=tf.zeros((2, 0), tf.string))
    assert empty["label"].shape == (2, 0)


def test_multiple_choice_gives_the_choice_of_the_model(tmp_path, process_without_this_package):
    model, ((contexts, choices), _) = task(), examples(6, longest=9)
    folder = serving.export(model, tmp_path / "1")
    request = {"context": contexts, "choices": choices}
    found = process_without_this_package("tests.serving.alone:answers", folder, request, "serving_default")
    assert found["signatures"] == ["serving_default", "tokens"]
    answer, logits = found["outputs"], model.predict((contexts, choices), verbose=0)
    assert answer["choice"] == model.predict_choices((contexts, choices))
    assert answer["choice_id"] == logits.argmax(1).tolist()
    np.testing.assert_allclose(answer["probabilities"], tf.nn.softmax(logits), atol=1e-5)
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    assert serve(context=tf.constant([], tf.string), choices=tf.zeros((0, 3), tf.string))["choice"].shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="same batch size"):
        serve(context=tf.constant(["a"]), choices=tf.constant([["b", "c"], ["d", "e"]]))
