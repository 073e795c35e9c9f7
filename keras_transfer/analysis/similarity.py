"""How similar two representations of the same words or texts are: CKA, SVCCA and PWCCA, by layer and by model."""

import math
from typing import Any

import numpy as np

from keras_transfer.analysis.result import PlottedResult
from keras_transfer.analysis.stored_states import hidden_states
from keras_transfer.core.arrays import to_numpy
from keras_transfer.core.expect import NotApplicableError, expect, expects, one_of
from keras_transfer.core.plots import STYLES
from keras_transfer.training import layer_groups

METHODS = ("cka", "debiased_cka", "rbf_cka", "svcca", "pwcca")
_ROWS = 4096  # Number of vectors in memory at once.
_ROUNDING = 1e-10  # Directions with a smaller share of the largest variance are rounding errors.


@expects(method=one_of(*METHODS))
def representation_similarity(a: Any, b: Any, method: str = "cka") -> float:
    """Returns how similar two representations of the same rows are, whose dimensions may differ.

    - `"cka"`, the linear centered kernel alignment, is 1 if one is a rotation of the other, up to a factor and a shift.
      Directions of large variance count most. With few rows for the dimensions, it is far above 0 for any vectors.
    - `"debiased_cka"` is an estimate without this bias, which may be below 0.
    - `"rbf_cka"` has a Gaussian kernel of half the median distance, and needs memory for `rows` x `rows` numbers.
    - `"svcca"` is the mean canonical correlation of the principal axes that keep 99% of the variance of each side.
    - `"pwcca"` is the weighted mean of all canonical correlations. The weight of a direction is the sum of its absolute
      products with the neurons of the side of fewer dimensions, as in the paper, and not as in the authors' code.

    Args:
        a: Array `[rows, dim]`.
        b: Array `[rows, other dim]`.
        method: String. `"cka"`, `"debiased_cka"`, `"rbf_cka"`, `"svcca"` or `"pwcca"`. Defaults to `"cka"`.

    Returns:
        Float.

    Raises:
        ValueError: If the arrays have other shapes, are not finite, or have equal rows only; or if there are too few:
            at least 4 for `"debiased_cka"`, and more than dimensions for `"svcca"` and `"pwcca"`.

    Example:
    ```python
    a = np.random.default_rng(0).normal(size=(100, 5))
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
    keras_transfer.analysis.representation_similarity(a, 3 * a @ rotation)  # 1.0
    ```

    Source: Kornblith et al. 2019, https://arxiv.org/abs/1905.00414; Raghu et al. 2017 (SVCCA),
    https://arxiv.org/abs/1706.05806; Morcos et al. 2018 (PWCCA), https://arxiv.org/abs/1806.05759
    """
    a, b = (np.asarray(to_numpy(each)) for each in (a, b))
    rule = "`a` and `b` must be finite numbers of shapes [rows, dim] and [rows, other dim]."
    fits = a.ndim == b.ndim == 2 and len(a) == len(b) and a.size and b.size
    fits = fits and all(each.dtype.kind in "fiu" and np.isfinite(each).all() for each in (a, b))
    expect(fits, rule, a=a.shape, b=b.shape)
    return _similarity(_Layer(a), _Layer(b), method)


class LayerSimilarity(PlottedResult):
    """The similarity of all pairs of layers, which `layer_similarity` returns.

    `plot()` draws a heat map, with the first layer at the bottom.

    Attributes:
        rows: List of dicts, one for each layer, with the `layer` and its similarity to each other layer by name.
        matrix: Float array `[layers, other layers]`.
    """

    index = ("layer",)

    def __init__(self, matrix, names, others, method, count):
        self.matrix, self.title = matrix, f"Similarity of layers: {method}"
        self.rows = [{"layer": name, **dict(zip(others, row.tolist()))} for name, row in zip(names, matrix)]
        self.columns = {"layer": "", **dict.fromkeys(others, ".3f")}
        self.notes = [f"{method} of {count:,} vectors."]

    def _draw(self, axes):
        rows, columns = self.matrix.shape
        axes.figure.set_size_inches(2.4 + 0.42 * columns, 1.6 + 0.36 * rows)
        image = axes.imshow(self.matrix, cmap="Blues", vmin=0, vmax=1, origin="lower", aspect="auto")
        axes.set_xticks(range(columns), [*self.columns][1:], rotation=90)
        axes.set_yticks(range(rows), [row["layer"] for row in self.rows])
        axes.figure.colorbar(image, ax=axes, label=self.title)


