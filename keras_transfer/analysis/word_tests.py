"""Tests of word vectors: analogies, similarity as people judge it, and the neighbors of a word in its context."""

import math
import os
import pathlib
import re
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis.geometry import units
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.scores import Score, fraction_with_interval
from keras_transfer.analysis.significance import spearman
from keras_transfer.analysis.stored_states import hidden_states
from keras_transfer.checkpoints import WordVectors
from keras_transfer.core.expect import expect, expects, instance_of, integer
from keras_transfer.text import to_sentences

VECTORS = instance_of(WordVectors, "`WordVectors`")
_COSINES = 2**24  # Number of cosines in memory at once.


@expects(vectors=VECTORS, most=integer(1))
def analogies(vectors: WordVectors, path: str | os.PathLike, *, most: int = 30_000) -> Result:
    """Answers analogy questions, such as "Athens Greece Oslo Norway", with the nearest vector to `b - a + c`.

    The answer is the word, other than the three of the question, with the largest cosine (3CosAdd). Case does not
    count: of words that differ only in case, the first one is used.

    Args:
        vectors: `WordVectors`, with frequent words first.
        path: String or path. A file with four words in each line, and lines such as ": capital-common-countries" before
            each section, such as `questions-words.txt` of word2vec.
        most: Integer. Only the first words are known and can be answers. Defaults to `30_000`, as in word2vec.

    Returns:
        `Result` with a row for each section, then "semantic" and "syntactic", if there are sections of both kinds, and
        "all": `accuracy` with its 95% interval `low` to `high`, and the numbers of questions that are `correct`,
        `answered`, and `missing` because a word has no vector.

    Raises:
        ValueError: If the file does not begin with a section, or if a line does not have four words.

    Example:
    ```python
    import pathlib

    pathlib.Path("questions.txt").write_text(": royalty\\nman king woman queen\\n")
    words = ["man", "king", "woman", "queen"]
    vectors = keras_transfer.checkpoints.WordVectors(words, [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]])
    keras_transfer.analysis.analogies(vectors, "questions.txt").rows[-1]["accuracy"]  # 1.0
    ```

    Source: Mikolov et al. 2013. https://arxiv.org/abs/1301.3781
    """
    words, unit = [word.upper() for word in vectors.words[:most]], units(vectors.vectors[:most])
    rows = {word: row for row, word in reversed([*enumerate(words)])}
    folded = np.array([rows[word] for word in words])  # The first word that differs only in case.
    counts = {}
    for name, questions in _questions(path).items():
        known = [[rows[word] for word in each] for each in questions if all(word in rows for word in each)]
        correct, step = 0, max(_COSINES // len(words), 1)
        for start in range(0, len(known), step):
            asked = np.array(known[start : start + step])
            a, b, c = (unit[asked[:, place]] for place in range(3))
            scores = (b - a + c) @ unit.T
            scores[(asked[:, :3, None] == folded).any(axis=1)] = -np.inf  # The words of the question, in any case.
            correct += int((folded[scores.argmax(axis=1)] == asked[:, 3]).sum())
        counts[name] = correct, len(known), len(questions) - len(known)
    groups, grammar = {name: [name] for name in counts}, [name for name in counts if name.startswith("gram")]
    if 0 < len(grammar) < len(counts):
        groups |= {"semantic": [name for name in counts if name not in grammar], "syntactic": grammar}
    found = []
    for name, members in {**groups, "all": [*counts]}.items():
        correct, answered, missing = map(sum, zip(*(counts[each] for each in members)))
        score = fraction_with_interval(correct, answered, 0.95) if answered else Score(*[math.nan] * 3)
        row = {"section": name, "accuracy": score.value, "low": score.low, "high": score.high}
        found.append({**row, "correct": correct, "answered": answered, "missing": missing})
    columns = {"section": "", "accuracy": ".1%", "95% interval": (("low", "high"), ".1%")}
    columns |= {"correct": "", "answered": "", "missing": ""}
    notes = ["3CosAdd. Questions with a word that has no vector are not counted."]
    return Result(found, columns, title="Analogies", index=("section",), notes=notes)


def _questions(path):
    """Returns the questions of a file, lists of four words in capitals, by section."""
    found: dict[str, list] = {}
    section = None
    for number, line in enumerate(pathlib.Path(path).read_text("utf-8").splitlines(), 1):
        if line.startswith(":"):
            section = found.setdefault(line[1:].strip(), [])
        elif words := line.upper().split():
            rule = 'A line must be a section such as ": family" or, below one, a question of four words.'
            expect(section is not None and len(words) == 4, rule, line[:60], where=f"{path}, line {number}")
            section.append(words)
    expect(found, "The file must have at least one section.", received="an empty file", where=path)
    return found


@expects(vectors=VECTORS)
def word_similarity(vectors: WordVectors, pairs: str | os.PathLike | Sequence) -> Result:
    """Returns the rank correlation between the cosines of word pairs and how similar people find them.

    Judgments differ in what they mean: in WordSim-353, "cup" and "coffee" are similar since they go together, and in
    SimLex-999 they are not.

    Args:
        vectors: `WordVectors`. A word that has no vector counts as the first one that differs only in case.
        pairs: List of rows of two words and a number, or path of a file with such lines, such as those of WordSim-353
            and SimLex-999. A header, lines that begin with "#", and further columns of a file do not count.

    Returns:
        `Result` with one row: Spearman's correlation `spearman` with its 95% interval `low` to `high`, and the numbers
        of `pairs` with vectors and of those that are `missing` and left out.

    Raises:
        ValueError: If a row is not two words and a number, or if fewer than four pairs have vectors.

    Example:
    ```python
    words = ["cup", "mug", "tea", "car", "bus"]
    vectors = keras_transfer.checkpoints.WordVectors(words, [[1, 0, 0], [1, 0.1, 0], [1, 1, 0], [0, 0, 1], [0, 0.5, 1]])
    pairs = [("cup", "mug", 9.5), ("cup", "tea", 6.0), ("car", "bus", 7.0), ("cup", "car", 0.5)]
    keras_transfer.analysis.word_similarity(vectors, pairs).rows[0]["spearman"]  # 1.0
    ```

    Source: Finkelstein et al. 2002, "Placing search in context"; Hill et al. 2015, "SimLex-999".
    """
    first = {word.upper(): word for word in reversed(vectors.words)}
    judgments, cosines, missing = [], [], []
    given: Any = _judgments(pairs) if isinstance(pairs, str | os.PathLike) else pairs
    for row in given:
        expect(len(row) == 3, "A pair must be two words and a number.", row)
        word, other, judgment = row
        known = [each if each in vectors else first.get(each.upper()) for each in (word, other)]
        if None in known:
            missing.append(f"{word} {other}")
        else:
            a, b = units(np.stack([vectors[each] for each in known]).astype("float64"))
            judgments.append(judgment)
            cosines.append(a @ b)
    count = len(judgments)
    expect(count > 3, "At least four pairs must have vectors.", known=count, without=missing[:5])
    correlation = spearman(judgments, cosines)
    # Fisher's transformation, with the variance for ranks of Bonett and Wright (2000).
    half = statistics.NormalDist().inv_cdf(0.975) * math.sqrt((1 + correlation**2 / 2) / (count - 3))
    low, high = np.tanh(np.arctanh(np.clip(correlation, -1 + 1e-12, 1 - 1e-12)) + [-half, half]).tolist()
    row = {"spearman": correlation, "low": low, "high": high, "pairs": count, "missing": len(missing)}
    columns = {"Spearman": ("spearman", ".3f"), "95% interval": (("low", "high"), ".3f"), "pairs": "", "missing": ""}
    notes = [f"Without a vector: {', '.join(missing[:10])}{', ...' * (len(missing) > 10)}."] if missing else []
    return Result([row], columns, title="Word similarity", index=("pairs",), notes=notes)


def _judgments(path):
    """Returns rows of two words and a number, the first one after them, of a file."""
    rows: list[tuple] = []
    for number, line in enumerate(pathlib.Path(path).read_text("utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            cells = [*map(str.strip, re.split("[\t,;]", line))]
            numbers = [float(cell) for cell in cells[2:] if re.fullmatch(r"-?\d+(\.\d*)?", cell)]
            rule, where = "A pair must be two words and a number.", f"{path}, line {number}"
            expect(numbers or number == 1, rule, line[:60], where=where)
            rows += [(*cells[:2], *numbers[:1])] if numbers else []  # The first line may be a header.
    return rows


@expects(k=integer(1))
def neighbors(
    model: Any,
    words: Sequence[str],
    position: int,
    sentences: Sequence[Sequence[str]],
    *,
    k: int = 10,
    **options: Any,
) -> Result:
    """Returns the words of other sentences whose vectors in context are nearest to that of a word in its sentence.

    Args:
        model: Task or encoder.
        words: List of strings. A sentence, such as `preprocessor.words(["The play was long."])[0]`.
        position: Integer. Position of the word in it.
        sentences: List of lists of words, in which neighbors are looked for.
        k: Integer. Number of neighbors. Defaults to `10`.
        **options: Arguments of `hidden_states`, such as `layers`, of which the highest counts.

    Returns:
        `Result` with a row for each neighbor, the nearest first: `word`, `cosine`, the numbers of the `sentence` and of
        the `position` in it, and its `text`.

    Raises:
        ValueError: If there is no such position, or if the model has no hidden states.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.analysis.neighbors(model, ["A", "fine", "film"], 2, [["The", "movie"], ["Films"]], verbose=0)
    ```

    Source: Peters et al. 2018, "Deep contextualized word representations", table 4. https://arxiv.org/abs/1802.05365
    """
    words, *sentences = to_sentences([words, *sentences])
    rule = f"`position` must be from 0 to {len(words) - 1}, that of a word in `words`."
    expect(position in range(len(words)), rule, position=position)
    states = hidden_states(model, [words, *sentences], **{"dtype": None, **options})
    vectors = units(np.asarray(states.column(states.names[-1]), "float32"))
    cosines = vectors[len(words) :] @ vectors[position]
    places = [(row, place) for row, sentence in enumerate(sentences) for place in range(len(sentence))]
    rows = []
    for each in np.argsort(-cosines, kind="stable")[:k]:
        row, place = places[each]
        found = {"word": sentences[row][place], "cosine": float(cosines[each]), "sentence": row, "position": place}
        rows.append({**found, "text": " ".join(sentences[row])})
    columns = {"word": "", "cosine": ".3f", "text": ""}
    return Result(rows, columns, title=f"Neighbors of {words[position]}", index=("sentence", "position"))
