"""The Fisher information of a tagger covers words only, without padding and further sub-words."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import estimate_fisher
from keras_transfer.text import word_batches
from tests.tasks.tagging.test_token_classifier import NAMES, tagger

pytestmark = pytest.mark.usefixtures("eagerly")
WORDS = [["a", "good", "abc"], ["bad"], ["b", "c"]]
TAGS = [["LETTER", "WORD", "WORD"], ["WORD"], ["LETTER", "LETTER"]]


def expected(model):
    """The mean over sentences of the squared gradient of the head's kernel, the sum over words of x (p - y)."""
    features = keras.Model(model.input, model.get_layer("logits").input)
    total = 0.0
    for words, tags in zip(WORDS, TAGS):
        rows = model.preprocessor.encode_words([words])
        inputs = {name: np.asarray(rows.inputs[name]) for name in model.input}
        x = keras.ops.convert_to_numpy(features(inputs))[0, np.asarray(rows.position)]
        [logits] = model.predict([words], verbose=0)
        p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        total = total + (x.T @ (p - np.eye(3)[[NAMES.index(tag) for tag in tags]])) ** 2
    return total / len(WORDS)


@pytest.mark.parametrize("made", [False, True])
def test_sentences_and_batches_give_the_fisher_information_of_words(made):
    model = tagger()
    given = (WORDS, TAGS)
    if made:
        given = (word_batches(WORDS, TAGS, preprocessor=model.preprocessor, batch_size=2, label_names=NAMES),)
    found = estimate_fisher(model, *given, empirical=True)
    np.testing.assert_allclose(found["logits/kernel"], expected(model), rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_labels_of_the_model_are_drawn_for_words_only():
    model = tagger()
    kernel = model.get_layer("logits")
    # Every word has the probabilities 1/4, 1/2 and 1/4.
    kernel.kernel.assign(keras.ops.zeros_like(kernel.kernel))
    kernel.bias.assign([0.0, np.log(2.0), 0.0])
    counts = np.array([len(words) for words in WORDS])
    found = [estimate_fisher(model, WORDS, seed=seed)["logits/bias"] for seed in range(20)]
    # The sum of p - y over n independent words has the variance n p (1 - p).
    p = np.array([0.25, 0.5, 0.25])
    np.testing.assert_allclose(np.mean(found, axis=0), counts.mean() * p * (1 - p), rtol=0.5)
    alike = estimate_fisher(model, ["a good abc", "bad", "b c"], seed=3)
    np.testing.assert_allclose(alike["logits/bias"], found[3], rtol=1e-5)
    assert len(estimate_fisher(model, WORDS, samples=1)) == len(model.trainable_weights)


def test_a_sentence_of_weight_3_counts_three_times_and_an_empty_one_does_not():
    model = tagger()
    given = {"preprocessor": model.preprocessor, "label_names": NAMES}
    once = estimate_fisher(model, WORDS, TAGS, empirical=True)["logits/kernel"]
    weighted = word_batches(WORDS, TAGS, **given, sample_weight=[3.0, 1.0, 1.0])
    again = estimate_fisher(model, WORDS[:1] * 2 + WORDS, TAGS[:1] * 2 + TAGS, empirical=True)
    np.testing.assert_allclose(
        estimate_fisher(model, weighted, empirical=True)["logits/kernel"], again["logits/kernel"], rtol=1e-4
    )
    empty = estimate_fisher(model, [*WORDS, [], []], [*TAGS, [], []], empirical=True)
    np.testing.assert_allclose(empty["logits/kernel"], once, rtol=1e-5)


def test_without_labels_the_positions_of_words_are_unknown():
    model = tagger()
    with pytest.raises(ValueError, match="which mark the words. Received: labels=None"):
        estimate_fisher(model, word_batches(WORDS, None, preprocessor=model.preprocessor))
    with pytest.raises(ValueError, match="one label for each word"):
        estimate_fisher(model, WORDS, [["LETTER"], ["WORD"], ["LETTER"]], empirical=True)
