"""Slices of a report: by length, by words, by functions of the user's, and by arrays."""

import numpy as np
import pytest

from keras_transfer.analysis import ClassificationReport, MultiLabelReport
from keras_transfer.analysis.page import slices_chart
from tests.errors import check_errors

TEXTS = ["Not good", "isn't bad at all", "a knot", "good good good good good good", "NEVER again, not ever"]


def slices_of(texts=TEXTS, **slices):
    count = len(texts[0] if isinstance(texts, tuple) else texts)
    logits = np.tile([2.0, -1.0], (count, 1))
    report = ClassificationReport(
        [0, 1] * (count // 2) + [0] * (count % 2), logits, texts=texts, slices=slices, resamples=2
    )
    return {part.name: part.rows.tolist() for part in report.slices}, report


def test_texts_are_divided_into_three_slices_by_their_number_of_words():
    assert slices_of()[0] == {"length 2": [0, 2], "length 4": [1, 4], "length 6": [3]}
    assert slices_of(["a", "b"])[0] == {}
    pairs = (["a", "a b", "a b c"], ["", "c", "d e f"])
    assert slices_of(pairs)[0] == {"length 1": [0], "length 3": [1], "length 6": [2]}


def test_a_word_is_found_as_a_whole_word_in_any_case():
    found = slices_of(negation=["not", "never"], one="good", apostrophe="isn't", punctuation="again,")[0]
    assert (found["negation"], found["one"], found["apostrophe"]) == ([0, 4], [0, 3], [1])
    assert found["punctuation"] == [4]


def test_a_function_returns_whether_a_text_belongs_or_the_name_of_its_group():
    found = slices_of(long=lambda text: len(text) > 10, first=lambda text: text[0] if text[0].islower() else None)[0]
    assert found["long"] == [1, 3, 4] and (found["first: a"], found["first: g"], found["first: i"]) == ([2], [3], [1])
    pairs = (["a", "b"], ["a", "c"])
    assert slices_of(pairs, same=lambda first, second: first == second)[0]["same"] == [0]


def test_an_array_gives_whether_each_row_belongs_or_its_group():
    found = slices_of(chosen=np.array([True, False, False, True, False]), source=np.array(list("xyxyx")))[0]
    assert (found["chosen"], found["source: x"], found["source: y"]) == ([0, 3], [0, 2, 4], [1, 3])


def test_missing_values_of_a_table_are_no_group():
    assert slices_of(source=np.array(["x", np.nan, "y", None, "x"], object))[0].keys() - slices_of()[0].keys() == {
        "source: x",
        "source: y",
    }


def test_each_slice_has_its_own_scores_and_one_without_rows_none():
    report = slices_of(first=np.array([True, True, False, False, False]), absent="zebra")[1]
    first, absent = report.slices[-2:]
    assert first.metrics["accuracy"].value == 0.5 and 0 < first.calibration_error < 1
    assert absent.metrics == {} and len(absent.rows) == 0
    assert "absent       0\n" in str(report)


def test_a_slice_of_one_row_says_too_little_to_be_marked():
    labels = [0, 1] * 20
    logits = np.eye(2)[np.where(np.arange(40) < 10, 0, labels)] * 4  # 35 of 40 are right
    slices = {"right": np.arange(40) == 39, "wrong": np.arange(40) == 1, "worse": np.arange(40) < 10}
    report = str(ClassificationReport(labels, logits, slices=slices))
    lines = {line.split()[0]: line for line in report.splitlines() if line.startswith(tuple(slices))}
    assert " 1.000 " in lines["right"] and "*" not in lines["right"]
    assert " 0.000 " in lines["wrong"] and "*" not in lines["wrong"]
    assert " 0.500 *" in lines["worse"]


def test_the_picture_has_the_interval_of_each_slice_and_marks_those_without_the_accuracy_of_all():
    pytest.importorskip("matplotlib")
    labels = np.array([0, 1] * 20)
    logits = np.eye(2)[np.where(np.arange(40) < 20, 0, labels)] * 4  # 30 of 40 are right
    slices = {"$first^": np.arange(40) < 10, "last": np.arange(40) >= 20, "none": np.zeros(40, bool)}
    report = ClassificationReport(labels, logits, slices=slices, resamples=2)
    figure = slices_chart(report)
    axes, found = figure.axes[0], {part.name: part.metrics["accuracy"] for part in report.slices[:2]}
    assert [label.get_text() for label in axes.get_yticklabels()] == list(found) == ["$first^", "last"]
    for container, (value, low, high) in zip(axes.containers, found.values(), strict=True):
        point, _, (line,) = container.lines
        assert point.get_xdata() == [value] and line.get_segments()[0][:, 0] == pytest.approx([low, high])
    colors = [container.lines[0].get_color() for container in axes.containers]
    assert colors[0] != colors[1] and found["last"].low > report.metrics["accuracy"].value
    figure.canvas.draw()  # The name of a slice is no formula.


test_another_definition_is_an_error = check_errors(
    (["not"], "`slices` must be a dict from names to words, functions or arrays. Received: slices=['not']"),
    ({"a": 3}, "`slices['a']` must be a word, a list of words, a function ", " Received: definition=3"),
    ({"a": []}, "Received: definition=[]"),
    ({"a": ""}, "Received: definition=''"),
    ({"a": ["not", " "]}, "Received: definition=['not', ' ']"),
    ({"length 2": "not"}, "must be unique. Received: name='length 2'"),
    ({"a": np.array([True])}, "must have a value for each row. Received: values=1, count=5"),
    call=lambda slices: ClassificationReport([0] * 5, np.eye(2)[[0] * 5] * 3, texts=TEXTS, slices=slices),
)


def test_a_function_that_returns_a_different_value_for_each_text_is_an_error():
    texts = [f"text {number}" for number in range(60)]
    with pytest.raises(ValueError, match="at most 50 different values.* Received: count=60, groups="):
        slices_of(texts, number=lambda text: text.split()[1])


def test_words_require_texts():
    with pytest.raises(ValueError, match="Words and functions require texts.* Received: name='negation'"):
        ClassificationReport([0, 1], [[3.0, 0.0], [0.0, 3.0]], slices={"negation": "not"})


def test_a_comparison_says_what_each_slice_has_gained_and_lost():
    labels, slices = np.arange(40) % 2, {"first": np.arange(40) < 10, "none": np.zeros(40, bool)}
    answers = {"before": np.where(np.arange(40) < 8, 1 - labels, labels), "after": labels.copy()}
    answers["after"][20] ^= 1  # The only row that is lost.
    before, after = (
        ClassificationReport(labels, np.eye(2)[found], from_logits=False, slices=slices, resamples=2)
        for found in answers.values()
    )
    found = after.compare_with(before)
    assert [row[:7] for row in found.rows] == [
        ["all rows", "40", "8", "1", "0.800", "0.975", "+0.175 *"],
        ["first", "10", "8", "0", "0.200", "1.000", "+0.800 *"],
        ["none", "0", "", "", "", "", ""],
    ]
    assert "* Its interval does not contain 0." in str(found)
    labels, rows = [["film"], ["fun"], []], [["film"], [], []]
    first, second = (
        MultiLabelReport(labels, each, label_names=["film", "fun"], resamples=2) for each in (rows, labels)
    )
    assert second.compare_with(first).rows[0][:5] == ["all rows", "3", "1", "0", "0.667"]
    with pytest.raises(ValueError, match="must be on the same rows"):
        after.compare_with(first)
