"""Which words of a row are hidden together, given all that is drawn at random: pure functions of NumPy arrays."""

import numpy as np

_SUCCESS = 0.2  # SpanBERT draws lengths from this geometric distribution.


def words_of(allowed, starts):
    """Returns where each word of a row begins and ends [words, 2], and the word of each token that may be chosen.

    Args:
        allowed: Boolean array [tokens]. Which tokens may be chosen. Those next to others do not belong to their words.
        starts: Boolean array [tokens]. Which tokens begin a word.
    """
    alone = ~np.concatenate([[False], allowed[:-1]])
    begins = allowed & (starts | alone)
    number = np.cumsum(begins)[allowed] - 1
    first = np.flatnonzero(begins)
    return np.stack([first, first + np.bincount(number, minlength=len(first))], axis=1), number


def choose_words(words, order, lengths, budget, joins):
    """Returns the number of the span of each word, -1 for a word that is not chosen.

    Args:
        words: Integer array [words, 2]. Where each word begins and ends.
        order: List of integers. The words with which spans begin, one after the other, until the budget is spent.
        lengths: List of integers, at least as many. The number of words of each of these spans, if they fit.
        budget: Integer. Largest number of tokens of all spans.
        joins: Boolean. Whether a span may contain words that are chosen already, which remain in their own span.
            Otherwise, it is passed over.
    """
    words = words.tolist()
    spans = [-1] * len(words)
    for number, (word, length) in enumerate(zip(order, lengths)):
        if budget == 0:
            break
        if spans[word] >= 0:
            continue
        taken, room, before = [], budget, words[word][0]
        for other in range(word, min(word + length, len(words))):
            first, end = words[other]
            if first != before:  # A special token is between them.
                break
            before = end
            if spans[other] >= 0:
                if joins:
                    continue
                taken = []
                break
            if end - first > room:
                break
            taken.append(other)
            room -= end - first
        for other in taken:
            spans[other] = number
        budget = room if taken else budget
    return spans


def ngram_probabilities(longest):
    """Returns the probabilities of 1 to `longest` words in ALBERT, proportional to the inverse of the number."""
    found = 1 / np.arange(1, longest + 1)
    return found / found.sum()


def span_probabilities(longest):
    """Returns the probabilities of 1 to `longest` words in SpanBERT, which follow a geometric distribution."""
    found = (1 - _SUCCESS) ** np.arange(longest)
    return found / found.sum()
