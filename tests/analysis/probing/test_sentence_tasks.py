"""Probing tasks of sentences have the labels that one finds by hand."""

from collections import Counter

import pytest

from keras_transfer.analysis import sentence_task
from keras_transfer.datasets import Trees, read_conllu, read_trees
from tests.errors import check_errors

# "We saw dogs and she slept ." and "Old dogs bark loudly at night"
TREES = Trees(
    [["We", "saw", "dogs", "and", "she", "slept", "."], ["Old", "dogs", "bark", "loudly", "at", "night"]],
    [[2, 0, 2, 6, 6, 2, 2], [2, 3, 0, 3, 6, 3]],
    [["nsubj", "root", "obj", "cc", "nsubj", "conj", "punct"], ["amod", "nsubj", "root", "advmod", "case", "obl"]],
    [["PRON", "VERB", "NOUN", "CCONJ", "PRON", "VERB", "PUNCT"], ["ADJ", "NOUN", "VERB", "ADV", "ADP", "NOUN"]],
)
FEATURES = [
    ["Number=Plur", "Tense=Past|VerbForm=Fin", "Number=Plur", "_", "Number=Sing", "Tense=Past|VerbForm=Fin", "_"],
    ["_", "Number=Plur", "Tense=Pres|VerbForm=Fin", "_", "_", "Number=Sing"],
]


@pytest.mark.parametrize(
    "name, labels",
    {
        "length": ["5-8", "5-8"],
        "tree_depth": ["2", "2"],
        "tense": ["Past", "Pres"],
        "subject_number": ["Plur", "Plur"],
        "object_number": ["Plur"],
    }.items(),
)
def test_labels_of_sentences(name, labels):
    found = sentence_task(name, TREES, features=FEATURES)
    assert found.labels == labels and found.texts[0] == "We saw dogs and she slept ."


def made(name):
    """All forms of a task's sentences, over several seeds."""
    found = [sentence_task(name, TREES, seed=seed) for seed in range(40)]
    return {pair for each in found for pair in zip(*each)}


def test_exchanged_words_and_clauses():
    shifted = made("bigram_shift")
    assert ("saw We dogs and she slept .", "inverted") in shifted
    assert ("We saw dogs and she slept .", "original") in shifted
    assert not any(text.endswith(". slept") for text, _ in shifted) and len(shifted) == 2 + 5 + 5
    assert made("coordination_inversion") == {
        ("We saw dogs and she slept .", "original"),
        ("she slept and We saw dogs .", "inverted"),
    }


def test_a_replaced_word_has_the_same_tag():
    changed = {text for text, label in made("odd_word") if label == "changed"}
    assert "We bark dogs and she slept ." in changed and "Old night bark loudly at night" in changed
    assert not changed & {" ".join(words) for words in TREES.words}


def test_tasks_of_a_treebank(data_dir):
    path = data_dir("ud_english_ewt") / "en_ewt-ud-dev.conllu"
    trees, features = read_trees(path), read_conllu(path, field="feats").labels
    found = {
        name: Counter(sentence_task(name, trees, features=features).labels)
        for name in ("length", "word_content", "bigram_shift", "tense", "subject_number", "odd_word")
    }
    assert sorted(found["length"], key=lambda name: int(name.split("-")[0]))[0] == "5-8" and len(found["length"]) == 6
    assert len(found["word_content"]) == 30 and min(found["word_content"].values()) >= 3
    for name in ("bigram_shift", "odd_word"):
        shares = [count / sum(found[name].values()) for count in found[name].values()]
        assert max(shares) < 0.56 and len(shares) == 2
    assert set(found["tense"]) == {"Past", "Pres"} and set(found["subject_number"]) == {"Sing", "Plur"}


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: sentence_task("depth", TREES), "`name` must be one of"),
    (lambda: sentence_task("tense", TREES), "'tense' needs `features` of each word"),
    (lambda: sentence_task("tense", TREES, features=FEATURES[:1]), "needs `features` ... Received: features=1"),
    (
        lambda: sentence_task("length", TREES._replace(heads=[[0, 0, 2, 6, 6, 2, 2], TREES.heads[1]])),
        "must have one root",
    ),
    (lambda: sentence_task("word_content", TREES), "No sentence fits the task 'word_content'"),
)
