"""The answers of SQuAD become positions in windows, and these become the same answers again."""

import json

import numpy as np
import pytest

from keras_transfer.text import BertPreprocessor
from keras_transfer.text.contexts import windows_in_memory
from keras_transfer.text.span_batching import answer_positions, answer_spans
from tests.samples import WHOLE, sample

pytest.importorskip("tensorflow_text")

# The questions, of which some answer is not found again: it begins or ends inside a token.
INSIDE = {"bert-base-uncased-vocab.txt": -1, "bert-base-cased-vocab.txt": -1}


@pytest.fixture(scope="module")
def squad(data_dir):
    """Returns a list of `(question, context, answers)`."""
    data = json.loads((data_dir("squad1.1") / "dev-v1.1.json").read_text("utf-8"))["data"]
    found = [
        (question["question"], paragraph["context"], [(a["text"], a["answer_start"]) for a in question["answers"]])
        for article in data
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    assert len(found) == 10_570
    return found


def read_back(preprocessor, questions, contexts, answers):
    """Returns the text that each answer becomes in the first window that contains it, and where it begins and ends."""
    windows = windows_in_memory(preprocessor, questions, contexts, stride=128)
    positions = answer_positions(windows, answer_spans(contexts, answers), answers)
    assert (np.diff(positions) >= 0).all()
    found = [None] * len(contexts)
    for row in reversed(np.flatnonzero(positions[:, 0] > 0)):
        first, last = positions[row]
        found[windows.example[row]] = int(windows.starts[row, first]), int(windows.ends[row, last])
    return found


@pytest.mark.parametrize("file", INSIDE)
def test_every_answer_is_the_same_again_unless_it_begins_or_ends_inside_a_token(file, squad, data_dir):
    preprocessor = BertPreprocessor(data_dir("vocabs") / file, 384, lowercase="uncased" in file)
    rows = [(question, context, answer) for question, context, answers in sample(squad, 40) for answer in answers]
    different = set()
    for (question, context, (text, start)), found in zip(
        rows, read_back(preprocessor, *map(list, zip(*rows))), strict=True
    ):
        assert found is not None, (text, context)
        if context[slice(*found)] != text:
            begin, end = found
            # Only letters and digits of the same word are added.
            assert begin <= start and end >= start + len(text)
            assert context[begin : start + 1].isalnum() and context[start + len(text) - 1 : end].isalnum()
            different.add((question, text))
    if WHOLE:
        assert len(rows) == 34_726
        assert len({question for question, _ in different}) == INSIDE[file]
