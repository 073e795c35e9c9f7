"""No texts, one text and a text of a megabyte: every entrance answers as documented."""

import numpy as np
import pytest

from keras_transfer.adaptation import estimate_fisher
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, WordPreprocessor, batches, word_batches
from tests.helpers import EAGER
from tests.tasks.taggers import NAMES, tagger
from tests.tasks.tiny import VOCABULARY, classifier, message

LONG = {
    "words": "good " * 209_716,
    "one word": "a" * 2**20,
    "one word that is not ASCII": "\u00e9" * 2**19,
    "punctuation": "!" * 2**20,
    "white space": " " * 2**20,
}


@pytest.fixture(scope="module")
def model():
    model = classifier()
    model.compile("sgd", run_eagerly=EAGER)
    return model


@pytest.mark.parametrize("text", ["a good b", b"a good b", "", np.array(["a good b"]), ["a good b"]])
def test_one_text_has_one_row_of_logits(model, text):
    logits = model.predict(text, verbose=0)
    assert logits.shape == (1, 2) and np.isfinite(logits).all()
    tagged = tagger().predict_words(text)
    assert [[word for word, _ in words] for words in tagged] == [[] if text == "" else ["a", "good", "b"]]


@pytest.mark.parametrize("kind", LONG)
def test_a_text_of_a_megabyte_is_truncated_like_any_other(model, kind):
    start = LONG[kind][:200]
    logits = model.predict([LONG[kind], "a"], verbose=0)
    np.testing.assert_allclose(logits, model.predict([start, "a"], verbose=0), atol=1e-6)


@pytest.mark.parametrize(
    "preprocessor", [BertPreprocessor(VOCABULARY, 8), WordPreprocessor(["a"], 8), ElmoPreprocessor(8)]
)
@pytest.mark.parametrize("kind", LONG)
def test_every_preprocessor_takes_a_text_of_a_megabyte(preprocessor, kind):
    for inputs in (preprocessor([LONG[kind]]), preprocessor([LONG[kind], "a"], sequence_length="longest")):
        assert all(value.shape[1] == 8 or kind != "words" for value in inputs.values())
        assert inputs["padding_mask"].numpy()[0].sum() <= 8


def test_no_word_of_a_text_of_a_megabyte_is_lost():
    data = word_batches([LONG["words"].split()], [[1] * 209_716], BertPreprocessor(VOCABULARY, 256), batch_size=512)
    assert sum((data[i][1] == 1).sum() for i in range(len(data))) == 209_716
    [words] = tagger().predict_words(["a " * 10_000])
    assert len(words) == 10_000


def test_no_texts_are_one_error_where_there_must_be_some(model):
    for function in (
        lambda: batches([], [], model.preprocessor),
        lambda: word_batches([], [], model.preprocessor),
        lambda: model.fit([], [], verbose=0),
        lambda: model.evaluate([], [], verbose=0),
        lambda: estimate_fisher(model, []),
        lambda: estimate_fisher(model, [], samples=3),
        lambda: estimate_fisher(model, [], [], labels="data"),
        lambda: estimate_fisher(model, ([], [])),
        lambda: estimate_fisher(tagger(), []),
        lambda: estimate_fisher(tagger(), [], [], labels="data"),
    ):
        assert message(function) is not None


def test_predictions_of_no_texts_have_no_rows(model):
    assert model.predict([], verbose=0).shape == (0, 2)
    assert tagger().predict([], verbose=0) == [] and tagger().predict_words([]) == []
    assert model.preprocessor([])["token_ids"].shape == (0, 32)
    assert model.preprocessor([], sequence_length="longest")["token_ids"].shape[0] == 0


@pytest.mark.parametrize("text", ["a good b", ["a good b"], ["good " * 209_716]])
def test_the_fisher_information_of_one_text_is_that_of_its_gradient(model, text):
    for options in ({}, {"samples": 5}, {"y": [1], "labels": "data"}):
        fisher = estimate_fisher(model, text, seed=0, **options)
        assert len(fisher) == len(model.trainable_weights)
        assert all(np.isfinite(values).all() for values in fisher.values())
        assert max(values.max() for values in fisher.values()) > 0


def test_the_fisher_information_of_one_sentence_is_that_of_its_words():
    for x in ("a good b", ["a good b"], [["a", "good", "b"]]):
        fisher = estimate_fisher(tagger(), x, seed=0)
        assert max(values.max() for values in fisher.values()) > 0
    fisher = estimate_fisher(tagger(), [["a", "good"]], [[NAMES[0], NAMES[1]]], labels="data")
    assert max(values.max() for values in fisher.values()) > 0
