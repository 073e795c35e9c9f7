"""Analogies, judged similarities and neighbors in context, by hand and against gensim."""

from pathlib import Path

import numpy as np
import pytest

from keras_transfer.analysis import analogies, hidden_states, neighbors, word_similarity
from keras_transfer.analysis import word_tests as files
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.text import BertPreprocessor, WordPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

QUESTIONS = """: family
man king woman queen
king man queen woman
man king girl princess
: gram1-plural
cat cats dog dogs
cat cats Dog DOGS
cat cats dog dog
: missing
cat cats nowhere dogs
"""
TABLE = {
    "man": [1, 0, 0, 0],
    "king": [1, 1, 0, 0],
    "woman": [0, 0, 1, 0],
    "queen": [0, 1, 1, 0],
    "cat": [0, 0, 1, 1],
    "cats": [0, -1, 1, 1],
    "dog": [1, 0, 0, 1],
    "dogs": [1, -1, 0, 1],
    "DOG": [1, -1, 0, 1],
    "girl": [0, -1, 0, 0],
}
VECTORS = WordVectors(list(TABLE), np.array(list(TABLE.values()), "float32"))


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text(QUESTIONS)
    return path


def test_analogies_are_counted_by_section_and_kind(questions, monkeypatch):
    found = {row["section"]: row for row in analogies(VECTORS, questions).rows}
    counts = {name: (row["correct"], row["answered"], row["missing"]) for name, row in found.items()}
    assert counts == {
        "family": (2, 2, 1),  # There is no vector for "princess".
        "gram1-plural": (2, 3, 0),  # A word of the question, in any case, is no answer.
        "missing": (0, 0, 1),
        "semantic": (2, 2, 2),
        "syntactic": (2, 3, 0),
        "all": (4, 5, 2),
    }
    assert found["all"]["low"] < found["all"]["accuracy"] == 0.8 < found["all"]["high"]
    monkeypatch.setattr(files, "_COSINES", 2 * len(TABLE))
    assert analogies(VECTORS, questions).rows[-1] == found["all"]


def test_only_the_most_frequent_words_take_part(questions):
    found = analogies(VECTORS, questions, most=4)
    assert [found.rows[-1][name] for name in ("accuracy", "answered", "missing")] == [1, 2, 5]
    nothing = analogies(WordVectors(["a"], [[1.0]]), questions)
    assert np.isnan(nothing.rows[-1]["accuracy"]) and "nan" not in str(nothing)