@expects(method=one_of(*METHODS))
def layer_similarity(
    model: Any, x: Any, other: Any = None, *, method: str = "cka", preprocessor: Any = None, verbose: str | int = "auto"
) -> LayerSimilarity:
    """Returns how similar the layers of a model are to each other, or to those of another model.

    The models may differ in their tokenizers and in their numbers of layers.

    Args:
        model: Task or encoder.
        x: List of lists of words, or of texts, for their mean vectors. A few hundred texts are enough.
        other: Task or encoder. Defaults to `None`, for the layers of `model` itself.
        method: String, as for `representation_similarity`. Use `"debiased_cka"` for few vectors. Defaults to `"cka"`.
        preprocessor: Preprocessor of the models that are encoders. Tasks have their own. Defaults to `None`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `LayerSimilarity`.

    Raises:
        ValueError: If a model has no hidden states or no preprocessor, or if there are too few vectors.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.analysis.layer_similarity(model, ["A fine film.", "A dull film.", "The end."], verbose=0)
    ```

    Source: Kornblith et al. 2019, figure 2. https://arxiv.org/abs/1905.00414
    """
    first = _layers(model, x, preprocessor, verbose)
    second = first if other is None else _layers(other, x, preprocessor, verbose)
    matrix = np.ones((len(first), len(second)))
    for row, a in enumerate(first.values()):
        for column, b in enumerate(second.values()):
            if other is None and column < row and method != "pwcca":  # The others are symmetric.
                matrix[row, column] = matrix[column, row]
            elif a is not b:
                matrix[row, column] = _similarity(a, b, method)
    return LayerSimilarity(matrix, [*first], [*second], method, next(iter(first.values())).count)


class MovedLayers(PlottedResult):
    """How far each layer group is from where it was, which `moved_layers` returns.

    `plot()` draws both distances by layer group.

    Attributes:
        rows: List of dicts, one for each `group`, and for each other layer with hidden states, such as `"output"`: its
            `kind`, the distance between its `weights` before and after, divided by the length of those before, and that
            between its hidden `states`, 1 minus the linear CKA. `None` without.
        left_out: List of the names of groups that are not in both models with the same shapes.
    """

    title = "Moved layers"
    index = ("group",)
    columns = {"group": "", "kind": "", "weights": ".4f", "states": ".4f"}

    def __init__(self, rows, left_out):
        self.rows, self.left_out = rows, left_out
        self.notes = ["weights: distance, divided by the length before. states: 1 - CKA of the hidden states."]
        if left_out:
            self.notes.append(f"Only in one of the models: {', '.join(left_out)}.")

    def _draw(self, axes):
        axes.figure.set_figheight(1.4 + 0.3 * len(self.rows))
        for name, style in zip(("weights", "states"), STYLES):
            known = [(row[name], place) for place, row in enumerate(self.rows) if row[name] is not None]
            if known:
                axes.plot(*zip(*known), label=name, **style)
        axes.set_yticks(range(len(self.rows)), [row["group"] for row in self.rows])
        axes.set(xlabel="distance from before", xlim=(0, None))
        axes.legend()


def moved_layers(
    before: Any, after: Any, x: Any = None, *, preprocessor: Any = None, verbose: str | int = "auto"
) -> MovedLayers:
    """Returns how far fine-tuning moved the weights of each layer group, and the hidden states.

    The distance of weights depends on the learning rates, and that of embeddings on how many words the data has. A
    layer whose weights did not move has other states if one below it did.

    Args:
        before: Task or encoder, such as the pretrained one, loaded again.
        after: Task or encoder of the same architecture, such as the fine-tuned one.
        x: List of lists of words or list of texts, as for `layer_similarity`. Defaults to `None`, for the weights only.
        preprocessor: Preprocessor of the models that are encoders. Tasks have their own. Defaults to `None`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `MovedLayers`.

    Raises:
        ValueError: If the models have no layer group in common, or, with `x`, no hidden states.

    Example:
    ```python
    before = keras_transfer.encoders.BertEncoder(20, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
    print(keras_transfer.analysis.moved_layers(before, keras.models.clone_model(before)))
    ```
    """
    groups = [{group.name: group for group in layer_groups(model)} for model in (before, after)]
    old, new = ({name: [*map(to_numpy, group.variables)] for name, group in own.items()} for own in groups)
    common = [name for name in old if [*map(np.shape, old[name])] == [*map(np.shape, new.get(name, []))]]
    rule = "`before` and `after` must have layer groups in common."
    expect(common, rule, error=NotApplicableError, before=list(old), after=list(new))
    states = {}
    if x is not None:
        first, second = (_layers(model, x, preprocessor, verbose) for model in (before, after))
        states = {name: 1 - _similarity(first[name], second[name], "cka") for name in first if name in second}
    rows: list[dict] = []
    for name in [*common, *(name for name in states if name not in common)]:
        kind = groups[0][name].kind if name in common else "states"
        moved = _distance(old[name], new[name]) if name in common else None
        rows.append({"group": name, "kind": kind, "weights": moved, "states": states.get(name)})
    return MovedLayers(rows, sorted({*old, *new} - {*common}))


