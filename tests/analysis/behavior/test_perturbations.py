"""Typing errors keep their rate and the ends of words, distractors contain no answer, and labels follow templates."""

import re

import keras
import numpy as np
import pytest

from keras_transfer.analysis import add_distractors, check_behavior, overlap_tests, perturbation_curve, typos
from keras_transfer.datasets import load_squad
from keras_transfer.tasks import SpanExtractor, TokenClassifier
from tests.errors import check_errors
from tests.tasks.tiny import classifier, encoder, preprocessor

TEXT = "The quick brown foxes jumped over the lazy sleeping dogs, and Their naïve owners walked 1234 miles."
LETTERS = re.compile(r"[^\W\d_]+")


# === Typing errors ===


@pytest.mark.parametrize("kind", ["swap", "middle", "random", "keyboard"])
def test_each_word_has_an_error_of_its_kind(kind):
    changed = typos(TEXT, 1.0, kind=kind)
    assert LETTERS.sub("", changed) == LETTERS.sub("", TEXT)
    for word, other in zip(LETTERS.findall(TEXT), LETTERS.findall(changed), strict=True):
        places = [place for place, both in enumerate(zip(word, other, strict=True)) if both[0] != both[1]]
        if kind == "keyboard":
            assert len(places) == 1 and word[places[0]].isupper() == other[places[0]].isupper()
            continue
        assert sorted(word) == sorted(other)
        if kind != "random":
            assert (word[0], word[-1]) == (other[0], other[-1]) and (len(word) >= 4 or word == other)
        if kind == "swap" and len(word) >= 4:
            assert len(places) == 2 and places[1] == places[0] + 1
    assert kind != "random" or any(word[0] != other[0] for word, other in zip(TEXT.split(), changed.split()))


def test_keys_are_beside_those_that_they_replace():
    found = {typos("g", 1.0, kind="keyboard", seed=seed) for seed in range(60)}
    assert found == set("ftyhbv") and typos("語", 1.0, kind="keyboard") == "語"


def test_the_rate_is_the_fraction_of_words_that_change():
    text = "word " * 4000
    changed = typos(text, 0.3).split()
    assert np.mean([word != "word" for word in changed]) == pytest.approx(0.3, abs=0.03)
    assert typos(text, 0.0) == text and typos(text, 0.3, seed=1) == typos(text, 0.3, seed=1) != typos(text, 0.3)


def test_columns_and_lists_of_words_keep_their_form():
    assert typos((["abab"], [["abab", "c"]]), 1.0, kind="swap") in [(["aabb"], [["aabb", "c"]])]


# === Distractors ===


def test_distractors_contain_no_answer_and_say_something_else(data_dir):
    data = load_squad(next(data_dir("squad1.1").glob("*dev*")))
    data = [column[::50] for column in (data.questions, data.contexts, data.answers)]
    found, changed = add_distractors(*data), 0
    for before, context, answers in zip(data[1], found, data[2], strict=True):
        added = context.removeprefix(before)
        assert not added or (added[0] == " " and added[-1] == "." and not added[1].islower())
        assert not any(answer.text.lower() in added.lower() for answer in answers)
        assert all(context[answer.start :].startswith(answer.text) for answer in answers)
        changed += bool(added)
    assert changed > 0.6 * len(found) > 120 and found == add_distractors(*data) != add_distractors(*data, seed=1)


def test_a_distractor_replaces_names_numbers_and_the_question_word():
    questions = ["When did Ann Lee win 3 races in 1920?", "What is it?", "Name a river.", "Whom did Ann see?"]
    found = add_distractors(questions, ["c"] * 4, [["1920"], ["x"], ["y"], []])
    form = r"c (In 1743|In March 1868|On a Tuesday in 1991) did [A-Z][\w ]+ win \d races in 192\d\."
    assert re.fullmatch(form, found[0]) and not re.search("Ann|Lee| 3 |1920", found[0])
    assert found[1:3] == ["c", "c"] and re.fullmatch(r"c (Dean|Clara|Martin) \w+ did [A-Z][\w ]+ see\.", found[3])
    assert add_distractors(questions[:1], ["c"], [["win"]]) == ["c"]  # No draw avoids this answer.


# === Overlap ===


def test_every_word_of_a_hypothesis_is_in_its_premise_and_labels_are_balanced():
    tests = overlap_tests(50)
    assert tests == overlap_tests(50) != overlap_tests(50, seed=1)
    assert [test.name for test in tests[:3]] == [
        "lexical overlap, entailment",
        "lexical overlap, non-entailment",
        "subsequence, entailment",
    ]
    assert [test.expected for test in tests] == ["entailment", "non-entailment"] * 3
    for test in tests:
        pairs = [[re.findall(r"\w+", text.lower()) for text in pair] for pair in zip(*test.x, strict=True)]
        assert len(pairs) == 100 and all(set(words) <= set(premise) for premise, words in pairs)
        if test.name.startswith("constituent"):
            assert all(" ".join(words) in " ".join(premise) for premise, words in pairs)
    assert len({pair for test in tests for pair in zip(*test.x)}) == 600 and len(overlap_tests(400)[0].x[0]) == 800
    always = check_behavior(lambda x: ["entailment"] * len(x[0]), tests)
    assert [row["failure rate"] for row in always.rows] == [0, 1] * 3


# === Curves ===


def test_a_curve_counts_right_answers_after_each_change():
    def model(texts):
        return ["yes" if "what" in text else "no" for text in texts]

    x, y = ["what is it", "it is what", "is it"], ["yes", "yes", "no"]
    curve = perturbation_curve(model, x, y, kinds=["swap"], rates=[1.0], against=lambda texts: ["no"] * len(texts))
    assert [(row["change"], row["rate"], row["cases"]) for row in curve.rows] == [("none", 0.0, 3), ("swap", 1.0, 3)]
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
        assert perturbation_curve(model, texts, labels, kinds=["random"], rates=[1.0]).rows[0]["accuracy"] == 1
    keras.utils.set_random_seed(0)
    tagger = TokenClassifier(encoder(), preprocessor(), label_names=["X", "Y"])
    tags = [[label for _, label in words] for words in tagger.predict_words([["a", "b", "good"]])]
    tags[0][0] = "Y" if tags[0][0] == "X" else "X"
    row = perturbation_curve(tagger, [["a", "b", "good"]], tags, kinds=["random"], rates=[1.0]).rows[0]
    assert (row["cases"], row["accuracy"]) == (3, pytest.approx(2 / 3))
    places = [np.array([["X", "Y"].index(tag) for tag in tags[0]])]
    assert perturbation_curve(tagger, [["a", "b", "good"]], places, rates=[1.0]).rows[0] == row
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
    (lambda: typos("a", 0.1, kind="caps"), "`kind` must be one of ('swap', 'middle', 'random', 'keyboard')"),
    (lambda: add_distractors(["a"], [], [[]]), "rows=[1, 0, 1]"),
    (lambda: perturbation_curve(len, ["a"], []), "one right answer for each row. Received: rows=1, answers=0"),
    (lambda: perturbation_curve(len, [], []), "at least one. Received: rows=[0]"),
    (lambda: perturbation_curve(lambda x: x, ["a"], ["b"], kinds=["caps"]), "`kind` must be one of"),
    (lambda: perturbation_curve(classifier(label_names=["x", "y"]), ["a"], ["z"]), "z"),
)
