"""CoNLL-2003 is read as BIO labels from the official files, and from copies that have BIO labels already."""

import pytest

from keras_transfer.datasets import load_conll2003
from keras_transfer.metrics import entities

START = "-DOCSTART- -X- O O\n\n"
IOB1 = (
    "Ann NNP I-NP I-PER\nmet VBD I-VP O\nEve NNP I-NP I-PER\nLee NNP I-NP I-PER\nTom NNP B-NP B-PER\n. . O O\n\n"
    "Paris NNP I-NP I-LOC\nFC NNP I-NP I-ORG\n"
)
BIO = IOB1.replace("Ann NNP I-NP I-", "Ann NNP B-NP B-").replace("Eve NNP I-NP I-", "Eve NNP B-NP B-")
BIO = BIO.replace("I-LOC", "B-LOC").replace("I-ORG", "B-ORG")
LABELS = [["B-PER", "O", "B-PER", "I-PER", "B-PER", "O"], ["B-LOC", "B-ORG"]]
OFFICIAL = ("eng.train", "eng.testa", "eng.testb")


def write(folder, text, names=OFFICIAL):
    for name in names:
        (folder / name).write_text(text)


@pytest.mark.parametrize("text, names", [(IOB1, OFFICIAL), (BIO, ("train.txt", "valid.txt", "test.txt"))])
def test_entities_begin_with_b_whatever_scheme_the_file_has(tmp_path, text, names):
    write(tmp_path, START + text, names)
    data = load_conll2003(tmp_path)
    assert data.train.words == [["Ann", "met", "Eve", "Lee", "Tom", "."], ["Paris", "FC"]]
    assert data.train.labels == data.validation.labels == data.test.labels == LABELS
    assert entities(data.train.labels[0]) == [("PER", 0, 1), ("PER", 2, 4), ("PER", 4, 5)]


def test_label_names_of_entities_have_a_fixed_order(tmp_path):
    write(tmp_path, "Rain NN I-NP O\n")
    names = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]
    assert load_conll2003(tmp_path).label_names == names


def test_labels_may_be_parts_of_speech_or_chunks(tmp_path):
    write(tmp_path, START + IOB1)
    assert load_conll2003(tmp_path, field="pos").train.labels[1] == ["NNP", "NNP"]
    data = load_conll2003(tmp_path, field="chunk")
    assert data.train.labels == [["B-NP", "B-VP", "B-NP", "I-NP", "B-NP", "O"], ["B-NP", "I-NP"]]
    assert data.label_names == ["B-NP", "B-VP", "I-NP", "O"]


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "Ann NNP I-NP\n",
            "eng.train, line 1: Expected a word and its part of speech, .*`read_conll`. Received: 'Ann NNP I-NP'",
        ),
        ("Ann NNP I-NP I-PRE\n", r"eng.train, line 1: Expected an entity of the types .*'PER'.* Received: 'I-PRE'"),
        ("Ann NNP I-NP PER\n", "line 1: Expected O, B-TYPE or I-TYPE. Received: 'PER'"),
        (START, "Expected at least one sentence. Received: no words"),
    ],
)
def test_a_mistake_in_a_file_is_one_error(tmp_path, text, message):
    write(tmp_path, text)
    with pytest.raises(ValueError, match=message):
        load_conll2003(tmp_path)


def test_a_missing_file_is_an_error(tmp_path):
    write(tmp_path, IOB1, OFFICIAL[:2])
    with pytest.raises(FileNotFoundError, match=r"must contain eng.testb or test.txt. .*Reuters.* Received: "):
        load_conll2003(tmp_path)
