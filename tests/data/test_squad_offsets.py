"""The answers of SQuAD become positions in windows, and these become the same answers again."""

import json
import string

import numpy as np
import pytest

from keras_transfer.data.span_batching import answer_positions, answer_spans, windows_in_memory
from keras_transfer.tasks.span_extractor import best_spans
from keras_transfer.text import BertPreprocessor
from tests.samples import REFERENCES, WHOLE, sample

pytest.importorskip("tensorflow_text")

# The questions of which an answer begins or ends inside a token, by the file of the vocabulary.
INSIDE = json.loads((REFERENCES / "squad_inside_tokens.json").read_text())
INSIDE = INSIDE["questions"]


def answers_of_squad(data_dir):
    """Returns `(id, question, context, (text, start))` for each answer of a sample of the questions, or of all."""
    data = json.loads((data_dir("squad1.1") / "dev-v1.1.json").read_text("utf-8"))["data"]
    questions = [
        (part["context"], found) for article in data for part in article["paragraphs"] for found in part["qas"]
    ]
    assert len(questions) == 10_570
    rows = [
        (found["id"], found["question"], context, (answer["text"], answer["answer_start"]))
        for context, found in sample(questions, 40)
        for answer in found["answers"]
    ]
    assert not WHOLE or len(rows) == 34_726
    return rows


def read_back(preprocessor, questions, contexts, answers):
    """Returns where each answer begins and ends, as the first window that contains it says."""
    windows = windows_in_memory(preprocessor, questions, contexts, doc_stride=128)
    positions = answer_positions(windows, answer_spans(contexts, answers), answers)
    assert (positions[:, 0] <= positions[:, 1]).all()
    found = [None] * len(contexts)
    for row in reversed(np.flatnonzero(positions[:, 0] > 0)):
        first, last = positions[row]
        found[windows.example[row]] = int(windows.starts[row, first]), int(windows.ends[row, last])
    return found


@pytest.mark.parametrize("file", INSIDE)
@pytest.mark.report("The characters of an answer are off by a few places.", "squash-generation#22", "transformers#3804")
def test_every_answer_is_the_same_again_unless_it_begins_or_ends_inside_a_token(file, data_dir):
    preprocessor = BertPreprocessor(data_dir("vocabs") / file, 384, lowercase="uncased" in file)
    ids, questions, contexts, answers = map(list, zip(*answers_of_squad(data_dir)))
    different = set()
    for id, context, (text, start), (first, last) in zip(
        ids, contexts, answers, read_back(preprocessor, questions, contexts, answers), strict=True
    ):
        if context[first:last] != text:
            different.add(id)
            end = start + len(text)
            assert first <= start and last >= end
            assert not set(context[first:start] + context[end:last]) & set(string.whitespace + string.punctuation)
    assert different == set(ids) & set(INSIDE[file])


@pytest.mark.parity
@pytest.mark.parametrize(("length", "overlap"), [(384, 128), (128, 48)])
def test_windows_with_an_overlap_and_their_answers_are_those_of_transformers(length, overlap, data_dir):
    reason = "compares with Transformers: run `make test-parity`"
    transformers = pytest.importorskip("transformers", reason=reason, exc_type=ImportError)
    file = data_dir("vocabs") / "bert-base-uncased-vocab.txt"
    tokenizer = transformers.BertTokenizer(str(file))
    preprocessor = BertPreprocessor(file, length, lowercase=True)
    data = json.loads((data_dir("squad1.1") / "dev-v1.1.json").read_text("utf-8"))["data"]
    rows = [(part["context"], row["question"]) for each in data for part in each["paragraphs"] for row in part["qas"]]
    contexts, questions = map(list, zip(*rows[:: len(rows) // 200][:200]))

    windows = windows_in_memory(preprocessor, questions, contexts, overlap=overlap)
    encoded = tokenizer(
        questions,
        contexts,
        truncation="only_second",
        max_length=length,
        stride=overlap,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    lengths = windows.inputs["padding_mask"].sum(axis=1)
    ours = [row[:size].tolist() for row, size in zip(windows.inputs["token_ids"], lengths)]
    assert ours == encoded["input_ids"] and windows.example.tolist() == encoded["overflow_to_sample_mapping"]

    # The scripts of Transformers rank all pairs of a start and an end of a window in its context.
    logits = np.random.default_rng(0).normal(scale=3, size=(len(ours), 2, windows.starts.shape[1])).astype("float32")
    best = [(-np.inf, None)] * len(questions)
    for row, example in enumerate(windows.example):
        places = enumerate(zip(encoded.sequence_ids(row), encoded["offset_mapping"][row]))
        inside = {position: place for position, (part, place) in places if part == 1}
        for first, (start, _) in inside.items():
            for last in range(first, first + 30):
                if last in inside:
                    found = logits[row, 0, first] + logits[row, 1, last], (start, inside[last][1])
                    best[example] = max(best[example], found)
    found = best_spans(logits, windows, 1, 30)
    answers = list(zip(found["start"].numpy()[:, 0].tolist(), found["end"].numpy()[:, 0].tolist()))
    assert answers == [place for _, place in best]
