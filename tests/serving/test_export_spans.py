"""The export of a span extractor answers questions about raw text as the model does."""

import keras
import numpy as np
import pytest

from keras_transfer import serving
from keras_transfer.tasks import SpanExtractor
from tests.tasks.tiny import encoder, preprocessor

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

QUESTIONS = ["a", "good b", "", "c", "d"]
CONTEXTS = ["a b c d e f g h i j " * 4, "C\u00e1 d\u0301 \U0001f600 e", "Good, bad!", "", "x"]


def test_answers_are_those_of_the_model(tmp_path):
    keras.utils.set_random_seed(0)
    model = SpanExtractor(
        encoder(initializer_range=1.0), preprocessor(), doc_stride=8, max_answer_length=4, no_answer_threshold=0.0
    )
    model.get_layer("logits").kernel.assign(np.random.default_rng(3).normal(size=(16, 2)))
    folder = serving.export(model, tmp_path / "served")
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    found = served(question=tf.constant(QUESTIONS), context=tf.constant(CONTEXTS))
    expected = model.answer(QUESTIONS, CONTEXTS)
    assert [text.decode("utf-8") for text in found["answer"].numpy()] == [answer["text"] for answer in expected]
    assert 1 < sum(answer["text"] != "" for answer in expected) < 5
    for name in ("start", "end"):
        assert found[name].numpy().tolist() == [answer[name] for answer in expected]
    np.testing.assert_allclose(found["score"], [answer["score"] for answer in expected], atol=1e-5)
    nothing = served(question=tf.constant([], tf.string), context=tf.constant([], tf.string))
    assert {name: value.shape.as_list() for name, value in nothing.items()} == {name: [0] for name in found}
    with pytest.raises(tf.errors.InvalidArgumentError, match="must leave room for its context"):
        served(question=tf.constant(["a " * 40]), context=tf.constant(["b"]))
