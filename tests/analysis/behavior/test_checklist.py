"""Templates are filled, and failures of behavioral tests are counted by hand, with functions and tiny tasks."""

import keras
import numpy as np
import pytest

from keras_transfer.analysis import Direction, Invariance, MinimumFunctionality, check_behavior, fill_templates
from keras_transfer.tasks import SpanExtractor, TokenClassifier
from tests.errors import check_errors
from tests.tasks.tiny import classifier, encoder, preprocessor


def last_word(texts):
    return [text.split()[-1] for text in texts]


# === Templates ===


def test_a_template_has_all_combinations_of_its_values():
    found = fill_templates("{a} {b}{a}", a=["x", "y"], b=[1, 2])
    assert found == ["x 1x", "x 2x", "y 1y", "y 2y"]
    assert fill_templates("no fields") == ["no fields"]


def test_numbered_fields_have_different_values_of_one_list():
    before, after = fill_templates(("{name1} met Ann", "{name2} met {name1}"), name=["Bob", "Eve"])
    assert before == ["Bob met Ann", "Eve met Ann"] and after == ["Eve met Bob", "Bob met Eve"]


def test_combinations_are_drawn_by_seed_without_repetition():
    found = [fill_templates("{a1} {a2}", samples=20, seed=seed, a=list("abcdefgh")) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2] and len(set(found[0])) == 20
    assert all(text[0] != text[2] for text in found[0])
    assert len(fill_templates("{a}{b}{c}", samples=5, **{name: range(1000) for name in "abc"})) == 5
    few = fill_templates("{a1}{a2}{a3}{a4}{a5}{a6}{a7}{a8}", samples=50, a=list("abcdefgh"))
    assert len({*few}) == 50 and {"".join(sorted(text)) for text in few} == {"abcdefgh"}
    assert fill_templates("{a1}{a2}", samples=9, a=["x", "y"]) == ["xy", "yx"]  # There are only two.


# === Tests of a function ===


def test_failures_are_counted_and_shown():
    tests = [
        MinimumFunctionality("known", ["a b", "a c"], ["b", "b"]),
        MinimumFunctionality("one answer", ["a b"] * 3, "b"),
        Invariance("case", ["a b", "a c"], ["A b", "A d"]),
        Direction("order", ["a a", "b b"], ["a b", "b a"], function=lambda first, last: last >= first),
    ]
    report = check_behavior(last_word, tests)
    assert [(row["cases"], row["failures"], row["failure rate"]) for row in report.rows] == [
        (2, 1, 0.5),
        (3, 0, 0.0),
        (2, 1, 0.5),
        (2, 1, 0.5),
    ]
    assert report.rows[1]["low"] == 0 and 0 < report.rows[1]["high"] < 1
    assert report.rows[0]["examples"] == [("a c", None, "b", "c", None)]
    assert report.rows[2]["examples"] == [("a c", "A d", None, "c", "d")]
    assert "known: 'a c' -> 'c', expected 'b'" in str(report) and "'A d' -> 'd'" in str(report)


def test_another_model_is_the_state_before():
    test = MinimumFunctionality("known", ["a b", "a c", "a d"], ["b", "c", "a"])
    [row] = check_behavior(last_word, [test], against=lambda texts: ["a"] * len(texts)).rows
    assert row["failure rate"] == pytest.approx(1 / 3) and row["before"] == pytest.approx(2 / 3)
    assert row["difference"] == pytest.approx(-1 / 3) and row["difference_low"] < -1 / 3 < row["difference_high"]


# === Tasks ===


def test_classifiers_answer_with_labels_and_probabilities():
    model = classifier(label_names=["negative", "positive"], num_classes=2)
    texts, changed = ["a b", "good c d", "e"], ["a b good", "bad c d", "e bad"]
    labels = model.predict_labels(texts)
    before, after = (model.predict_proba(x)[:, 1] for x in (texts, changed))
    report = check_behavior(
        model,
        [
            MinimumFunctionality("labels", texts, labels),
            Invariance("pairs", (texts, changed), (texts, changed)),
            Direction("more", texts, changed, more="positive"),
            Direction("less", texts, changed, less="positive"),
        ],
    )
    wrong = [0, 0, int((after < before).sum()), int((after > before).sum())]
    assert [row["failures"] for row in report.rows] == wrong and sum(wrong) == 3
    assert report.rows[2]["examples"][0].answer == pytest.approx(before[after < before][0])


def tagger():
    keras.utils.set_random_seed(0)
    return TokenClassifier(encoder(), preprocessor(), label_names=["X", "Y"])


def reader():
    keras.utils.set_random_seed(0)
    return SpanExtractor(encoder(), preprocessor())