def _distance(before, after):
    """Returns the distance between two lists of arrays, divided by the length of the first."""
    old, new = (np.concatenate([each.astype("float64").ravel() for each in own]) for own in (before, after))
    moved, length = np.linalg.norm(new - old), np.linalg.norm(old)
    return 0.0 if not moved else float(moved / length) if length else math.inf


def _layers(model, x, preprocessor, verbose):
    """Returns the layers of a model by name, for texts that it reads with its own preprocessor if it has one."""
    preprocessor = getattr(model, "preprocessor", None) or preprocessor
    states = hidden_states(model, x, preprocessor=preprocessor, dtype=None, verbose=verbose)
    return {name: _Layer(states.column(name)) for name in states.names}


class _Layer:
    """The vectors of a layer, which are read in parts, without their mean, and their sums of products."""

    def __init__(self, values):
        self.values, (self.count, self.width) = values, values.shape
        self.mean = values.mean(axis=0, dtype="float64")
        self.own = self.products(self)
        rule = "The vectors must differ. Without variance, nothing can be compared."
        least = _ROUNDING**2 * self.count * (self.mean @ self.mean)
        expect(np.trace(self.own) > least, rule, error=NotApplicableError, received="equal vectors")

    def parts(self):
        """Yields arrays [at most `_ROWS`, width] of vectors without their mean."""
        for start in range(0, self.count, _ROWS):
            yield self.values[start : start + _ROWS] - self.mean

    def products(self, other):
        """Returns the sums of products [width, other width] of the vectors of two layers."""
        return sum(a.T @ b for a, b in zip(self.parts(), other.parts()))


def _similarity(a, b, method):
    """Returns the similarity of two layers."""
    if method in ("svcca", "pwcca"):
        return _canonical(a, b, 0.99 if method == "svcca" else None)
    if method == "rbf_cka":
        first, second = (_gaussian(layer.values) for layer in (a, b))
        return float((first * second).sum() / (np.linalg.norm(first) * np.linalg.norm(second)))
    if method == "cka":
        norms = [np.linalg.norm(each) for each in (a.products(b), a.own, b.own)]
        return float(norms[0] ** 2 / (norms[1] * norms[2]))
    count = a.count
    expect(count > 3, "Without bias, CKA is known for at least 4 vectors.", vectors=count)
    x, y = (np.concatenate([np.square(part).sum(axis=1) for part in layer.parts()]) for layer in (a, b))

    def dot(products, x, y):  # The dot product of two U-centered Gram matrices (Szekely and Rizzo 2014).
        diagonal = count / (count - 2) * (x @ y)
        return (products**2).sum() - diagonal + x.sum() * y.sum() / ((count - 1) * (count - 2))

    return float(dot(a.products(b), x, y) / np.sqrt(dot(a.own, x, x) * dot(b.own, y, y)))


def _gaussian(values):
    """Returns the centered matrix [rows, rows] of a Gaussian kernel of half the median distance."""
    products = values.astype("float64") @ values.T
    lengths = np.diagonal(products)
    distances = lengths[:, None] + lengths - 2 * products
    median = np.median(distances)
    expect(median > _ROUNDING * distances.max(), "More than half of the distances are 0. Use `cka`.", median=median)
    gram = np.exp(-distances / (2 * 0.5**2 * median))
    return gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()


def _canonical(a, b, variance):
    """Returns the mean canonical correlation of principal axes that keep a share of the variance, PWCCA for `None`."""
    rule = "There must be more vectors than dimensions, or correlations are 1 by chance. Pass more texts, or use CKA."
    expect(a.count > max(a.width, b.width), rule, vectors=a.count, dimensions=(a.width, b.width))
    whitening = _whitening(a.own, variance), _whitening(b.own, variance)
    turned, correlations, _ = np.linalg.svd(whitening[0].T @ a.products(b) @ whitening[1], full_matrices=False)
    correlations = np.minimum(correlations, 1)
    if variance is not None:
        return float(correlations.mean())
    if whitening[1].shape[1] < whitening[0].shape[1]:
        return _canonical(b, a, None)
    weights = np.abs(a.own @ whitening[0] @ turned).sum(axis=0)
    return float(weights @ correlations / weights.sum())


def _whitening(products, variance):
    """Returns the map [width, axes] to the principal axes that keep a share of the variance, each of variance 1."""
    values, axes = (each[..., ::-1] for each in np.linalg.eigh(products))
    kept = values > _ROUNDING * values[0]
    if variance is not None:
        kept &= np.cumsum(values) - values < variance * values.sum()
    return axes[:, kept] / np.sqrt(values[kept])
