"""The geometry of vectors: how far they are from isotropic, how much a context changes a word, and pictures in 2D."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis.result import Result
from keras_transfer.analysis.stored_states import hidden_states
from keras_transfer.core.arrays import to_numpy
from keras_transfer.core.expect import expect, expects, integer, one_of, raising
from keras_transfer.core.plots import STYLES, new_axes
from keras_transfer.text import to_sentences

_MEASURES = {"self_similarity": "self", "intra_sentence": "intra", "explained_variance": "variance"}


@expects(samples=integer(2), least=integer(2))
def isotropy(
    model: Any, sentences: Sequence[Sequence[str]], *, samples: int = 1000, least: int = 5, **options: Any
) -> Result:
    """Returns how isotropic the vectors of words are in each layer, and how much they depend on the context.

    If the vectors of a layer lie in a narrow cone, all cosines are high, also those of unrelated words, and only what a
    word has above that is interesting. It says little about how well a layer serves a task: a head can subtract a mean.

    Args:
        model: Task or encoder.
        sentences: List of lists of words.
        samples: Integer. Number of random words, and most occurrences of a word that count. Defaults to `1000`.
        least: Integer. A word counts if it is in at least so many sentences. Defaults to `5`.
        **options: Arguments of `hidden_states`, such as `layers`, or the `preprocessor` of an encoder.

    Returns:
        `Result` with a row for each `layer`. `random_cosine` is the mean cosine of random words of different sentences,
        0 if vectors are isotropic and 1 if all have one direction. `self_similarity` is the mean cosine of a word with
        itself in other sentences, `intra_sentence` that of words with the mean of their sentence, and
        `explained_variance` the share of a word's vectors that one direction explains. What ends in `_adjusted` is
        minus that of random words.

    Raises:
        ValueError: If there are fewer than two sentences with words, or if the model has no hidden states.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.analysis.isotropy(model, [["A", "fine", "film"], ["A", "film"]], least=2, verbose=0)
    ```

    Source: Ethayarajh 2019. https://arxiv.org/abs/1909.00512
    """
    sentences = [words for words in to_sentences(sentences) if words]
    expect(len(sentences) > 1, "There must be at least two sentences with words.", sentences=len(sentences))
    states = hidden_states(model, sentences, **{"dtype": None, **options})
    random, starts = np.random.default_rng(0), np.cumsum([0, *map(len, sentences)])
    chosen = random.permutation(len(sentences))[:samples]
    drawn = starts[chosen] + random.integers(np.diff(starts)[chosen])
    places: dict[str, list[int]] = {}
    for place, word in enumerate(itertools.chain(*sentences)):
        places.setdefault(word, []).append(place)
    counts = Counter(word for words in sentences for word in set(words))
    known = [random.permutation(places[word])[:samples] for word in places if counts[word] >= least]
    rows = [{"layer": name, **_measures(states.column(name), drawn, known, starts)} for name in states.names]
    columns: dict[str, Any] = {"layer": "", "random": ("random_cosine", ".3f")}
    for name, head in _MEASURES.items():
        columns |= {head: (name, ".3f"), f"{head} adj.": (f"{name}_adjusted", ".3f")}
    note = f"{len(known):,} words in enough sentences, {len(drawn):,} random words. adj.: minus that of random words."
    return Result(rows, columns, title="Geometry by layer", index=("layer",), notes=[note])


def _measures(values, drawn, known, starts):
    """Returns the measures of a layer, given the rows of random words, of each word, and where sentences start."""
    random, random_variance = _alike(values[drawn])
    alike, explained = np.mean([_alike(values[rows]) for rows in known], axis=0) if known else (math.nan, math.nan)
    within = []
    for start, end in itertools.pairwise(starts):
        words = np.asarray(values[start:end], "float64")
        within.append((units(words) @ units(words.mean(axis=0, keepdims=True))[0]).mean())
    found = {"random_cosine": float(random)}
    for name, value, base in zip(_MEASURES, (alike, np.mean(within), explained), (random, random, random_variance)):
        found |= {name: float(value), f"{name}_adjusted": float(value - base)}
    return found


def units(vectors):
    """Returns vectors [rows, dim] with the length 1, except for those of zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


def _alike(vectors):
    """Returns the mean cosine of different rows, and the part of their squared lengths in their first direction."""
    vectors, count = np.asarray(vectors, "float64"), len(vectors)
    unit = units(vectors)
    cosine = (np.square(unit.sum(axis=0)).sum() - np.square(unit).sum()) / (count * (count - 1))
    products = vectors @ vectors.T if count < vectors.shape[1] else vectors.T @ vectors
    return cosine, np.linalg.eigvalsh(products)[-1] / max(np.trace(products), 1e-300)


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

    Principal axes keep distances as far as they can, and say how much of the variance they have. t-SNE keeps neighbors:
    sizes of groups and distances between them mean nothing, and it shows groups in noise, too.

    Args:
        vectors: Array `[points, dim]`, such as `model.embed(texts)`, of at least three points.
        labels: List of the label of each point. Defaults to `None`.
        texts: List of strings, written beside the points. Defaults to `None`.
        method: `"pca"`, or `"tsne"`, which requires scikit-learn. Defaults to `"pca"`.
        seed: Integer. Seed of t-SNE. Defaults to `0`.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ValueError: If `vectors` has another shape or is not finite, or if there are not as many labels or texts.

    Example:
    ```python
    vectors = np.random.default_rng(0).normal(size=(20, 5)) + np.repeat([[0], [4]], 10, axis=0)
    keras_transfer.analysis.scatter(vectors, ["first"] * 10 + ["second"] * 10)
    ```

    Source: van der Maaten and Hinton 2008, "Visualizing data using t-SNE".
    """
    vectors = to_numpy(vectors)
    fits = vectors.ndim == 2 and len(vectors) > 2 and vectors.shape[1] > 1 and np.isfinite(vectors).all()
    rule = "`vectors` must be finite numbers of the shape [points, dim], with at least three points."
    expect(fits, rule, vectors=vectors.shape)
    vectors, count = vectors.astype("float64"), len(vectors)
    sizes = {name: len(each) for name, each in {"labels": labels, "texts": texts}.items() if each is not None}
    expect({*sizes.values()} <= {count}, f"Each of the {count} vectors must have a label and a text.", **sizes)
    axes = new_axes(6.4, 4.8)
    if method == "pca":
        centered = vectors - vectors.mean(axis=0)
        points = centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
        shares = points.var(axis=0) / max(vectors.var(axis=0).sum(), 1e-300)
        axes.set(xlabel=f"axis 1, {shares[0]:.0%} of the variance", ylabel=f"axis 2, {shares[1]:.0%} of the variance")
    else:
        rule = "t-SNE requires scikit-learn. Install it with `pip install scikit-learn`."
        with raising(rule, ImportError, error=ImportError):
            from sklearn.manifold import TSNE
        points = TSNE(init="pca", perplexity=min(30, (count - 1) / 3), random_state=seed).fit_transform(vectors)
    groups = np.array([""] * count if labels is None else [str(label) for label in labels])
    for place, label in enumerate(dict.fromkeys(groups.tolist())):
        color, marker = (STYLES[(place + shift) % len(STYLES)] for shift in (0, place // len(STYLES)))
        rows = groups == label
        axes.scatter(*points[rows].T, color=color["color"], marker=marker["marker"], s=18, label=label)
    for text, point in zip([] if texts is None else texts, points):
        axes.annotate(text, point, xytext=(4, 2), textcoords="offset points", fontsize=8, parse_math=False)
    if labels is not None:
        for shown in axes.legend().get_texts():
            shown.set_parse_math(False)
    return axes.figure
