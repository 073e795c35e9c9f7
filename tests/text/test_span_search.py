"""The best answers of random logits are those of a search over all spans."""

import numpy as np
import pytest

from keras_transfer.text import BertPreprocessor
from keras_transfer.text.contexts import windows_in_memory
from keras_transfer.text.span_search import best_spans, take_characters

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", "who"]
CONTEXTS = ["a b c d e f g h i j", "a b", "", "j i h g f e d"]


@pytest.fixture(scope="module")
def windows():
    return windows_in_memory(BertPreprocessor(WORDS, sequence_length=9), ["who"] * 4, CONTEXTS, stride=3)


def draw(windows):
    return np.random.default_rng(0).normal(scale=2, size=(len(windows.starts), 2, 9)).astype("float32")


def all_spans(logits, windows, example, max_length, threshold):
    """`(score, start, end)` of all answers to a question, by a loop over all windows and positions."""
    found = []
    for row in np.flatnonzero(windows.example == example):
        for first in np.flatnonzero(windows.owned[row]):
            for last in range(first, min(first + max_length, 9)):
                if windows.starts[row, last] >= 0:
                    score = logits[row, 0, first] + logits[row, 1, last]
                    found.append((score, windows.starts[row, first], windows.ends[row, last]))
    if threshold is not None:
        rows = windows.example == example
        found.append((logits[rows, :, 0].sum(axis=1).min() - threshold, -1, -1))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("max_length", [1, 3, 30])
@pytest.mark.parametrize("threshold", [None, 0.0, -2.5])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_the_answers_are_those_of_a_search_over_all_spans(windows, max_length, threshold, count):
    logits = draw(windows)
    found = {name: value.numpy() for name, value in best_spans(logits, windows, count, max_length, threshold).items()}
    for example in range(4):
        spans = all_spans(logits, windows, example, max_length, threshold)
        size = min(count, len(spans))
        assert found["found"][example].tolist() == [True] * size + [False] * (count - size)
        assert found["start"][example].tolist() == [start for _, start, _ in spans[:count]] + [-1] * (count - size)
        assert found["end"][example].tolist() == [end for _, _, end in spans[:count]] + [-1] * (count - size)
        scores = np.exp([score for score, _, _ in spans])
        expected = [*(scores / scores.sum())[:count], *[0] * (count - size)]
        np.testing.assert_allclose(found["score"][example], expected, atol=1e-5)
        real = [score for score, start, _ in spans if start >= 0]
        none = logits[windows.example == example, :, 0].sum(axis=1).min()
        assert found["no_answer_score"][example] == pytest.approx(none - max(real, default=-np.inf), abs=1e-5)


def test_there_is_no_answer_if_its_score_is_above_the_best_one_by_more_than_the_threshold(windows):
    logits = np.zeros((len(windows.starts), 2, 9), "float32")
    logits[:, :, 0] = 1.0  # The score of no answer is 2 above that of all spans.
    starts = [best_spans(logits, windows, 1, 30, threshold)["start"][1, 0] for threshold in (1.9, 2.1, None)]
    assert starts == [-1, 0, 0]


def test_characters_are_those_of_the_text_and_not_its_bytes():
    texts = tf.constant(["caf\u00e9 \U0001f600!", "abc", ""])
    found = take_characters(texts, tf.constant([3, -1, -1]), tf.constant([6, -1, -1])).numpy()
    assert [text.decode("utf-8") for text in found] == ["\u00e9 \U0001f600", "", ""]
