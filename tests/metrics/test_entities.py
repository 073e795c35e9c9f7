"""Entities and their report equal those of seqeval, for well-formed and other labels."""

import json
import random

import pytest

from keras_transfer.metrics import entities, entity_report
from tests.errors import check_errors
from tests.samples import REFERENCES

SEQEVAL = json.loads((REFERENCES / "seqeval.json").read_text("utf-8"))


def test_the_entities_equal_those_of_seqeval_for_any_sequence_of_labels():
    assert len(SEQEVAL["sentences"]) == 300
    for sentence in SEQEVAL["sentences"]:
        labels = sentence["labels"].split()
        assert [list(entity) for entity in entities(labels)] == sentence["entities"], labels


def test_the_report_equals_that_of_seqeval():
    assert len(SEQEVAL["documents"]) == 60
    for document in SEQEVAL["documents"]:
        report = entity_report(*([text.split() for text in document[part]] for part in ("true", "predicted")))
        assert list(report) == list(document["report"])
        for name, row in document["report"].items():
            assert report[name] == pytest.approx(row, abs=1e-12), name


@pytest.mark.filterwarnings("ignore")
def test_entities_and_report_equal_those_of_seqeval_for_1000_random_documents():
    pytest.importorskip("seqeval", reason="needs seqeval: pip install seqeval")
    from seqeval.metrics.sequence_labeling import get_entities

    from tests.references import make_seqeval

    random.seed(1)
    for case in range(1000):
        true, predicted = make_seqeval.pair(list(make_seqeval.SCHEMES.values())[case % 3])
        assert entities(true[0]) == [(kind, start, end + 1) for kind, start, end in get_entities(true[0])]
        if any(map(get_entities, true + predicted)):
            for name, row in make_seqeval.report(true, predicted).items():
                assert entity_report(true, predicted)[name] == pytest.approx(row, abs=1e-12), (true, predicted)


@pytest.mark.parametrize(
    "labels, expected",
    [
        ("B-PER I-PER O I-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("I-PER I-LOC B-LOC", [("PER", 0, 1), ("LOC", 1, 2), ("LOC", 2, 3)]),
        ("B-A I-A E-A I-A S-A E-A", [("A", 0, 3), ("A", 3, 4), ("A", 4, 5), ("A", 5, 6)]),
        ("B-geo-loc I-geo-loc", [("geo-loc", 0, 2)]),
        ("B I- O S", [("_", 0, 2), ("_", 3, 4)]),
        ("O O", []),
        ("", []),
    ],
)
def test_entities_end_after_their_last_word(labels, expected):
    assert entities(labels.split()) == expected


def test_a_report_without_entities_contains_zeros():
    zeros = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    assert entity_report([["O"], []], [["O"], []]) == entity_report([], []) == {"micro": zeros, "macro": zeros}


def test_an_entity_at_the_same_place_in_another_sentence_does_not_count():
    report = entity_report([["B-A", "O"], ["O", "O"]], [["O", "O"], ["B-A", "O"]])
    assert report["micro"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}


@pytest.mark.parametrize("label", ["NOUN", "B_PER", "b-PER", "O-PER", "-PER", 3])
def test_a_label_of_another_form_is_an_error(label):
    with pytest.raises(
        ValueError, match=f"O, or B, I, E or S, optionally followed by a dash.*Received: label={label!r}"
    ):
        entities(["O", label])


test_labels_that_are_not_a_list_are_an_error = check_errors(
    (lambda: entities("BIO"), "Labels must be a list of strings. Received: labels='BIO'"),
    (lambda: entity_report(["O"], ["O"]), "Labels must be a list of strings. Received: labels='O'"),
)


test_lengths_that_differ_are_an_error_that_names_the_sentence = check_errors(
    (lambda: entity_report([["O"], ["O"]], [["O"]]), "sentences must be equal. Received: y_true=2, y_pred=1"),
    (lambda: entity_report([["O"], ["O", "B-A"]], [["O"], ["O"]]), "Received: 2 and 1 in sentence 1"),
)


def test_types_with_the_names_of_the_averages_are_an_error():
    with pytest.raises(ValueError, match=r"cannot be named 'micro' or 'macro'.* Received: \['micro'\]"):
        entity_report([["B-micro"]], [["O"]])