def test_cosines_are_compared_with_judgments_by_rank(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("# Word 1\tWord 2\tmean\nman\tking\t9.5\nKing\tqueen\t7\ncat\tcats\t8\ndog\tcat\t3\nman\tx\t1\n")
    found = word_similarity(VECTORS, path)
    row = found.rows[0]
    # The cosines are 1 / sqrt(2), 1 / 2, 2 / sqrt(6) and 1 / 2, with the ranks 3, 1.5, 4 and 1.5.
    assert row["spearman"] == pytest.approx(np.corrcoef([4, 2, 3, 1], [3, 1.5, 4, 1.5])[0, 1])
    assert (row["pairs"], row["missing"]) == (4, 1) and "Without a vector: man x." in str(found)
    half = np.sqrt(1 + row["spearman"] ** 2 / 2) * 1.959964
    limits = np.tanh(np.arctanh(row["spearman"]) + np.array([-half, half]))
    assert (row["low"], row["high"]) == pytest.approx(tuple(limits))


@pytest.mark.parametrize(
    "text",
    [
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\nman\tking\tN\t9.5\t1\nking\tqueen\tN\t7\t2\ncat\tcats\tA\t8\t3\ndog\tcat\tV\t3\t4",
        "Word 1,Word 2,Human (mean)\nman,king,9.5\nking,queen,7\ncat,cats,8\ndog,cat,3\n",
        "man;king;9.5\nking;queen;7\ncat;cats;8\ndog;cat;3\n",
    ],
    ids=["SimLex-999", "WordSim-353", "RG-65"],
)
def test_the_official_files_are_read(tmp_path, text):
    (tmp_path / "file").write_text(text)
    rows = [("man", "king", 9.5), ("king", "queen", 7), ("cat", "cats", 8), ("dog", "cat", 3)]
    assert word_similarity(VECTORS, tmp_path / "file").rows == word_similarity(VECTORS, rows).rows


@pytest.mark.parity
def test_analogies_and_similarities_are_those_of_gensim():
    reason = "compares with gensim: pip install gensim"
    models = pytest.importorskip("gensim.models", reason=reason)
    from gensim.test.utils import datapath

    path, pairs = datapath("questions-words.txt"), datapath("wordsim353.tsv")
    lines = [line.split() for name in (path, pairs) for line in Path(name).read_text().splitlines() if line[0] != "#"]
    words = sorted({word for line in lines if line[0] != ":" for word in line if word.isalpha()})
    words = [word for row, word in enumerate(words) if row % 10]  # Some are missing.
    rows, random = {word: row for row, word in enumerate(words)}, np.random.default_rng(0)
    table = random.normal(size=(len(words), 8)).astype("float32")
    noise = table.copy()
    for line in lines:
        if line[0] == ":":
            offset = random.normal(size=8)
        elif len(line) == 4 and {*line[:2]} <= rows.keys():
            table[rows[line[1]]] = table[rows[line[0]]] + offset + noise[rows[line[1]]] / 4
    keyed = models.KeyedVectors(8)
    keyed.add_vectors(words, table)
    score, sections = keyed.evaluate_word_analogies(path, restrict_vocab=len(words))
    found = analogies(WordVectors(words, table), path, most=len(words))
    counts = [(row["section"], row["correct"], row["answered"] - row["correct"]) for row in found.rows]
    expected = [(each["section"], len(each["correct"]), len(each["incorrect"])) for each in sections[:-1]]
    assert counts[:-3] == expected and found.rows[-1]["accuracy"] == pytest.approx(score) and 0.1 < score < 0.9
    _, spearman, missing = keyed.evaluate_word_pairs(pairs)
    row = word_similarity(WordVectors(words, table), pairs).rows[0]
    assert row["spearman"] == pytest.approx(spearman[0], abs=1e-6)
    assert row["missing"] / (row["missing"] + row["pairs"]) == pytest.approx(missing / 100)


@pytest.mark.core
def test_neighbors_are_the_words_whose_vectors_in_context_are_nearest():
    encoder, preprocessor = tiny.encoder(num_layers=2, initializer_range=0.5), tiny.preprocessor()
    sentences = [["a", "b", "c"], ["b"], ["d", "a", "good", "b"]]
    found = neighbors(encoder, ["c", "b", "a"], 1, sentences, k=3, preprocessor=preprocessor, verbose=0)
    states = hidden_states(encoder, [["c", "b", "a"], *sentences], preprocessor=preprocessor, dtype=None, verbose=0)
    own = states.sentence(0)["block_1"][1]
    expected = []
    for row, sentence in enumerate(sentences):
        vectors = states.sentence(row + 1)["block_1"]
        cosines = vectors @ own / np.linalg.norm(vectors, axis=1) / np.linalg.norm(own)
        expected += [(word, cosine, row, place) for place, (word, cosine) in enumerate(zip(sentence, cosines))]
    expected.sort(key=lambda each: -each[1])
    rows = [(row["word"], row["sentence"], row["position"]) for row in found.rows]
    assert rows == [(word, row, place) for word, _, row, place in expected[:3]]
    assert [row["cosine"] for row in found.rows] == pytest.approx([each[1] for each in expected[:3]], abs=1e-5)
    assert str(found).splitlines()[2].endswith(" ".join(sentences[rows[0][1]]))


def test_without_contexts_a_word_is_nearest_to_itself():
    words = ["a", "b", "c"]
    encoder = WordVectorEncoder.from_vectors(WordVectors(words, np.eye(3)))
    options = {"preprocessor": WordPreprocessor(words), "verbose": 0}
    found = neighbors(encoder, ["a", "b"], 1, [["b", "a"], ["c", "b"]], k=9, layers=["embeddings"], **options)
    assert [[*row.values()][:4] for row in found.rows[:2]] == [["b", 1, 0, 0], ["b", 1, 1, 1]] and len(found.rows) == 4


def written(text):
    def write(tmp_path):
        (tmp_path / "file").write_text(text)
        return tmp_path / "file"

    return write


test_a_mistake_is_one_clear_error = check_errors(
    (lambda tmp_path: analogies(VECTORS, written("a b c d")(tmp_path)), "file, line 1: A line must be ... 'a b c d'"),
    (lambda tmp_path: analogies(VECTORS, written(": x\na b c")(tmp_path)), "file, line 2: A line must be ... 'a b c'"),
    (lambda tmp_path: analogies(VECTORS, written("")(tmp_path)), "at least one section. Received: an empty file"),
    (
        lambda: word_similarity(VECTORS, [("man", "king")]),
        "A pair must be two words and a number. Received: ('man', 'king')",
    ),
    (
        lambda tmp_path: word_similarity(VECTORS, written("a\tb\t1\na\tb\tc")(tmp_path)),
        "line 2: A pair must be two words",
    ),
    (lambda: word_similarity(VECTORS, [("man", "x", 1)]), "four pairs ... known=0, without=['man x']"),
    (
        lambda: neighbors(tiny.encoder(), ["a"], 1, [["a"]], preprocessor=BertPreprocessor(tiny.VOCABULARY)),
        "`position` must be from 0 to 0 ... position=1",
    ),
    (lambda: neighbors(tiny.encoder(), "a text", 1, [["a"]]), "either texts or sentences that are lists of words"),
    (lambda: neighbors(tiny.encoder(), ["a"], 0, [["a"]], batchsize=3), TypeError, "Did you mean 'batch_size'?"),
)
