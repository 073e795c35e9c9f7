"""Tests of word vectors: analogies, similarity as people judge it, and the neighbors of a word in its context."""

import dataclasses
import math
import os
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis.result import Result
from keras_transfer.analysis.scores import fraction_with_interval
from keras_transfer.analysis.significance import spearman
from keras_transfer.analysis.stored_states import hidden_states
from keras_transfer.checkpoints import WordVectors
from keras_transfer.core.expect import expect, expects, instance_of, integer, raising

VECTORS = instance_of(WordVectors, "`WordVectors`")
_QUESTIONS = 512  # Number of questions that are answered at once.


@dataclasses.dataclass(repr=False)
class Analogies(Result):
    """The answers to analogy questions, which `analogies` returns.

    Attributes:
        rows: List of dicts, one for each section, then "semantic" and "syntactic", if there are sections of both kinds,
            and "all": `section`, `accuracy`, `low` and `high`, its 95% interval, `correct`, `answered`, and `missing`,
            the number of questions with a word that has no vector.
    """

    rows: list

    title = "Analogies"
    index = ("section",)

    @property
    def accuracy(self) -> float:
        """Float. Share of the answered questions with the right answer, NaN if there are none."""
        return self.rows[-1]["accuracy"]

    def _cells(self):
        heads = ["section", "accuracy", "95% interval", "correct", "answered", "missing"]
        rows = []
        for row in self.rows:
            scores = (
                (f"{row['accuracy']:.1%}", f"{row['low']:.1%} - {row['high']:.1%}") if row["answered"] else ("", "")
            )
            rows.append([row["section"], *scores, *(f"{row[name]:,}" for name in heads[3:])])
        return heads, rows

    def _notes(self):
        return ["3CosAdd. Questions with a word that has no vector are not counted."]


def _section(name, parts):
    counts = {key: sum(part[key] for part in parts) for key in ("correct", "answered", "missing")}
    score = (math.nan,) * 3
    if counts["answered"]:
        score = fraction_with_interval(counts["correct"], counts["answered"], 0.95)
    return {"section": name, **dict(zip(("accuracy", "low", "high"), score)), **counts}


@expects(vectors=VECTORS, most=integer(1))
def analogies(vectors: WordVectors, path: str | os.PathLike, *, most: int = 30_000) -> Analogies:
    """Answers analogy questions, such as "Athens Greece Oslo Norway", with the nearest vector to `b - a + c`.

    The answer is the word, other than the three of the question, with the largest cosine (3CosAdd). Case does not
    count: of words that differ only in case, the first one is used.

    Args:
        vectors: `WordVectors`, with frequent words first.
        path: String or path. A file with four words in each line, and lines such as ": capital-common-countries" at the
            beginning of each section, such as `questions-words.txt` of word2vec.
        most: Integer. Only the first words are known and can be answers. Defaults to `30_000`, as in word2vec.

    Returns:
        `Analogies`.

    Raises:
        ValueError: If the file does not begin with a section, or if a line does not have four words.

    Example:
    ```python
    import pathlib

    pathlib.Path("questions.txt").write_text(": royalty\\nman king woman queen\\n")
    words = ["man", "king", "woman", "queen"]
    vectors = keras_transfer.checkpoints.WordVectors(words, [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]])
    keras_transfer.analysis.analogies(vectors, "questions.txt").accuracy  # 1.0
    ```

    Source: Mikolov et al. 2013, "Efficient estimation of word representations in vector space".
    https://arxiv.org/abs/1301.3781
    """
    rows = {word.upper(): row for row, word in reversed(list(enumerate(vectors.words[:most])))}
    unit, folded = _unit_table(vectors.vectors[:most]), _folded(vectors.words[:most], rows)
    sections: dict[str, dict] = {}
    for name, questions in _questions(path).items():
        known = [[rows[word.upper()] for word in each] for each in questions if all(w.upper() in rows for w in each)]
        correct = 0
        for start in range(0, len(known), _QUESTIONS):
            asked = np.array(known[start : start + _QUESTIONS])
            a, b, c = (unit[asked[:, place]] for place in range(3))
            scores = (b - a + c) @ unit.T
            given = (asked[:, :3, None] == folded).any(axis=1)  # The words of the question, in any case.
            scores[given] = -np.inf
            correct += int((folded[scores.argmax(axis=1)] == asked[:, 3]).sum())
        sections[name] = {"correct": correct, "answered": len(known), "missing": len(questions) - len(known)}
    kinds: dict[str, list] = {"semantic": [], "syntactic": [], "all": list(sections)}
    for name in sections:
        kinds["syntactic" if name.startswith("gram") else "semantic"].append(name)
    groups = {name: [name] for name in sections} | (kinds if all(kinds.values()) else {"all": kinds["all"]})
    return Analogies([_section(name, [sections[part] for part in parts]) for name, parts in groups.items()])


