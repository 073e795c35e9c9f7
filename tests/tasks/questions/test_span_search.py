"""The best answers of random logits are those of a search over all spans."""

import numpy as np
import pytest

from keras_transfer.data.span_batching import windows_in_memory
from keras_transfer.tasks.span_extractor import best_spans, take_characters
from keras_transfer.text import BertPreprocessor

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghij", "who"]
CONTEXTS = ["a b c d e f g h i j", "a b", "", "j i h g f e d"]


@pytest.fixture(scope="module")
def windows():
    return windows_in_memory(BertPreprocessor(WORDS, sequence_length=9), ["who"] * 4, CONTEXTS, doc_stride=3)


def draw(windows):
    return np.random.default_rng(0).normal(scale=2, size=(len(windows.starts), 2, 9)).astype("float32")


def all_spans(logits, windows, example, max_length, threshold):
    """`(score, start, end)` of all answers to a question, by a loop over all spans of its context."""
    found, rows, size = [], np.flatnonzero(windows.example == example), len(CONTEXTS[example].split())
    for first in range(size):
        for last in range(first, min(first + max_length, size)):
            # Windows begin 3 tokens apart and have 5 tokens.
            scores = []
            for row in rows:
                if windows.first[row] <= first and last < windows.first[row] + 5:
                    one, two = np.array([first, last]) - windows.first[row] + windows.position[row]
                    scores.append(logits[row, 0, one] + logits[row, 1, two])
            if scores:
                found.append((max(scores), 2 * first, 2 * last + 1))
    if threshold is not None:
        rows = windows.example == example
        found.append((logits[rows, :, 0].sum(axis=1).min() - threshold, -1, -1))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("max_length", [1, 3])
@pytest.mark.parametrize("threshold", [None, -2.5])
@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.report("An answer ends before it begins.", "captum#684", "captum#1852", "transformers#1478")
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


def test_an_answer_has_at_least_one_character(windows):
    # The tokens of the second context stand for no character and for one, as a lone space of byte-level BPE does.
    part = windows.of_examples(1, 2)
    part = part._replace(ends=np.where(part.starts == 0, 0, part.ends))
    found = best_spans(draw(part), part, 5, 30)
    starts, ends = found["start"].numpy()[0], found["end"].numpy()[0]
    assert sorted(zip(starts[:2].tolist(), ends[:2].tolist())) == [(0, 3), (2, 3)]
    assert found["found"].numpy()[0].tolist() == [True, True, False, False, False]


def test_characters_are_those_of_the_text_and_not_its_bytes():
    texts = tf.constant(["caf\u00e9 \U0001f600!", "abc", ""])
    found = take_characters(texts, tf.constant([3, -1, -1]), tf.constant([6, -1, -1])).numpy()
    assert [text.decode("utf-8") for text in found] == ["\u00e9 \U0001f600", "", ""]
