"""Typing errors keep their rate and the ends of words, distractors contain no answer, and labels follow templates."""

import re

import keras
import numpy as np
import pytest

from keras_transfer.analysis import add_distractors, overlap_pairs, perturbation_curve, typos
from keras_transfer.datasets import load_squad
from keras_transfer.tasks import SpanExtractor, TokenClassifier
from tests.errors import check_errors
from tests.tasks.tiny import classifier, encoder, preprocessor

TEXT = "The quick brown foxes jumped over the lazy sleeping dogs, and Their naïve owners walked 1234 miles."
WORDS = re.findall(r"[^\W\d_]{4,}", TEXT)
DIFFERENT = {"swap": 2, "keyboard": 1}  # Number of places in which a changed word differs.


# === Typing errors ===


@pytest.mark.parametrize("kind", ["swap", "keyboard", "drop", "middle"])
def test_all_long_words_have_one_error_between_their_first_and_last_letters(kind):
    changed = typos(TEXT, 1.0, kind=kind)
    found = re.findall(r"[^\W\d_]+", changed)
    assert re.sub(r"[^\W\d_]+", "", changed) == re.sub(r"[^\W\d_]+", "", TEXT)
    for word, other in zip(re.findall(r"[^\W\d_]+", TEXT), found, strict=True):
        assert (word[0], word[-1]) == (other[0], other[-1]) and (len(word) >= 4 or word == other)
        if len(word) >= 4 and kind == "drop":
            assert len(other) == len(word) - 1
        if len(word) >= 4 and kind in DIFFERENT:
            assert sum(a != b for a, b in zip(word, other, strict=True)) == DIFFERENT[kind]
        if kind in ("swap", "middle"):
            assert sorted(word) == sorted(other)


def test_the_rate_is_the_fraction_of_long_words_that_change():
    text = "word " * 4000
    changed = typos(text, 0.3, kind="drop").split()
    assert np.mean([word != "word" for word in changed]) == pytest.approx(0.3, abs=0.03)
    assert typos(text, 0.0) == text and typos(text, 0.3, seed=1) == typos(text, 0.3, seed=1) != typos(text, 0.3)


def test_columns_and_lists_of_words_keep_their_form():
    assert typos((["abab"], [["abab", "c"]]), 1.0, kind="swap") in [(["aabb"], [["aabb", "c"]])]


# === Distractors ===


def test_distractors_contain_no_answer_and_say_something_else(data_dir):
    data = load_squad(next(data_dir("squad1.1").glob("*dev*")))
    data = [column[::50] for column in (data.questions, data.contexts, data.answers)]
    found = add_distractors(*data)
    assert len(data[0]) > 200 and len(found.rows) > 0.6 * len(data[0])
    for row, question, context, answers in zip(found.rows, found.questions, found.contexts, found.answers, strict=True):
        assert question == data[0][row] and answers == data[2][row]
        added = context.removeprefix(data[1][row] + " ")
        assert added != context and added.endswith(".") and not added[0].islower()
        assert not any(answer.text.lower() in added.lower() for answer in answers)
        assert all(context[answer.start :].startswith(answer.text) for answer in answers)


def test_a_distractor_replaces_names_numbers_and_the_question_word():
    questions = ["When did Ann Lee win 3 races in 1920?", "What is it?", "Name a river."]
    found = add_distractors(questions, ["c"] * 3, [["1920"], ["x"], ["y"]])
    assert found.rows == [0]
    form = r"c (In 1743|In March 1868|On a Tuesday in 1991) did [A-Z][\w ]+ win \d races in 19\d\d\."
    assert re.fullmatch(form, found.contexts[0]) and not re.search("Ann|Lee| 3 |1920", found.contexts[0])
    assert add_distractors(questions, ["c"] * 3, [["win"], [], []]).rows == []  # No draw avoids this answer.


# === Overlap ===