def _unit_table(vectors):
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def _folded(words, rows):
    """Returns for each word the row of the first word that differs from it only in case."""
    return np.array([rows[word.upper()] for word in words])


def _questions(path):
    """Returns the questions of a file, lists of four words, by section."""
    found: dict[str, list] = {}
    section = None
    for number, line in enumerate(pathlib.Path(path).read_text("utf-8").splitlines(), 1):
        where, words = f"{path}, line {number}", line.split()
        if line.startswith(":"):
            section = found.setdefault(line[1:].strip(), [])
        elif words:
            expect(section is not None, 'A section such as ": family" must come first.', line[:60], where=where)
            expect(len(words) == 4, "A question must have four words.", line[:60], where=where)
            section.append(words)
    expect(found, "The file must have at least one section.", received="an empty file", where=path)
    return found


@dataclasses.dataclass(repr=False)
class WordSimilarity(Result):
    """How well cosines of word vectors agree with the judgment of people, which `word_similarity` returns.

    Attributes:
        rows: List of dicts, one for each pair: `word`, `other`, `judgment`, and `cosine`.
        missing: List of the pairs with a word that has no vector, which are left out.
        spearman: Float. Spearman's rank correlation of both.
        low: Float. Lower limit of its 95% interval.
        high: Float. Upper limit of its 95% interval.
    """

    rows: list
    missing: list
    spearman: float
    low: float
    high: float

    title = "Word similarity"
    index = ("word", "other")

    def _cells(self):
        pairs = f"{len(self.rows)} of {len(self.rows) + len(self.missing)}"
        return ["Spearman", "95% interval", "pairs"], [
            [f"{self.spearman:.3f}", f"{self.low:.3f} - {self.high:.3f}", pairs]
        ]


@expects(vectors=VECTORS)
def word_similarity(vectors: WordVectors, pairs: str | os.PathLike | Sequence) -> WordSimilarity:
    """Returns the rank correlation between the cosines of word pairs and how similar people find them.

    Judgments differ in what they mean: in WordSim-353, "cup" and "coffee" are similar since they go together, and in
    SimLex-999 they are not.

    Args:
        vectors: `WordVectors`. A word that has no vector counts as the first one that differs only in case.
        pairs: Path of a file with two words and a number in each line, separated by tabs, such as those of WordSim-353
            and SimLex-999 (lines that begin with "#" do not count), or list of such rows.

    Returns:
        `WordSimilarity`.

    Raises:
        ValueError: If a row is not two words and a number, or if fewer than four pairs have vectors.

    Example:
    ```python
    words = ["cup", "mug", "tea", "car", "bus"]
    vectors = keras_transfer.checkpoints.WordVectors(words, [[1, 0, 0], [1, 0.1, 0], [1, 1, 0], [0, 0, 1], [0, 0.5, 1]])
    pairs = [("cup", "mug", 9.5), ("cup", "tea", 6.0), ("car", "bus", 7.0), ("cup", "car", 0.5)]
    keras_transfer.analysis.word_similarity(vectors, pairs).spearman  # 1.0
    ```

    Source: Finkelstein et al. 2002, "Placing search in context"; Hill et al. 2015, "SimLex-999".
    """
    first = {word.upper(): word for word in reversed(vectors.words)}
    rows, missing = [], []
    for word, other, judgment in _judgments(pairs):
        known = [each if each in vectors else first.get(each.upper()) for each in (word, other)]
        if None in known:
            missing.append((word, other))
            continue
        a, b = _unit_table(np.stack([vectors[each] for each in known]).astype("float64"))
        rows.append({"word": word, "other": other, "judgment": judgment, "cosine": float(a @ b)})
    expect(len(rows) > 3, "At least four pairs must have vectors.", known=len(rows), without=missing[:5])
    correlation = spearman([row["judgment"] for row in rows], [row["cosine"] for row in rows])
    # Fisher's transformation, with the variance for ranks of Bonett and Wright (2000).
    half = statistics.NormalDist().inv_cdf(0.975) * math.sqrt((1 + correlation**2 / 2) / (len(rows) - 3))
    middle = np.arctanh(np.clip(correlation, -1 + 1e-12, 1 - 1e-12))
    return WordSimilarity(rows, missing, correlation, math.tanh(middle - half), math.tanh(middle + half))


