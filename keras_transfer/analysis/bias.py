"""Associations of word and text vectors with attributes, tested by permutation, and two ways to weaken them."""

import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.result import Result
from keras_transfer.checkpoints import WordVectors
from keras_transfer.core.arrays import to_numpy
from keras_transfer.core.expect import TEXT, Rule, expect, expects, instance_of, integer, list_of
from keras_transfer.tasks import TextEmbedder

_ROUNDING = 1e-6  # Associations that differ by less are equal, since vectors are float32.

WORDS, PAIRS = list_of(TEXT, 2), list_of(list_of(TEXT, 2), 1)
VECTORS = Rule(
    "`WordVectors`, a `TextEmbedder(encoder, preprocessor)`, or a function from texts to vectors",
    lambda value: isinstance(value, (WordVectors, TextEmbedder)) or callable(value) > isinstance(value, keras.Layer),
    (keras.Layer(), {}, None),
)


@expects(vectors=VECTORS, x=WORDS, y=WORDS, a=WORDS, b=WORDS, samples=integer(1))
def association_test(
    vectors: WordVectors | TextEmbedder | Callable,
    x: Sequence[str],
    y: Sequence[str],
    a: Sequence[str],
    b: Sequence[str],
    *,
    samples: int = 100_000,
) -> Result:
    """Tests whether two sets of targets differ in their association with two sets of attributes (WEAT, SEAT).

    The association of a target is its mean cosine with the attributes `a` minus that with `b`, of words (WEAT) or of
    texts such as "This is a nurse." (SEAT). A small p value says that the sets differ in these vectors, not that a
    model which uses them decides differently, and a large one that these words show no bias, not that there is none.

    Args:
        vectors: `WordVectors`, a `TextEmbedder`, or a function from a list of texts to their vectors `[texts, dim]`.
        x: List of strings. Targets, such as the names of flowers.
        y: List of strings. As many other targets, such as the names of insects.
        a: List of strings. Attributes, such as pleasant words.
        b: List of strings. Other attributes, such as unpleasant words.
        samples: Integer. Number of partitions that are drawn, if there are more. Defaults to `100_000`.

    Returns:
        `Result` with a row for each target, the highest first: `target`, `set` ("x" or "y"), and `association`. Its
        attributes are `effect`, the difference of the mean associations in standard deviations, `statistic`, that of
        their sums, `p`, the share of the partitions of all targets into two such sets whose statistic is at least as
        large, and `missing`, the words without a vector, which are left out.

    Raises:
        ValueError: If `x` and `y` differ in size, if fewer than two words of a set have a vector, or if one is zero.

    Example:
    ```python
    words = ["rose", "lily", "wasp", "flea", "joy", "love", "pain", "hate"]
    table = np.repeat([[1.0, 0.2], [0.2, 1.0], [1.0, 0.1], [0.1, 1.0]], 2, axis=0)
    vectors = keras_transfer.checkpoints.WordVectors(words, table)
    test = keras_transfer.analysis.association_test(vectors, words[:2], words[2:4], words[4:6], words[6:])
    print(test.effect, test.p)  # 1.73, and 1 / 6, the least for sets of two
    ```

    Source: Caliskan et al. 2017, "Semantics derived automatically from language corpora contain human-like biases";
    May et al. 2019, "On measuring social biases in sentence encoders". https://arxiv.org/abs/1903.10561
    """
    expect(len(x) == len(y), "`x` and `y` must have the same number of targets.", x=len(x), y=len(y))
    targets: list[dict] = []
    units, missing = [], []
    for name, texts in {"x": x, "y": y, "a": a, "b": b}.items():
        lost = [text for text in texts if text not in vectors] if isinstance(vectors, WordVectors) else []
        known = [text for text in texts if text not in lost]
        expect(len(known) >= 2, f"At least two words of `{name}` must have a vector.", without=lost)
        targets += [{"target": text, "set": name} for text in known if name in "xy"]
        units.append(_unit_vectors(vectors, known))
        missing += lost
    values = np.concatenate(units[:2]) @ (units[2].mean(axis=0) - units[3].mean(axis=0))
    rows = [{**target, "association": float(value)} for target, value in zip(targets, values)]
    rows.sort(key=lambda row: -row["association"])
    spread, size = values.std(ddof=1), len(units[0])
    if spread < _ROUNDING:
        values, spread = np.full(len(rows), values.mean()), 1.0
    first, second = values[:size], values[size:]
    effect, statistic = (first.mean() - second.mean()) / spread, first.sum() - second.sum()
    count = math.comb(len(rows), size)
    if count <= samples:
        partitions = np.array([*itertools.combinations(range(len(rows)), size)])
    else:
        drawn = np.tile(np.arange(len(rows)), (samples, 1))
        partitions = np.random.default_rng(0).permuted(drawn, axis=1)[:, :size]
        partitions[0] = range(size)  # The observed one.
    # The sum of the first part determines the statistic. Sums that differ only by rounding are equal.
    p = np.mean(values[partitions].sum(axis=1) >= first.sum() - 1e-12 * np.abs(values).sum())
    counted = f"all {count:,}" if count <= samples else f"sampled {samples:,}"
    notes = [f"effect {effect:.3f}, statistic {statistic:.4f}, p {p:.2g} ({counted} partitions)."]
    notes += [f"Without a vector: {', '.join(missing)}."] if missing else []
    found: dict[str, Any] = {"effect": float(effect), "statistic": float(statistic), "p": float(p), "missing": missing}
    columns = {"target": "", "set": "", "association": "+.4f"}
    return Result(rows, columns, title="Association test", index=("target",), notes=notes, **found)


