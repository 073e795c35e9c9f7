"""No texts, one text and a text of a megabyte: every entrance answers as documented."""

import numpy as np
import pytest

from keras_transfer.adaptation import estimate_fisher
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, WordPreprocessor, batches, word_batches
from tests.helpers import EAGER
from tests.tasks.tagging.taggers import tagger
from tests.tasks.tiny import VOCABULARY, classifier, message

LONG = {
    "words": "good " * 209_716,
    "one word": "a" * 2**20,
    "one word that is not ASCII": "\u00e9" * 2**19,
    "punctuation": "!" * 2**20,
    "white space": " " * 2**20,
}


@pytest.fixture(scope="module")
def models():
    """A classifier and a tagger that are not traced."""
    models = classifier(), tagger()
    for model in models:
        model.compile("sgd", run_eagerly=EAGER)
    return models


@pytest.mark.parametrize("text", ["a good b", b"a good b", "", np.array(["a good b"]), ["a good b"]])
def test_one_text_has_one_row_of_logits(models, text):
    classifier, tagger = models
    logits = classifier.predict(text, verbose=0)
    assert logits.shape == (1, 2) and np.isfinite(logits).all()
    [words] = tagger.predict_words(text)
    assert [word for word, _ in words] == ([] if isinstance(text, str) and not text else ["a", "good", "b"])


@pytest.mark.parametrize("kind", LONG)
def test_a_text_of_a_megabyte_is_truncated_like_any_other(models, kind):
    expected = models[0].predict([LONG[kind][:200], "a"], verbose=0)
    np.testing.assert_allclose(models[0].predict([LONG[kind], "a"], verbose=0), expected, atol=1e-6)


def test_every_preprocessor_takes_a_text_of_a_megabyte():
    for preprocessor in (BertPreprocessor(VOCABULARY, 8), WordPreprocessor(["a"], 8), ElmoPreprocessor(8)):
        mask = preprocessor([*LONG.values(), "a"])["padding_mask"].numpy()
        assert mask.shape == (6, 8) and mask[0].sum() == 8


def test_no_word_of_a_long_text_is_lost(models):
    data = word_batches(
        [["good"] * 50_000], [[1] * 50_000], preprocessor=BertPreprocessor(VOCABULARY, 256), batch_size=512
    )
    assert sum((data[i][1] == 1).sum() for i in range(len(data))) == 50_000
    [words] = models[1].predict_words(["a " * 5_000], batch_size=512)
    assert len(words) == 5_000


def test_no_texts_are_an_error_where_there_must_be_some(models):
    classifier, _ = models
    for function, expected in (
        (lambda: batches([], [], preprocessor=classifier.preprocessor), "`texts` must contain at least one text"),
        (lambda: word_batches([], [], preprocessor=classifier.preprocessor), "`x` must contain at least one sentence"),
        (lambda: classifier.fit([], [], verbose=0), "`x` must have at least one row"),
        (lambda: estimate_fisher(classifier, []), "`x` must contain at least one example"),
        (lambda: estimate_fisher(classifier, ([], [])), "`x` must contain at least one example"),
    ):
        assert message(function).startswith(expected)


def test_one_text_is_enough_for_the_fisher_information(models, eagerly):
    fisher = estimate_fisher(models[0], "a good b", samples=5, seed=0)
    assert len(fisher) == len(models[0].trainable_weights)
    assert all(np.isfinite(values).all() for values in fisher.values())
    assert max(values.max() for values in fisher.values()) > 0
