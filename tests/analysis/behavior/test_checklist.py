"""Templates are filled, and failures of behavioral tests are counted by hand, with functions and tiny tasks."""

import keras
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
    assert report.failures("known") == [("a c", None, "b", "c", None)]
    assert report.failures("case") == [("a c", "A d", None, "c", "d")]
    assert "known: 'a c' -> 'c', expected 'b'" in str(report) and "'A d' -> 'd'" in str(report)


def test_numbers_may_change_within_a_tolerance():
    def lengths(texts):
        return [len(text) for text in texts]

    report = check_behavior(lengths, [Invariance("length", ["ab", "ab"], ["abc", "abcd"], tolerance=1)])
    assert [failure.answer_after for failure in report.failures("length")] == [4]


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
    assert report.failures("more")[0].answer == pytest.approx(before[after < before][0])


def test_taggers_are_compared_word_by_word_and_answers_by_their_text():
    keras.utils.set_random_seed(0)
    tagger = TokenClassifier(encoder(), preprocessor(), label_names=["X", "Y"])
    sentences = [["a", "b"], ["good", "c", "d"]]
    expected = [[label for _, label in words] for words in tagger.predict_words(sentences)]
    expected[1] = ["Y" if label == "X" else "X" for label in expected[1]]
    report = check_behavior(tagger, [MinimumFunctionality("tags", sentences, expected)])
    assert [failure.x for failure in report.failures("tags")] == [["good", "c", "d"]]
    reader = SpanExtractor(encoder(), preprocessor())
    x = (["a", "b"], ["c d e", "f g h"])
    answers = [found["text"] for found in reader.answer(*x)]
    report = check_behavior(reader, [MinimumFunctionality("spans", x, answers[:1] + ["none"])])
    assert [failure.x for failure in report.failures("spans")] == [("b", "f g h")]


named = {"label_names": ["negative", "positive"], "num_classes": 2}
test_a_mistake_is_one_clear_error = check_errors(
    (lambda: fill_templates("{a}", b=["x"]), "must have a list of values. ... Received: field='a', lists=['b']"),
    (lambda: fill_templates("{a}", a=["x"], b=["y"]), "must have a field in the template. Received: unused=['b']"),
    (lambda: fill_templates("{a}", a=[]), "`a` must be a list of at least one value"),
    (lambda: fill_templates("{a}", a="xy"), "`a` must be a list of at least one value"),
    (lambda: Direction("d", [], []), "Exactly one of `more`, `less` and `function`"),
    (lambda: Direction("d", [], [], more="a", less="a"), "Received: given=['more', 'less']"),
    (lambda: check_behavior(last_word, []), "different names, and there must be one"),
    (lambda: check_behavior(last_word, [Invariance("a", ["b"], [])]), "test='a', rows=[1, 0]"),
    (lambda: check_behavior(last_word, [Invariance("a", [], [])]), "at least one. Received: test='a'"),
    (lambda: check_behavior(last_word, [MinimumFunctionality("a", ["b"], ["b", "c"])]), "test='a', rows=[1, 2]"),
    (lambda: check_behavior(last_word, [Invariance("a", ["b"], ["c"])] * 2), "names=['a', 'a']"),
    (
        lambda: check_behavior(classifier(**named), [MinimumFunctionality("a", ["b"], "positve")]),
        "Did you mean 'positive'? Received: label='positve'",
    ),
    (lambda: check_behavior(classifier(**named), [Direction("a", ["b"], ["c"], more="x")]), "Received: label='x'"),
    (
        lambda: check_behavior(last_word, [Direction("a", ["b"], ["c"], more="x")]),
        "require a model with `predict_proba`",
    ),
    (lambda: check_behavior(encoder(), [Invariance("a", ["b"], ["c"])]), "must be a `TextClassifier`"),
    (lambda: check_behavior(lambda x: [1], [Invariance("a", "bc", "cd")]), "answers=1, rows=2"),
    (lambda: check_behavior(last_word, [Invariance("a", ["b"], ["c"])]).failures("b"), "There is no such test"),
)
