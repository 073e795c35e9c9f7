"""Associations of word and text vectors with attributes, tested by permutation, and two ways to weaken them."""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Sequence

import keras
import numpy as np

from keras_transfer.analysis.result import Result
from keras_transfer.checkpoints import WordVectors
from keras_transfer.core.arrays import to_numpy
from keras_transfer.core.expect import FLAG, TEXT, Rule, expect, expects, instance_of, integer, list_of
from keras_transfer.tasks import TextEmbedder

_ROUNDING = 1e-6  # Associations that differ by less are equal, since vectors are float32.
_SUMS = 1 << 16  # Number of partitions in memory at once.

WORDS = list_of(TEXT, 2)
VECTORS = Rule(
    "`WordVectors`, a `TextEmbedder`, or a function from texts to vectors",
    lambda value: (
        isinstance(value, (WordVectors, TextEmbedder)) or (callable(value) and not isinstance(value, keras.Layer))
    ),
    (keras.Layer(), {}, None),
    lambda value: " Pass `TextEmbedder(model.encoder, model.preprocessor)`." if isinstance(value, keras.Layer) else "",
)
PAIRS = Rule(
    "a list of pairs of words, such as [('he', 'she')]",
    lambda value: (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in value)
        and all(isinstance(word, str) and word for pair in value for word in pair)
    ),
    ([], ["he"], [("he", 1)], [("he", "")], None),
)


@dataclasses.dataclass(repr=False)
class AssociationTest(Result):
    """The result of a test of associations, which `association_test` returns.

    Attributes:
        rows: List of dicts, one for each target: `target`, `set` ("x" or "y"), and `association`, its mean cosine with
            `a` minus that with `b`.
        effect: Float. Difference of the mean associations of both sets, in standard deviations of all associations,
            between -2 and 2. It is 0 if all associations are equal.
        statistic: Float. Difference of the sums of the associations of both sets.
        p: Float. Share of the partitions of all targets into two such sets whose statistic is at least as large.
        partitions: Integer. Number of partitions that were counted.
        is_exact: Boolean. Whether these are all partitions, and not a sample.
        missing: List of the words without a vector, which are left out.
    """

    rows: list
    effect: float
    statistic: float
    p: float
    partitions: int
    is_exact: bool
    missing: list

    title = "Association test"
    index = ("target",)

    def _cells(self):
        ordered = sorted(self.rows, key=lambda row: -row["association"])
        return ["target", "set", "association"], [
            [row["target"], row["set"], f"{row['association']:+.4f}"] for row in ordered
        ]

    def _notes(self):
        kind = "all" if self.is_exact else "sampled"
        notes = [
            f"effect {self.effect:.3f}, statistic {self.statistic:.4f}, p {self.p:.2g} "
            f"({kind} {self.partitions:,} partitions)."
        ]
        return notes + ([f"Without a vector: {', '.join(self.missing)}."] if self.missing else [])


