"""Scores of answers follow the rules of the official script of SQuAD."""

import collections
import json
import re
import string

import numpy as np
import pytest

from keras_transfer.datasets import Answer
from keras_transfer.metrics import squad_scores
from tests.errors import check_errors

WORDS = ["the", "The", "a", "An", "cat", "Cat!", "dog", "1,000", "U.S.", "--", "theatre", "“an”", "\t", "A.", "über"]


def normalized(text):
    """The published rules: lower case, no punctuation, no articles, single spaces."""
    text = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(right, given):
    right, given = normalized(right).split(), normalized(given).split()
    same = sum((collections.Counter(right) & collections.Counter(given)).values())
    if not right or not given:
        return float(right == given)
    precision, recall = same / len(given), same / len(right)
    return 2 * precision * recall / (precision + recall) if same else 0.0


def random_case(random):
    """Right answers of several questions, some without any, predictions, and no-answer scores with ties."""

    def text():
        return random.choice([" ", "  ", "-"]).join(random.choice(WORDS, random.integers(4)))

    answers = [[text() for _ in range(random.integers(4))] for _ in range(random.integers(1, 6))]
    predictions = [random.choice(row) if row and random.random() < 0.4 else text() for row in answers]
    return answers, [str(text) for text in predictions], (random.integers(0, 4, len(answers)) / 4).tolist()


def test_scores_of_random_answers_follow_the_published_rules():
    random, seen = np.random.default_rng(0), set()
    for _ in range(1000):
        answers, predictions, _ = random_case(random)
        rights = [[text for text in row if normalized(text)] or [""] for row in answers]
        exact, overlap = (
            [100 * max(map(score, row, [given] * len(row))) for row, given in zip(rights, predictions)]
            for score in (lambda right, given: normalized(right) == normalized(given), f1)
        )
        has = np.array([bool(row) for row in answers])
        groups = {"": np.ones(len(has), bool)}
        if not has.all():
            groups |= {"no_answer_": ~has} | ({"has_answer_": has} if has.any() else {})
        expected = {}
        for prefix, rows in groups.items():
            means = np.mean(np.array(exact)[rows]), np.mean(np.array(overlap)[rows]), int(rows.sum())
            expected |= dict(zip((prefix + key for key in ("exact_match", "f1", "total")), means))
        assert squad_scores(answers, predictions) == pytest.approx(expected, abs=1e-9)
        seen.add((expected["exact_match"], expected["f1"]))
    assert len(seen) > 40


def test_the_best_threshold_is_that_of_a_search():
    random, moved = np.random.default_rng(0), 0
    for _ in range(200):
        # Answers of articles alone count as none for the scores, and as answers for the threshold.
        answers, predictions, doubts = random_case(random)
        answers = [[f"{text} x" for text in row] for row in answers]
        predictions = [text and f"{text} x" for text in predictions]
        # Without ties, which the official script tries one by one. Some are negative, such as differences of logits.
        doubts = (random.permutation(len(doubts)) - 3).tolist()
        scores = squad_scores(answers, predictions, no_answer_scores=doubts)
        for key in ("exact_match", "f1"):
            limits = (-np.inf, *doubts, scores[f"best_{key}_threshold"])
            kept = ([p if d <= limit else "" for p, d in zip(predictions, doubts)] for limit in limits)
            tries = [squad_scores(answers, texts)[key] for texts in kept]
            assert scores[f"best_{key}"] == pytest.approx(max(tries)) == pytest.approx(tries[-1])
            moved += scores[f"best_{key}"] > scores[key]
    assert moved > 20


def test_the_answers_of_the_reader_are_taken_as_they_are():
    answers = [[Answer("Denver Broncos", 177), Answer("The Broncos", 9)], []]
    assert squad_scores(answers, ["Broncos", ""])["exact_match"] == 100


@pytest.mark.parametrize(
    ("answers", "prediction", "exact", "overlap"),
    [
        (["Denver Broncos"], "the denver broncos.", 100, 100),
        (["Denver Broncos", "The Broncos"], "Broncos!", 100, 100),
        (["Carolina Panthers"], "Panthers of Carolina", 0, 80),
        (["1976"], "", 0, 0),
        ([], "", 100, 100),
        ([], "1976", 0, 0),
        ([], "the", 100, 100),
        (["a a b b"], "b b b", 0, 100 * 4 / 5),
    ],
)
def test_examples(answers, prediction, exact, overlap):
    scores = squad_scores([answers], [prediction])
    assert (scores["exact_match"], scores["f1"]) == (exact, pytest.approx(overlap))


def test_the_right_answers_of_the_development_set_score_100_and_no_answers_score_0(data_dir):
    file = data_dir("squad1.1") / "dev-v1.1.json"
    articles = json.loads(file.read_text("utf-8"))["data"]
    questions = [row for article in articles for part in article["paragraphs"] for row in part["qas"]]
    answers = [[answer["text"] for answer in row["answers"]] for row in questions]
    # Three of the right answers are ".", which the rules remove.
    longest = [max(row, key=len) for row in answers]
    assert squad_scores(answers, longest) == {"exact_match": 100, "f1": 100, "total": 10_570}
    scores = squad_scores(answers, [""] * len(answers))
    assert (scores["exact_match"], scores["f1"]) == (0, 0)


test_what_is_not_a_list_of_answers_for_each_question_is_an_error = check_errors(
    (
        lambda: squad_scores([["a"], []], ["a"]),
        "one prediction for each of the questions, at least 1. Received: counts=[2, 1]",
    ),
    (lambda: squad_scores([], []), "at least 1. Received: counts=[0, 0]"),
    (lambda: squad_scores([["a"]], ["a"], no_answer_scores=[0.5, 0.5]), "Received: counts=[1, 1, 2]"),
    (
        lambda: squad_scores([["a"], "cat"], ["a", "cat"]),
        "lists of strings, one for each question. Received: 'cat' at position 1",
    ),
    (lambda: squad_scores([["a"]], [None]), "`y_pred` must be a list of strings. Received: None at position 0"),
)
