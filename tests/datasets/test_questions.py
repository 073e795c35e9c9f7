"""The hand-written questions are balanced, unique, and not in TREC-6."""

import functools
import math
import re
from collections import Counter, defaultdict
from importlib.resources import files
from itertools import pairwise

LABELS = {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}
NEAR = 0.75


def read_rows():
    text = (files("keras_transfer.datasets") / "questions.tsv").read_text(encoding="utf-8")
    header, *lines = text.splitlines()
    assert header == "split\tlabel\tquestion"
    return [tuple(line.split("\t")) for line in lines]


def read_trec(data_dir):
    paths = [data_dir("trec6") / name for name in ("train_5500.label", "TREC_10.label")]
    lines = [line for path in paths for line in path.read_text("iso-8859-1").splitlines()]
    return [line.split(" ", 1)[1] for line in lines]


def normalize(question):
    return "".join(character for character in question.lower() if character.isalnum())


@functools.cache
def words(question):
    return frozenset(re.findall(r"[^\W_]+", question.lower()))


def near_duplicates(questions, others):
    by_word = defaultdict(list)
    for other in others:
        for word in words(other):
            by_word[word].append(other)
    found = []
    for question in questions:
        mine = words(question)
        # A near duplicate lacks few of the words, so that it has at least one of these, the rarest.
        rarest = sorted(mine, key=lambda word: len(by_word[word]))[: len(mine) - math.ceil(NEAR * len(mine)) + 1]
        for other in dict.fromkeys(other for word in rarest for other in by_word[word]):
            theirs = words(other)
            if len(mine & theirs) >= NEAR * len(mine | theirs):
                found.append((question, other))
    return found


def test_near_duplicates_are_found():
    question, near = "Who wrote the play Hamlet?", ["Who wrote the play Hamlet", "who wrote the play hamlet first?"]
    assert near_duplicates([question], [*near, "What did Hamlet say?"]) == [(question, other) for other in near]


def test_every_row_has_a_split_a_label_and_a_complete_question():
    for row in read_rows():
        split, label, question = row
        assert split in {"train", "test"}, row
        assert label in LABELS, row
        assert question == question.strip() and question[-1:] in {"?", "."}, row
        assert 4 <= len(question.split()) <= 25, row


def test_there_are_at_least_600_questions_in_balanced_classes():
    rows = read_rows()
    counts = Counter(label for _, label, _ in rows)
    assert len(rows) >= 600
    assert set(counts) == LABELS
    assert len(set(counts.values())) == 1


def test_exactly_a_fifth_of_each_class_is_held_out():
    rows = read_rows()
    held_out = Counter(label for split, label, _ in rows if split == "test")
    assert {label: 5 * count for label, count in held_out.items()} == Counter(label for _, label, _ in rows)


def test_no_two_neighbouring_rows_share_a_class():
    labels = [label for _, label, _ in read_rows()]
    assert all(one != two for one, two in pairwise(labels))


def test_no_question_occurs_twice():
    counts = Counter(normalize(question) for _, _, question in read_rows())
    assert [text for text, count in counts.items() if count > 1] == []


def test_no_question_of_the_test_split_leaks_into_the_training_split():
    rows = read_rows()
    train = [question for split, _, question in rows if split == "train"]
    test = [question for split, _, question in rows if split == "test"]
    assert set(map(normalize, train)).isdisjoint(map(normalize, test))
    assert near_duplicates(test, train) == []


def test_no_question_is_taken_from_trec(data_dir):
    trec = {normalize(question) for question in read_trec(data_dir)}
    assert [question for _, _, question in read_rows() if normalize(question) in trec] == []


def test_no_question_is_a_near_duplicate_of_one_in_trec(data_dir):
    trec = read_trec(data_dir)
    assert near_duplicates([question for _, _, question in read_rows()], trec) == []