def test_all_words_of_a_sentence_must_be_right():
    sentences = [["a", "b"], ["good", "c", "d"], ["e"]]
    expected = [[label for _, label in words] for words in tagger().predict_words(sentences)]
    expected[1][2] = "Y" if expected[1][2] == "X" else "X"
    tests = [MinimumFunctionality("tags", sentences, expected), Invariance("same", sentences, sentences)]
    report = check_behavior(tagger(), tests)
    assert [example.x for example in report.rows[0]["examples"]] == [["good", "c", "d"]]
    assert report.rows[1]["failures"] == 0


def test_answers_are_right_by_exact_match_of_squad():
    x = (["a", "b", "a"], ["c d e", "f g h", "bad"])
    answers = [found["text"] for found in reader().answer(*x)]
    expected = [f"The {answers[0].upper()}!", "none", ["none", answers[2]]]
    report = check_behavior(reader(), [MinimumFunctionality("spans", x, expected), Invariance("same", x, x)])
    assert [example.x for example in report.rows[0]["examples"]] == [("b", "f g h")]
    assert report.rows[1]["failures"] == 0


def test_labels_may_be_names_positions_or_sets():
    texts = ["a b", "good c d", "e"]
    one = classifier(label_names=["negative", "positive"], num_classes=2)
    names = one.predict_labels(texts)
    positions = np.array([["negative", "positive"].index(name) for name in names])
    tests = [MinimumFunctionality("names", texts, names), MinimumFunctionality("positions", texts, positions)]
    tests += [MinimumFunctionality("wrong", texts, 1 - positions), MinimumFunctionality("one", texts, 1)]
    failures = [row["failures"] for row in check_behavior(one, tests).rows]
    assert failures == [0, 0, 3, int((positions == 0).sum())]
    several = classifier(label_names=["x", "y"], num_classes=2, multi_label=True)
    several.thresholds = [0.0, 0.0]
    rows = check_behavior(several, [MinimumFunctionality("sets", ["a", "b"], [["y", "x"], ["x"]])]).rows
    assert [row["failures"] for row in rows] == [1]


named = {"label_names": ["negative", "positive"], "num_classes": 2}
test_a_mistake_is_one_clear_error = check_errors(
    (lambda: check_behavior(classifier(), [MinimumFunctionality("a", ["b"], 2)]), "2"),
    (lambda: check_behavior(tagger(), [MinimumFunctionality("a", [["b"]], [["Z"]])]), "Received: 'Z'"),
    (lambda: fill_templates("{a}", b=["x"]), "must have a list of values. ... Received: field='a', lists=['b']"),
    (lambda: fill_templates("{a}", a=["x"], b=["y"]), "must have a field in the template. Received: unused='b'"),
    (lambda: fill_templates("{a}", a=[]), "a value for each of its fields, 1 or more. Received: a=[]"),
    (lambda: fill_templates("{a}", a="xy"), "Received: a='xy'"),
    (lambda: Direction("d", [], []), "Exactly one of `more`, `less` and `function`"),
    (lambda: Direction("d", [], [], more="a", less="a"), "Received: given=['more', 'less']"),
    (lambda: fill_templates("{}", a=["x"]), "must have a list of values. Received: field=''"),
    (lambda: fill_templates("{a1} {a2}", a=["x"]), "a value for each of its fields, 2 or more. Received: a=['x']"),
    (lambda: check_behavior(last_word, [Invariance("a", ["b"], ["c", "d"])]), "test='a', rows=(1, 1, 2)"),
    (lambda: check_behavior(last_word, [Invariance("a", ["b"], [])]), "at least one. Received: rows=[0]"),
    (lambda: check_behavior(last_word, [MinimumFunctionality("a", "b c", "c")]), "Data must be a list"),
    (lambda: check_behavior(last_word, [Invariance("a", (["b"], []), ["c"])]), "Received: rows=[1, 0]"),
    (lambda: check_behavior(last_word, [MinimumFunctionality("a", ["b"], ["b", "c"])]), "rows=(1, 2, 1)"),
    (lambda: check_behavior(reader(), [MinimumFunctionality("a", ["b"], "b")]), "a tuple of questions and contexts"),
    (lambda: check_behavior(tagger(), [MinimumFunctionality("a", [["b"]], [["X", "Y"]])]), "words=1, labels=2"),
    (
        lambda: check_behavior(classifier(**named), [MinimumFunctionality("a", ["b"], "positve")]),
        "positve",
    ),
    (lambda: check_behavior(classifier(**named), [Direction("a", ["b"], ["c"], more="x")]), "Received: label='x'"),
    (
        lambda: check_behavior(last_word, [Direction("a", ["b"], ["c"], more="x")]),
        "must be a label of a `TextClassifier`",
    ),
    (lambda: check_behavior(encoder(), [Invariance("a", ["b"], ["c"])]), "must be a `TextClassifier`"),
    (lambda: check_behavior(lambda x: [1], [Invariance("a", ["b", "c"], ["c", "d"])]), "answers=1, rows=2"),
)