def test_every_word_of_a_hypothesis_is_in_its_premise_and_labels_are_balanced():
    pairs = overlap_pairs(600)
    assert all(len(column) == 600 for column in pairs) and pairs == overlap_pairs(600) != overlap_pairs(600, seed=1)
    assert pairs.labels.count("entailment") == 300 and pairs.heuristics.count("constituent") == 200
    for premise, hypothesis, heuristic in zip(pairs.premises, pairs.hypotheses, pairs.heuristics):
        premise, words = (re.findall(r"\w+", text.lower()) for text in (premise, hypothesis))
        assert set(words) <= set(premise)
        if heuristic == "constituent":
            assert " ".join(words) in " ".join(premise)
    assert len({*zip(pairs.premises, pairs.hypotheses)}) == 600
    assert [len(column) for column in overlap_pairs(13)] == [13] * 4 and len(overlap_pairs(4800).labels) == 4800


# === Curves ===


def test_a_curve_counts_right_answers_after_each_change():
    def model(texts):
        return ["yes" if "what" in text else "no" for text in texts]

    x, y = ["what is it", "it is what", "is it"], ["yes", "yes", "no"]
    curve = perturbation_curve(model, x, y, kinds=["drop"], rates=[1.0], against=lambda texts: ["no"] * len(texts))
    assert [(row["change"], row["rate"], row["cases"]) for row in curve.rows] == [("none", 0.0, 3), ("drop", 1.0, 3)]
    assert [row["accuracy"] for row in curve.rows] == pytest.approx([1.0, 1 / 3])
    assert [row["difference"] for row in curve.rows] == pytest.approx([2 / 3, 0.0])
    upper = perturbation_curve(model, x, y, kinds={"upper": lambda x, rate, seed: [text.upper() for text in x]})
    assert [row["accuracy"] for row in upper.rows] == pytest.approx([1.0, *[1 / 3] * 3])
    assert str(upper).splitlines()[3].split()[:4] == ["upper", "0.1", "3", "0.333"]


def test_tasks_are_scored_by_their_labels_words_and_answers():
    model = classifier(label_names=["negative", "positive"], num_classes=2)
    texts = ["good bad", "a b c", "bad"]
    right = (model.predict_proba(texts)[:, 1] > 0.5).astype(int)
    for labels in (right, model.predict_labels(texts)):
        assert perturbation_curve(model, texts, labels, kinds=["drop"], rates=[1.0]).rows[0]["accuracy"] == 1
    keras.utils.set_random_seed(0)
    tagger = TokenClassifier(encoder(), preprocessor(), label_names=["X", "Y"])
    tags = [[label for _, label in words] for words in tagger.predict_words([["a", "b", "good"]])]
    tags[0][0] = "Y" if tags[0][0] == "X" else "X"
    row = perturbation_curve(tagger, [["a", "b", "good"]], tags, kinds=["drop"], rates=[1.0]).rows[0]
    assert (row["cases"], row["accuracy"]) == (3, pytest.approx(2 / 3))
    reader = SpanExtractor(encoder(), preprocessor())
    x = (["good"], ["good bad good"])
    answers = [[found["text"].upper()] for found in reader.answer(*x)]
    curve = perturbation_curve(reader, x, answers, kinds=["middle"], rates=[0.5])
    assert curve.rows[0]["accuracy"] == 1


def test_a_curve_is_drawn():
    pytest.importorskip("matplotlib")
    curve = perturbation_curve(lambda x: x, ["aabb"], ["aabb"], against=lambda x: x)
    assert len(curve.plot().axes[0].lines) == 8


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: typos("a", 0.1, kind="caps"), "`kind` must be one of ('swap', 'keyboard', 'drop', 'middle')"),
    (lambda: add_distractors(["a"], [], [[]]), "questions=1, contexts=0, answers=1"),
    (lambda: perturbation_curve(len, ["a"], []), "one right answer for each row. Received: rows=1, answers=0"),
    (lambda: perturbation_curve(len, ["a"], ["b"], kinds=["caps"]), "`kinds` must be one of"),
    (lambda: perturbation_curve(classifier(), ["a"], ["x"]), "The model must have each label. ... label='x'"),
)