@expects(vectors=VECTORS, x=WORDS, y=WORDS, a=WORDS, b=WORDS, samples=integer(1), seed=integer(0))
def association_test(
    vectors: WordVectors | TextEmbedder | Callable,
    x: Sequence[str],
    y: Sequence[str],
    a: Sequence[str],
    b: Sequence[str],
    *,
    samples: int = 100_000,
    seed: int = 0,
) -> AssociationTest:
    """Tests whether two sets of targets differ in their association with two sets of attributes (WEAT, SEAT).

    The association of a target is its mean cosine with the attributes `a` minus that with `b`. With words, this is the
    Word Embedding Association Test. With texts, such as "This is a nurse." for each word, it is the Sentence Encoder
    Association Test. A small p value says that the sets differ in these vectors. It does not say that a model
    which uses them decides differently, and a large one does not say that there is no bias, only none that these words
    show.

    Args:
        vectors: `WordVectors`, a `TextEmbedder`, or a function from a list of texts to their vectors `[texts, dim]`.
        x: List of strings. Targets, such as the names of flowers.
        y: List of strings. As many other targets, such as the names of insects.
        a: List of strings. Attributes, such as pleasant words.
        b: List of strings. Other attributes, such as unpleasant words.
        samples: Integer. Number of partitions that are drawn, the observed one included. If there are at most as many,
            each is counted once instead. Defaults to `100_000`.
        seed: Integer. Seed of the sampled partitions. Defaults to `0`.

    Returns:
        `AssociationTest`.

    Raises:
        ValueError: If `x` and `y` have different sizes, if fewer than two words of a set have a vector, if a vector is
            zero, or if a function returns another number of vectors.

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
    sets, units, missing = [], [], []
    for name, texts in zip("xyab", (x, y, a, b)):
        known = [text for text in texts if text in vectors] if isinstance(vectors, WordVectors) else list(texts)
        lost = [text for text in texts if text not in known]
        expect(len(known) >= 2, f"At least two words of `{name}` must have a vector.", without=lost)
        sets.append(known)
        missing += lost
        units.append(_unit_vectors(vectors, known))
    targets, (first, second) = np.concatenate(units[:2]), units[2:]
    associations = (targets @ first.T).mean(axis=1) - (targets @ second.T).mean(axis=1)
    names = [(word, name) for name, words in zip("xy", sets) for word in words]
    rows = [{"target": w, "set": name, "association": float(v)} for (w, name), v in zip(names, associations)]
    spread, size = associations.std(ddof=1), len(sets[0])
    if spread < _ROUNDING:
        associations, spread = np.full(len(rows), associations.mean()), 1.0
    first, second = associations[:size], associations[size:]
    effect, statistic = (first.mean() - second.mean()) / spread, first.sum() - second.sum()
    number = math.comb(len(rows), size)
    p = _p_value(associations, size, number <= samples, samples, seed)
    return AssociationTest(rows, float(effect), float(statistic), p, min(number, samples), number <= samples, missing)


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


def _p_value(associations, size, is_exact, samples, seed):
    """Returns the share of partitions whose first part has a sum that is at least the observed one.

    Since the sum of both parts is the same for all partitions, that of the first part determines the statistic. Sums
    that differ only by rounding are equal.
    """
    least = associations[:size].sum() - 1e-12 * np.abs(associations).sum()
    if is_exact:
        found, count = 0, 0
        partitions = itertools.combinations(range(len(associations)), size)
        while chunk := list(itertools.islice(partitions, _SUMS)):
            found += int((associations[np.array(chunk)].sum(axis=1) >= least).sum())
            count += len(chunk)
        return found / count
    random, found = np.random.default_rng(seed), 1  # The observed partition is one of the samples.
    for start in range(1, samples, _SUMS):
        drawn = np.tile(associations, (min(_SUMS, samples - start), 1))
        found += int((random.permuted(drawn, axis=1)[:, :size].sum(axis=1) >= least).sum())
    return found / samples


@expects(vectors=instance_of(WordVectors, "`WordVectors`"), pairs=PAIRS, equalize=FLAG, keep=list_of(TEXT))
def remove_direction(
    vectors: WordVectors, pairs: Sequence, *, equalize: bool = True, keep: Sequence[str] = ()
) -> WordVectors:
    """Returns word vectors without the direction in which the words of pairs differ (hard debiasing).

    The direction is the first principal axis of the differences between unit vectors of pairs, such as "he" and "she".
    It is projected out of all vectors but those of `pairs` and `keep`. With `equalize`, the words of a pair then differ
    only in this direction, so that each other word is equally similar to both.

    What is removed is the direction, not the bias. Words that had the same association still have similar vectors, so
    that a classifier can often find it again (Gonen and Goldberg 2019), and what a task needs of this direction is also
    lost. Test both: `association_test` with other words than those of `pairs`, and the score of the task.

    Args:
        vectors: `WordVectors`. It does not change.
        pairs: List of pairs of words, such as `[("he", "she"), ("man", "woman")]`. Pairs with a word that has no vector
            or a zero vector are left out.
        equalize: Boolean. Whether each other word becomes equally similar to both words of a pair. Defaults to `True`.
        keep: List of words that keep their vectors, such as "mother" or "beard". Defaults to none.

    Returns:
        `WordVectors` with the same words.

    Raises:
        ValueError: If no pair has two vectors that differ, or if a word of `keep` has no vector.

    Example:
    ```python
    words = ["he", "she", "nurse"]
    vectors = keras_transfer.checkpoints.WordVectors(words, [[1.0, 1.0], [-1.0, 1.0], [-0.5, 1.0]])
    keras_transfer.analysis.remove_direction(vectors, [("he", "she")])["nurse"]  # [0, 1]
    ```

    Source: Bolukbasi et al. 2016, "Man is to computer programmer as woman is to homemaker? Debiasing word embeddings".
    https://arxiv.org/abs/1607.06520
    """
    known = [tuple(pair) for pair in pairs if all(word in vectors and vectors[word].any() for word in pair)]
    lost = [word for word in keep if word not in vectors]
    expect(not lost, "All words of `keep` must have a vector.", keep=lost[:5])
    units = [_unit_vectors(vectors, pair) for pair in known]
    rule = "At least one pair must have two vectors that differ in their directions."
    differs = any(np.abs(first - second).max() > _ROUNDING for first, second in units)
    expect(differs, rule, pairs=known or list(pairs)[:5])
    direction = np.linalg.svd([first - second for first, second in units], full_matrices=False)[2][0]

    places = {word: row for row, word in enumerate(vectors.words)}
    table = np.concatenate([vectors.vectors, vectors.unknown_vector[None]]).astype("float64")
    projected = np.ones(len(table), bool)
    projected[[places[word] for word in (*itertools.chain(*known), *keep)]] = False
    table[projected] -= np.outer(table[projected] @ direction, direction)
    if equalize:
        for pair, (first, second) in zip(known, units):
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
    depends on which word of a pair a text has. Whole words in any case are replaced, in both directions at once: "HE"
    becomes "SHE", and "She" becomes "He". The grammar is not corrected.

    Args:
        texts: List of strings.
        pairs: List of pairs of words, such as `[("he", "she"), ("his", "her"), ("him", "her")]`. If a word belongs to
            several pairs, the first one counts.

    Returns:
        List of strings, one for each text.

    Raises:
        ValueError: If `texts` are not strings, or if `pairs` is not such a list.

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
        new = other[word.lower()]
        if len(word) > 1 and word.isupper():
            return new.upper()
        return new[0].upper() + new[1:] if word[0].isupper() else new

    return [found.sub(swapped, text) for text in texts]
