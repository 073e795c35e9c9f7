"""The geometry of vectors: how far they are from isotropic, how much a context changes a word, and pictures in 2D."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis.result import Result
from keras_transfer.analysis.stored_states import hidden_states
from keras_transfer.core.arrays import to_numpy
from keras_transfer.core.expect import expect, expects, integer, one_of, raising
from keras_transfer.core.plots import GREY, STYLES, new_axes

_MEASURES = ("self_similarity", "intra_sentence", "explained_variance")


@dataclasses.dataclass(repr=False)
class Isotropy(Result):
    """The geometry of the vectors of words by layer, which `isotropy` returns.

    Attributes:
        rows: List of dicts, one for each layer. `random_cosine` is the mean cosine of random words of different
            sentences, 0 if vectors are isotropic and 1 if all have the same direction. `self_similarity` is the mean
            cosine of a word with itself in other sentences, `intra_sentence` the mean cosine of words with the mean of
            their sentence, and `explained_variance` the share of the squared length of a word's vectors that one
            direction explains. Those that end in `_adjusted` are without what random words have: minus `random_cosine`,
            or minus the explained variance of random words. Values of words are NaN if there are none.
        words: Integer. Number of different words that are in enough sentences, over which measures are means.
        samples: Integer. Number of random words.
    """

    rows: list
    words: int
    samples: int

    title = "Geometry by layer"
    index = ("layer",)

    def _cells(self):
        heads = ["random_cosine", *(f"{name}{end}" for name in _MEASURES for end in ("", "_adjusted"))]
        shown = [
            [row["layer"], *("" if math.isnan(row[name]) else f"{row[name]:.3f}" for name in heads)]
            for row in self.rows
        ]
        heads = ["random", "self", "adjusted", "intra", "adjusted", "variance", "adjusted"]
        return ["layer", *heads], shown

    def _notes(self):
        return [
            f"{self.words:,} words in enough sentences, {self.samples:,} random words. adjusted: minus random words."
        ]

    def plot(self) -> Any:
        """Plots the cosine of random words and the adjusted measures by layer.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes = new_axes()
        places = range(len(self.rows))
        for name, style in zip(("random_cosine", *(f"{each}_adjusted" for each in _MEASURES)), STYLES):
            axes.plot(places, [row[name] for row in self.rows], label=name.replace("_", " "), **style)
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set_xticks(places, [row["layer"] for row in self.rows], rotation=90)
        axes.legend()
        return axes.figure


@expects(samples=integer(2), least=integer(2), seed=integer(0))
def isotropy(
    model: Any,
    sentences: Sequence[Sequence[str]],
    *,
    samples: int = 1000,
    least: int = 5,
    layers: Sequence[str] | None = None,
    preprocessor: Any = None,
    batch_size: int = 32,
    seed: int = 0,
    verbose: str | int = "auto",
) -> Isotropy:
    """Returns how isotropic the vectors of words are in each layer, and how much they depend on the context.

    If the vectors of a layer lie in a narrow cone, all cosines are high, also those of unrelated words. What is
    interesting is what a word has above that: the adjusted columns. A high cosine of random words says nothing about
    how well a layer serves a task, since a linear head can subtract the mean.

    Args:
        model: Task or encoder.
        sentences: List of lists of words.
        samples: Integer. Number of sentences from which a random word is drawn, and the largest number of occurrences
            of a word that count. Defaults to `1000`.
        least: Integer. A word counts if it is in at least so many sentences. Defaults to `5`.
        layers: List of names of layers. Defaults to `None`, all layers.
        preprocessor: Preprocessor of `model`, if it is an encoder. Defaults to `None`, that of the task.
        batch_size: Integer. Number of sentences per batch. Defaults to `32`.
        seed: Integer. Seed of the random words. Defaults to `0`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `Isotropy`.

    Raises:
        ValueError: If there are fewer than two sentences with words, if there is no such layer, or if the model has no
            hidden states or no preprocessor.

    Example:
    ```python
    preprocessor = keras_transfer.text.WordPreprocessor(["a", "b", "c"])
    encoder = keras_transfer.encoders.WordVectorEncoder(5, hidden_dim=4)
    sentences = [["a", "b"], ["c", "a"]]
    found = keras_transfer.analysis.isotropy(encoder, sentences, least=2, preprocessor=preprocessor)
    found.rows[0]["self_similarity"]  # 1.0, since a word has the same vector in all sentences
    ```

    Source: Ethayarajh 2019, "How contextual are contextualized word representations?".
    https://arxiv.org/abs/1909.00512
    """
    sentences = [list(words) for words in sentences if len(words)]
    expect(len(sentences) > 1, "There must be at least two sentences with words.", sentences=len(sentences))
    options = {
        "preprocessor": preprocessor,
        "layers": layers,
        "dtype": None,
        "batch_size": batch_size,
        "verbose": verbose,
    }
    states = hidden_states(model, sentences, **options)
    random = np.random.default_rng(seed)
    starts = np.cumsum([0, *map(len, sentences)])
    chosen = random.permutation(len(sentences))[:samples]
    drawn = starts[chosen] + random.integers(np.diff(starts)[chosen])
    places: dict[str, list[int]] = {}
    owners: dict[str, set[int]] = {}
    for row, words in enumerate(sentences):
        for place, word in enumerate(words):
            places.setdefault(word, []).append(int(starts[row]) + place)
            owners.setdefault(word, set()).add(row)
    known = [random.permutation(found)[:samples] for word, found in places.items() if len(owners[word]) >= least]
    rows = [{"layer": name, **_measures(states.column(name), drawn, known, starts)} for name in states.names]
    return Isotropy(rows, len(known), len(drawn))