def _judgments(pairs):
    """Returns rows of two words and a number, from a file or a list."""
    rule, where = "A pair must be two words and a number.", "`pairs`"
    if isinstance(pairs, str | os.PathLike):
        lines = enumerate(pathlib.Path(pairs).read_text("utf-8").splitlines(), 1)
        rows = [(f"{pairs}, line {n}", line.split("\t")) for n, line in lines if line.strip() and line[0] != "#"]
    else:
        rows = [(f"{where}, row {n}", row) for n, row in enumerate(pairs)]
    found = []
    for where, row in rows:
        with raising(rule, ValueError, TypeError, where=where, describe=lambda _, row=row: repr(row)[:80]):
            word, other, judgment = row
            found.append((word, other, float(judgment)))
    return found


@expects(k=integer(1))
def neighbors(
    model: Any,
    words: Sequence[str],
    position: int,
    sentences: Sequence[Sequence[str]],
    *,
    k: int = 10,
    layer: str | None = None,
    preprocessor: Any = None,
    batch_size: int = 32,
    verbose: str | int = "auto",
) -> list[tuple[str, float, int, int]]:
    """Returns the words of other sentences whose vectors in context are nearest to that of a word in its sentence.

    Args:
        model: Task or encoder.
        words: List of strings. A sentence, such as `preprocessor.words(["The play was long."])[0]`.
        position: Integer. Position of the word in it.
        sentences: List of lists of words, in which neighbors are looked for.
        k: Integer. Number of neighbors. Defaults to `10`.
        layer: String. Name of a layer, such as "block_3". Defaults to `None`, the last one.
        preprocessor: Preprocessor of `model`, if it is an encoder. Defaults to `None`, that of the task.
        batch_size: Integer. Number of sentences per batch. Defaults to `32`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        List of `(word, cosine, sentence, position)`, best first.

    Raises:
        ValueError: If there is no such position or layer, or if the model has no hidden states or no preprocessor.

    Example:
    ```python
    preprocessor = keras_transfer.text.WordPreprocessor(["a", "b", "c"])
    encoder = keras_transfer.encoders.WordVectorEncoder(5, hidden_dim=4)
    sentences = [["a", "b"], ["c", "a"]]
    keras_transfer.analysis.neighbors(encoder, ["b", "a"], 1, sentences, k=2, preprocessor=preprocessor)
    # [("a", 1.0, 0, 0), ("a", 1.0, 1, 1)]
    ```

    Source: Peters et al. 2018, "Deep contextualized word representations", table 4. https://arxiv.org/abs/1802.05365
    """
    rule = f"`position` must be from 0 to {len(words) - 1}, that of a word in `words`."
    expect(position in range(len(words)), rule, position=position)
    layers = None if layer is None else [layer]
    options = {
        "preprocessor": preprocessor,
        "layers": layers,
        "dtype": None,
        "batch_size": batch_size,
        "verbose": verbose,
    }
    states = hidden_states(model, [list(words), *sentences], **options)
    table = _unit_table(np.asarray(states.column(states.names[-1]), "float32"))
    scores = table @ table[position]
    scores[: len(words)] = -np.inf
    places = [(each, place) for each, row in enumerate([words, *sentences]) for place in range(len(row))]
    best = np.argsort(-scores, kind="stable")[: min(k, len(scores) - len(words))]
    return [
        (sentences[places[row][0] - 1][places[row][1]], float(scores[row]), places[row][0] - 1, places[row][1])
        for row in best
    ]
