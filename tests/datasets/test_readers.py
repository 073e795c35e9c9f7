"""Readers return texts, labels and label names, and name the first invalid line."""

import pytest

from keras_transfer.datasets import load_demo_questions, load_trec6

CLASSES = ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]


def write_trec(folder, train, test="LOC:city Where ?\n"):
    for name, text in zip(("train_5500.label", "TREC_10.label"), (train, test)):
        (folder / name).write_text(text, "iso-8859-1")


def test_a_fifth_of_the_packaged_questions_is_for_test_in_six_balanced_classes():
    data = load_demo_questions()
    assert data.label_names == CLASSES
    assert (len(data.train.texts), len(data.test.texts)) == (576, 144)
    assert [data.test.labels.count(i) for i in range(6)] == [24] * 6
    assert [data.train.labels.count(i) for i in range(6)] == [96] * 6


def test_trec_6_has_its_published_sizes(data_dir):
    data = load_trec6(data_dir("trec6"))
    assert (len(data.train.texts), len(data.test.texts)) == (5452, 500)
    assert data.label_names == CLASSES
    assert data.train.texts[0] == "How did serfdom develop in and then leave Russia ?"
    assert data.label_names[data.train.labels[0]] == "DESC"


def test_trec_is_read_as_latin_1(tmp_path):
    write_trec(tmp_path, "LOC:city Where is Curaçao ?\n")
    assert load_trec6(tmp_path).train.texts == ["Where is Curaçao ?"]


def test_a_missing_file_an_invalid_line_and_a_label_in_the_test_part_only_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train_5500.label. Get .*cogcomp.* Received: .* with "):
        load_trec6(tmp_path)
    write_trec(tmp_path, "LOC:city Where ?\nno label here\n")
    with pytest.raises(ValueError, match="line 2: Expected 'COARSE:fine question'. Received: 'no label here'"):
        load_trec6(tmp_path)
    write_trec(tmp_path, "LOC:city Where ?\n", "HUM:ind Who ?\n")
    with pytest.raises(ValueError, match=r"must occur in the training data.* Received: labels=\['HUM'\]"):
        load_trec6(tmp_path)