def _unit_vectors(vectors, texts):
    """Returns the unit vectors [texts, dim], float64, of words or texts."""
    if isinstance(vectors, WordVectors):
        found = np.stack([vectors[text] for text in texts])
    else:
        found = to_numpy(vectors.embed(texts) if isinstance(vectors, TextEmbedder) else vectors(texts))
    rule = "`vectors` must return vectors of shape [texts, dim]."
    expect(found.ndim == 2 and len(found) == len(texts), rule, texts=len(texts), vectors=found.shape)
    found = found.astype("float64")
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    zero = [text for text, length in zip(texts, lengths[:, 0]) if not 0 < length < np.inf]
    expect(not zero, "Vectors must be finite and not zero.", texts=zero[:5])
    return found / lengths


@expects(vectors=instance_of(WordVectors, "`WordVectors`"), pairs=PAIRS, keep=list_of(TEXT))
def remove_direction(vectors: WordVectors, pairs: Sequence, *, keep: Sequence[str] = ()) -> WordVectors:
    """Returns word vectors without the direction in which the words of pairs differ (hard debiasing).

    The direction is the first principal axis of the differences between unit vectors of pairs, such as "he" and "she".
    It is projected out of all vectors but those of `keep` and `pairs`. The words of a pair then differ only in it, so
    that each other word is equally similar to both. What is removed is the direction, not the bias: words that had the
    same association still have similar vectors (Gonen and Goldberg 2019). Test it with words that are not in `pairs`.

    Args:
        vectors: `WordVectors`. It does not change.
        pairs: List of pairs of words, such as `[("he", "she")]`. Pairs without two vectors are left out.
        keep: List of words that keep their vectors, such as "mother" or "beard". Defaults to none.

    Returns:
        `WordVectors` with the same words.

    Raises:
        ValueError: If no pair has two vectors that differ, if a word of `keep` has none, or if a word has two pairs.

    Example:
    ```python
    words = ["he", "she", "nurse"]
    vectors = keras_transfer.checkpoints.WordVectors(words, [[1.0, 1.0], [-1.0, 1.0], [-0.5, 1.0]])
    keras_transfer.analysis.remove_direction(vectors, [("he", "she")])["nurse"]  # [0, 1]
    ```

    Source: Bolukbasi et al. 2016. https://arxiv.org/abs/1607.06520
    """
    known = [tuple(pair) for pair in pairs if all(word in vectors and vectors[word].any() for word in pair)]
    words, lost = [*itertools.chain(*known)], [word for word in keep if word not in vectors]
    expect(not lost, "All words of `keep` must have a vector.", keep=lost[:5])
    twice = [word for word in dict.fromkeys(words) if words.count(word) > 1]
    expect(not twice, "A word can be in one pair only, to whose words others become equally similar.", twice=twice)
    pair_units = [_unit_vectors(vectors, pair) for pair in known]
    differences = np.array([first - second for first, second in pair_units])
    rule = "At least one pair must have two vectors that differ in their directions."
    expect(np.abs(differences).max(initial=0) > _ROUNDING, rule, pairs=known or list(pairs)[:5])
    direction = np.linalg.svd(differences, full_matrices=False)[2][0]

    places = {word: row for row, word in enumerate(vectors.words)}
    table = np.concatenate([vectors.vectors, vectors.unknown_vector[None]]).astype("float64")
    projected = np.ones(len(table), bool)
    projected[[places[word] for word in (*words, *keep)]] = False
    table[projected] -= np.outer(table[projected] @ direction, direction)
    for pair, (first, second) in zip(known, pair_units):
        size = np.mean([np.linalg.norm(vectors[word]) for word in pair])
        middle = (first + second) / 2
        middle -= middle @ direction * direction
        height = math.sqrt(max(1 - middle @ middle, 0.0)) * (1 if (first - second) @ direction >= 0 else -1)
        for word, sign in zip(pair, (1, -1)):
            table[places[word]] = size * (middle + sign * height * direction)
    return WordVectors(vectors.words, table[:-1], coverage=vectors.coverage, unknown_vector=table[-1])


@expects(pairs=PAIRS)
def swap_words(texts: Sequence[str], pairs: Sequence) -> list[str]:
    """Returns texts in which each word of a pair is replaced by the other one (counterfactual augmentation).

    Train with both, `model.fit([*texts, *swap_words(texts, pairs)], [*labels, *labels])`, and the label no longer
    depends on which word of a pair a text has. Whole words are replaced, in both directions at once, and keep their
    case. The grammar is not corrected.

    Args:
        texts: List of strings.
        pairs: List of pairs of words. If a word belongs to several pairs, the first one counts.

    Returns:
        List of strings.

    Raises:
        ValueError: If `texts` are not strings.

    Example:
    ```python
    keras_transfer.analysis.swap_words(["He thanked his boss."], [("he", "she"), ("his", "her")])
    # ["She thanked her boss."]
    ```

    Source: Zhao et al. 2018, "Gender bias in coreference resolution". https://arxiv.org/abs/1804.06876
    """
    texts = list_of(TEXT).check("texts", texts if isinstance(texts, str) else list(texts))
    other: dict[str, str] = {}
    for first, second in pairs:
        other.setdefault(first.lower(), second)
        other.setdefault(second.lower(), first)
    longest_first = sorted(other, key=len, reverse=True)
    found = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)

    def swapped(match):
        word = match[0]
        new = other.get(word.lower(), word)  # "\u017fhe" with a long s also matches "she".
        if len(word) > 1 and word.isupper():
            return new.upper()
        return new[0].upper() + new[1:] if word[0].isupper() else new

    return [found.sub(swapped, text) for text in texts]