def _measures(values, drawn, known, starts):
    """Returns the measures of a layer.

    Args:
        values: Float array [words, dim].
        drawn: Integer array of the rows of random words.
        known: List of integer arrays, the rows of each word in several sentences.
        starts: Integer array [sentences + 1] of the rows where sentences begin.
    """

    def read(rows):
        return np.asarray(values[rows], "float64")

    sample = read(drawn)
    random_cosine, random_variance = _mean_cosine(sample), _explained(sample)
    occurrences = [(_mean_cosine(each), _explained(each)) for each in map(read, known)]
    alike, explained = np.mean(occurrences, axis=0) if occurrences else (math.nan, math.nan)
    within = []
    for start, end in itertools.pairwise(starts):
        words = read(slice(start, end))
        within.append((_units(words) @ _units(words.mean(axis=0, keepdims=True))[0]).mean())
    found = {"self_similarity": alike, "intra_sentence": np.mean(within), "explained_variance": explained}
    baselines = (random_cosine, random_cosine, random_variance)
    adjusted = {f"{name}_adjusted": found[name] - base for name, base in zip(_MEASURES, baselines)}
    return {name: float(value) for name, value in ({"random_cosine": random_cosine} | found | adjusted).items()}


def _units(vectors):
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def _mean_cosine(vectors):
    """Returns the mean cosine of all pairs of different rows."""
    units, count = _units(vectors), len(vectors)
    return (np.square(units.sum(axis=0)).sum() - np.square(units).sum()) / (count * (count - 1))


def _explained(vectors):
    """Returns the share of the squared lengths of rows that their first singular direction explains."""
    small = vectors @ vectors.T if len(vectors) < vectors.shape[1] else vectors.T @ vectors
    return np.linalg.eigvalsh(small)[-1] / max(np.trace(small), 1e-300)


@expects(method=one_of("pca", "tsne"), seed=integer(0))
def scatter(
    vectors: Any,
    labels: Sequence | None = None,
    *,
    texts: Sequence[str] | None = None,
    method: str = "pca",
    seed: int = 0,
) -> Any:
    """Plots vectors in two dimensions, with a color and a marker for each label.

    The first two principal axes keep distances as far as they can, and the axes say how much of the variance they have.
    t-SNE keeps neighbors: sizes of groups and distances between them mean nothing, and it shows groups in noise, too.

    Args:
        vectors: Array `[points, dim]`, such as `model.embed(texts)`, of at least three points.
        labels: List of the label of each point. Defaults to `None`, one color.
        texts: List of strings, written beside the points. Defaults to `None`.
        method: `"pca"`, or `"tsne"`, which requires scikit-learn. Defaults to `"pca"`.
        seed: Integer. Seed of t-SNE. Defaults to `0`.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ImportError: If matplotlib, or scikit-learn for t-SNE, is not installed.
        ValueError: If `vectors` has another shape, or if there are not as many labels or texts.

    Example:
    ```python
    vectors = np.random.default_rng(0).normal(size=(20, 5)) + np.repeat([[0], [4]], 10, axis=0)
    keras_transfer.analysis.scatter(vectors, ["first"] * 10 + ["second"] * 10)
    ```

    Source: van der Maaten and Hinton 2008, "Visualizing data using t-SNE".
    """
    vectors = to_numpy(vectors)
    fits = vectors.ndim == 2 and len(vectors) > 2 and vectors.shape[1] > 1
    expect(fits, "`vectors` must have the shape [points, dim], with at least three points.", vectors=vectors.shape)
    vectors = vectors.astype("float64")
    for name, values in {"labels": labels, "texts": texts}.items():
        rule = f"`{name}` must have one item for each of the {len(vectors)} vectors."
        expect(
            values is None or len(values) == len(vectors),
            rule,
            received=None if values is None else f"{len(values)} items",
        )
    names = ["", ""]
    if method == "pca":
        centered = vectors - vectors.mean(axis=0)
        points = centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
        shares = points.var(axis=0) / max(vectors.var(axis=0).sum(), 1e-300)
        names = [f"axis {i + 1}, {share:.0%} of the variance" for i, share in enumerate(shares)]
    else:
        rule = "t-SNE requires scikit-learn. Install it with `pip install scikit-learn`."
        with raising(rule, ImportError, error=ImportError):
            from sklearn.manifold import TSNE
        perplexity = min(30, (len(vectors) - 1) / 3)
        points = TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(vectors)
    figure_axes = new_axes(6.4, 4.8)
    groups = np.array([""] * len(points) if labels is None else [str(label) for label in labels])
    for place, label in enumerate(dict.fromkeys(groups.tolist())):
        style = STYLES[place % len(STYLES)]
        rows = groups == label
        figure_axes.scatter(*points[rows].T, color=style["color"], marker=style["marker"], s=18, label=label)
    for text, point in zip([] if texts is None else texts, points):
        figure_axes.annotate(text, point, xytext=(4, 2), textcoords="offset points", fontsize=8, parse_math=False)
    figure_axes.set_xlabel(names[0])
    figure_axes.set_ylabel(names[1])
    if labels is not None:
        figure_axes.legend()
    return figure_axes.figure
