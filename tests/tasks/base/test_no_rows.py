"""No texts, no sentences or no ids: `predict` returns no rows and does not run the network."""

import keras
import numpy as np
import pytest

from tests.tasks.tagging.test_token_classifier import tagger
from tests.tasks.tiny import classifier, message

EMPTY = {"list": [], "array": np.array([]), "objects": np.array([], object), "strings": np.array([], "<U4")}


@pytest.fixture(scope="module")
def models():
    return classifier(), tagger()


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def predict(*args, **kwargs):
        raise AssertionError("the network ran")

    monkeypatch.setattr(keras.Model, "predict", predict)


@pytest.mark.parametrize("kind", EMPTY)
def test_no_texts_get_no_logits(models, kind):
    classifier, tagger = models
    for texts in (EMPTY[kind], (EMPTY[kind], [])):
        logits = classifier.predict(texts, verbose=0)
        assert logits.shape == (0, 2) and logits.dtype == "float32"
    assert tagger.predict(EMPTY[kind], verbose=0) == [] and tagger.predict_words(EMPTY[kind]) == []


def test_a_column_without_texts_gets_no_logits(models):
    pandas = pytest.importorskip("pandas")
    classifier, tagger = models
    texts = pandas.Series([], dtype="str")
    assert classifier.predict(texts, verbose=0).shape == (0, 2) and tagger.predict(texts, verbose=0) == []
    assert "Texts must be" in message(lambda: classifier.predict(pandas.DataFrame({"text": []}), verbose=0))


class EmptyArrow:
    """Like `pyarrow.array([])`, whose type is null."""

    type = "null"

    def __len__(self):
        return 0

    def to_pylist(self):
        return []


def test_an_empty_arrow_array_gets_no_logits_whatever_its_type(models):
    classifier, tagger = models
    assert classifier.predict(EmptyArrow(), verbose=0).shape == (0, 2)
    assert tagger.predict(EmptyArrow(), verbose=0) == [] and tagger.predict_words(EmptyArrow()) == []


def test_no_ids_get_no_logits(models):
    for model, shape in zip(models, [(0, 2), (0, 8, 3)], strict=True):
        logits = model.predict({name: np.zeros((0, 8), "int32") for name in model.input}, verbose=0)
        assert logits.shape == shape and logits.dtype == "float32"
        logits = model.predict([np.zeros((0, 8), "int32") for _ in model.input], verbose=0)
        assert logits.shape == shape


def test_steps_are_an_error_for_empty_texts_too(models):
    for model in models:
        assert "Received: steps=2" in message(lambda model=model: model.predict([], steps=2, verbose=0))


def test_mistakes_are_errors_even_without_texts(models):
    classifier, tagger = models
    assert "Received: 0 and 1 texts" in message(lambda: classifier.predict(([], ["a"]), verbose=0))
    assert "Received: a tuple of 0" in message(lambda: classifier.predict((), verbose=0))
    assert "Received: a tuple of 3" in message(lambda: classifier.predict(([], [], []), verbose=0))
    assert "Pairs are not supported" in message(lambda: tagger.predict(([], []), verbose=0))
