"""How similar two representations of the same words or texts are: CKA, SVCCA and PWCCA, by layer and by model."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.analysis.result import Result
from keras_transfer.analysis.stored_states import hidden_states
from keras_transfer.core.arrays import to_numpy
from keras_transfer.core.expect import FLAG, POSITIVE, expect, expects, number, one_of
from keras_transfer.core.plots import STYLES, new_axes
from keras_transfer.training import layer_groups

METHODS = ("cka", "debiased_cka", "svcca", "pwcca")
_ROWS = 4096  # Number of vectors in memory at once.
_ROUNDING = 1e-10  # Directions with a smaller share of the largest variance are rounding errors.


@expects(kernel=one_of("linear", "rbf"), threshold=POSITIVE, debiased=FLAG)
def cka(a: Any, b: Any, *, kernel: str = "linear", threshold: float = 0.5, debiased: bool = False) -> float:
    """Returns the centered kernel alignment of two representations of the same rows.

    It is 1 if one is a rotation of the other, up to a factor and a shift. Other linear maps change it, so that
    directions of large variance count most. Without `debiased`, it is far above 0 for unrelated vectors if there are
    not many more rows than dimensions.

    Args:
        a: Array `[rows, dim]`.
        b: Array `[rows, other dim]`.
        kernel: `"linear"`, or `"rbf"`, which needs memory for `rows` x `rows` numbers. Defaults to `"linear"`.
        threshold: Float. Bandwidth of the RBF kernel, a multiple of the median distance. Defaults to `0.5`.
        debiased: Boolean. Whether to use an estimate without bias, which may be below 0. Defaults to `False`.

    Returns:
        Float.

    Raises:
        ValueError: If the arrays have other shapes or numbers of rows, or fewer than 4 rows, or if all rows are equal.

    Example:
    ```python
    a = np.random.default_rng(0).normal(size=(100, 5))
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
    keras_transfer.analysis.cka(a, 3 * a @ rotation)  # 1.0
    ```

    Source: Kornblith et al. 2019, "Similarity of neural network representations revisited".
    https://arxiv.org/abs/1905.00414
    """
    first, second = _pair(a, b)
    if kernel == "linear":
        return _cka(first, second, debiased)
    grams = [_centered_gram(_rbf(layer.values, threshold), debiased) for layer in (first, second)]
    return float((grams[0] * grams[1]).sum() / np.sqrt((grams[0] ** 2).sum() * (grams[1] ** 2).sum()))


@expects(variance=number(above=0, most=1))
def svcca(a: Any, b: Any, *, variance: float = 0.99) -> float:
    """Returns the mean canonical correlation of the main directions of two representations of the same rows.

    Each representation is reduced to the fewest principal axes that keep a share of its variance. The result is then
    the same for all invertible linear maps of what is left.

    Args:
        a: Array `[rows, dim]`, with more rows than dimensions.
        b: Array `[rows, other dim]`, with more rows than dimensions.
        variance: Float, above 0 and at most 1. Share of the variance that is kept. Defaults to `0.99`.

    Returns:
        Float between 0 and 1.

    Raises:
        ValueError: If the arrays have other shapes or numbers of rows, or at most as many rows as dimensions, or if all
            rows are equal.

    Example:
    ```python
    a = np.random.default_rng(0).normal(size=(100, 5))
    keras_transfer.analysis.svcca(a, a @ np.random.default_rng(1).normal(size=(5, 5)), variance=1)  # 1.0
    ```

    Source: Raghu et al. 2017, "SVCCA". https://arxiv.org/abs/1706.05806
    """
    first, second = _pair(a, b)
    return _canonical(first, second, variance)


def pwcca(a: Any, b: Any) -> float:
    """Returns the weighted mean of the canonical correlations of two representations of the same rows.

    The weight of a canonical direction is the sum of the absolute products with the neurons of the representation that
    has fewer dimensions, or of `a`: what it accounts for. Directions that are only noise count little.

    `pwcca.py` of the authors leaves out the whitening of the directions and adds means to them. It returns the same
    only if the neurons are uncorrelated, of equal variance and of mean 0. This function follows the paper.

    Args:
        a: Array `[rows, dim]`, with more rows than dimensions.
        b: Array `[rows, other dim]`, with more rows than dimensions.

    Returns:
        Float between 0 and 1.

    Raises:
        ValueError: If the arrays have other shapes or numbers of rows, or at most as many rows as dimensions, or if all
            rows are equal.

    Example:
    ```python
    a = np.random.default_rng(0).normal(size=(100, 5))
    keras_transfer.analysis.pwcca(a, a @ np.random.default_rng(1).normal(size=(5, 5)))  # 1.0
    ```

    Source: Morcos et al. 2018, "Insights on representational similarity in neural networks with canonical
    correlation". https://arxiv.org/abs/1806.05759
    """
    first, second = _pair(a, b)
    return _canonical(first, second, None)


@dataclasses.dataclass(repr=False)
class LayerSimilarity(Result):
    """The similarity of all pairs of layers, which `layer_similarity` returns. `rows` has a dict for each layer.

    Attributes:
        matrix: Float array `[layers, other layers]`.
        names: List of the names of the layers.
        others: List of the names of the other model's layers.
        method: String. How similarity is measured.
        count: Integer. Number of vectors.
    """

    matrix: np.ndarray
    names: list
    others: list
    method: str
    count: int

    index = ("layer",)

    def __post_init__(self):
        self.title = f"Similarity of layers: {self.method}"
        self.rows = [
            {"layer": name, **dict(zip(self.others, row.tolist()))} for name, row in zip(self.names, self.matrix)
        ]

    def _cells(self):
        rows = [[name, *(f"{value:.3f}" for value in row)] for name, row in zip(self.names, self.matrix)]
        return ["layer", *self.others], rows

    def _notes(self):
        return [f"{self.method} of {self.count:,} vectors."]

    def plot(self) -> Any:
        """Plots the similarities as a heat map, with the first layer at the bottom.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes = new_axes(2.4 + 0.42 * len(self.others), 1.6 + 0.36 * len(self.names))
        image = axes.imshow(self.matrix, cmap="Blues", vmin=0, vmax=1, origin="lower", aspect="auto")
        axes.set_xticks(range(len(self.others)), self.others, rotation=90)
        axes.set_yticks(range(len(self.names)), self.names)
        axes.figure.colorbar(image, ax=axes, label=self.method)
        return axes.figure


@expects(method=one_of(*METHODS))
def layer_similarity(
    model: Any,
    x: Any,
    other: Any = None,
    *,
    method: str = "cka",
    preprocessor: Any = None,
    layers: Sequence[str] | None = None,
    batch_size: int = 32,
    verbose: str | int = "auto",
) -> LayerSimilarity:
    """Returns how similar the layers of a model are to each other, or to those of another model.

    The similarity says how much of the geometry of the vectors is the same. It does not say which layer is better, and
    a low value may be due to a few directions that no later layer uses. The models may differ in their tokenizers and
    in their numbers of layers.

    Args:
        model: Task or encoder.
        x: List of lists of words, for the vectors of words, or list of texts, for the mean vectors of texts. A few
            hundred texts or some thousand words are enough.
        other: Task or encoder. Defaults to `None`, for the layers of `model` itself.
        method: `"cka"`, `"debiased_cka"` for fewer vectors than about ten times the dimensions, `"svcca"` or `"pwcca"`.
            Defaults to `"cka"`, with a linear kernel.
        preprocessor: Preprocessor of the models that are encoders. Tasks have their own. Defaults to `None`.
        layers: List of names or numbers of layers of both models. Defaults to `None`, all layers.
        batch_size: Integer. Number of texts per batch. Defaults to `32`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `LayerSimilarity`.

    Raises:
        ValueError: If a model has no hidden states or no preprocessor, if there is no such layer, or, for `"svcca"` and
            `"pwcca"`, if there are not more vectors than dimensions.

    Example:
    ```python
    preprocessor = keras_transfer.text.WordPreprocessor(["a", "b", "c"])
    encoder = keras_transfer.encoders.WordVectorEncoder(5, hidden_dim=4)
    found = keras_transfer.analysis.layer_similarity(encoder, [["a", "b"], ["c", "a"]], preprocessor=preprocessor)
    ```

    Source: Kornblith et al. 2019, figure 2. https://arxiv.org/abs/1905.00414
    """
    options = {"layers": layers, "batch_size": batch_size, "verbose": verbose}
    first = _layers(model, x, preprocessor, options)
    second = first if other is None else _layers(other, x, preprocessor, options)
    matrix = np.ones((len(first), len(second)))
    for row, a in enumerate(first.values()):
        for column, b in enumerate(second.values()):
            if other is None and column < row:
                matrix[row, column] = matrix[column, row]
            elif a is not b:
                matrix[row, column] = _similarity(a, b, method)
    return LayerSimilarity(matrix, list(first), list(second), method, next(iter(first.values())).count)


@dataclasses.dataclass(repr=False)
class MovedLayers(Result):
    """How far each layer group is from where it was, which `moved_layers` returns.

    Attributes:
        rows: List of dicts, one for each layer group: `group`, `kind`, `weights`, the distance between its weights
            before and after, divided by the length of those before, and `states`, 1 minus the linear CKA of its
            hidden states before and after, or `None`.
        left_out: List of the names of groups that are not in both models with the same shapes.
    """

    rows: list
    left_out: list

    title = "Moved layers"
    index = ("group",)

    def _cells(self):
        shown = [
            [row["group"], row["kind"], *("" if row[each] is None else f"{row[each]:.4f}" for each in _MOVED)]
            for row in self.rows
        ]
        return ["group", "kind", *_MOVED], shown

    def _notes(self):
        notes = ["weights: distance, divided by the length before. states: 1 - CKA of the hidden states."]
        return notes + ([f"Only in one of the models: {', '.join(self.left_out)}."] if self.left_out else [])

    def plot(self) -> Any:
        """Plots how far the weights and the hidden states of each group are from where they were.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes = new_axes(height=1.4 + 0.3 * len(self.rows))
        for name, style in zip(_MOVED, STYLES):
            known = [(row[name], place) for place, row in enumerate(self.rows) if row[name] is not None]
            if known:
                axes.plot(*zip(*known), label=name, **style)
        axes.set_yticks(range(len(self.rows)), [row["group"] for row in self.rows])
        axes.set_xlabel("distance from before")
        axes.set_xlim(left=0)
        axes.legend()
        return axes.figure


_MOVED = ("weights", "states")


def moved_layers(
    before: Any,
    after: Any,
    x: Any = None,
    *,
    preprocessor: Any = None,
    batch_size: int = 32,
    verbose: str | int = "auto",
) -> MovedLayers:
    """Returns how far fine-tuning moved the weights of each layer group, and the hidden states.

    The distance of weights depends on the learning rates, and most of that of embeddings on how many words the data
    has. States answer another question, how different the vectors of texts are: a layer whose weights did not
    move has other states if one below it did.

    Args:
        before: Task or encoder, such as the pretrained one, loaded again.
        after: Task or encoder of the same architecture, such as the fine-tuned one.
        x: List of lists of words or list of texts, as for `layer_similarity`. Defaults to `None`, for the weights only.
        preprocessor: Preprocessor of the models that are encoders. Tasks have their own. Defaults to `None`.
        batch_size: Integer. Number of texts per batch. Defaults to `32`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `MovedLayers`.

    Raises:
        ValueError: If the models have no layer group in common, or, with `x`, if they have no hidden states.

    Example:
    ```python
    before, after = (
        keras_transfer.encoders.BertEncoder(20, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16)
        for _ in range(2)
    )
    print(keras_transfer.analysis.moved_layers(before, after))
    ```
    """
    old, new = ({group.name: group for group in layer_groups(model)} for model in (before, after))
    common = [name for name in old if name in new and _shapes(old[name]) == _shapes(new[name])]
    expect(common, "`before` and `after` must have layer groups in common.", before=list(old), after=list(new))
    states = {}
    if x is not None:
        options = {"batch_size": batch_size, "verbose": verbose}
        first, second = (_layers(model, x, preprocessor, options) for model in (before, after))
        states = {name: 1 - _similarity(first[name], second[name], "cka") for name in first if name in second}
    rows = [
        {"group": name, "kind": old[name].kind, "weights": _distance(old[name], new[name]), "states": states.get(name)}
        for name in common
    ]
    return MovedLayers(rows, sorted({*old, *new} - {*common}))


def _shapes(group):
    return [tuple(variable.shape) for variable in group.variables]


def _distance(before, after):
    """Returns the distance between the weights of two groups, divided by the length of the first."""
    old, new = (
        np.concatenate([to_numpy(each).astype("float64").ravel() for each in group.variables])
        for group in (before, after)
    )
    moved, length = np.linalg.norm(new - old), np.linalg.norm(old)
    return 0.0 if not moved else float(moved / length) if length else math.inf


def _layers(model, x, preprocessor, options):
    """Returns the layers of a model by name, for texts that it reads with its own preprocessor if it has one."""
    preprocessor = getattr(model, "preprocessor", None) or preprocessor
    states = hidden_states(model, x, preprocessor=preprocessor, dtype=None, **options)
    return {name: _Layer(states.column(name)) for name in states.names}


class _Layer:
    """The vectors of a layer, which are read in parts, without their mean."""

    def __init__(self, values):
        self.values, self.dtype = values, np.result_type(values.dtype, "float32")
        self.count, self.width = values.shape
        self.mean = np.zeros(self.width, self.dtype)
        self.mean = (sum(part.sum(axis=0, dtype="float64") for part in self.parts()) / self.count).astype(self.dtype)
        self._own = None

    def parts(self):
        """Yields arrays [at most `_ROWS`, width] of vectors without their mean."""
        for start in range(0, self.count, _ROWS):
            yield np.asarray(self.values[start : start + _ROWS], self.dtype) - self.mean

    def products(self, other):
        """Returns the sums of products [width, other width] of the vectors of two layers."""
        return sum((a.T @ b).astype("float64") for a, b in zip(self.parts(), other.parts()))

    @property
    def own(self):
        """The sums of products [width, width] of the vectors with themselves, computed once."""
        if self._own is None:
            self._own = self.products(self)
        return self._own

    def squares(self):
        """Returns the squared length [rows] of each vector."""
        return np.concatenate([np.square(part, dtype="float64").sum(axis=1) for part in self.parts()])


def _pair(a, b):
    """Returns two arrays as layers, or raises a `ValueError` if they cannot be compared."""
    a, b = (np.asarray(to_numpy(each)) for each in (a, b))
    rule = "`a` and `b` must be numbers of shapes [rows, dim] and [rows, other dim], with at least 4 rows."
    fits = a.ndim == b.ndim == 2 and len(a) == len(b) >= 4 and a.size and b.size
    expect(fits and a.dtype.kind in "fiu" and b.dtype.kind in "fiu", rule, a=a.shape, b=b.shape)
    return tuple(_Layer(each.astype("float64")) for each in (a, b))


def _similarity(a, b, method):
    """Returns the similarity of two layers."""
    if method in ("cka", "debiased_cka"):
        return _cka(a, b, method == "debiased_cka")
    return _canonical(a, b, 0.99 if method == "svcca" else None)


def _cka(a, b, debiased):
    """Returns the linear CKA of two layers from sums of products, without a matrix of rows by rows."""
    if not debiased:
        across, first, second = (np.linalg.norm(each) for each in (a.products(b), a.own, b.own))
        _check_variance(first and second)
        return float(across**2 / (first * second))
    count, squares = a.count, (a.squares(), b.squares())

    def dot(cross, x, y):  # The dot product of two U-centered Gram matrices (Szekely and Rizzo 2014).
        diagonal = count / (count - 2) * (x @ y)
        return (cross**2).sum() - diagonal + x.sum() * y.sum() / ((count - 1) * (count - 2))

    x, y = squares
    scale = dot(a.own, x, x) * dot(b.own, y, y)
    _check_variance(scale > 0)
    return float(dot(a.products(b), x, y) / np.sqrt(scale))


def _check_variance(is_met):
    expect(is_met, "The vectors must differ. Without variance, nothing can be compared.", received="equal vectors")


def _rbf(values, threshold):
    """Returns the matrix [rows, rows] of a Gaussian kernel whose bandwidth is a multiple of the median distance."""
    products = values @ values.T
    lengths = np.diagonal(products)
    distances = lengths[:, None] + lengths - 2 * products
    return np.exp(-distances / (2 * threshold**2 * np.median(distances)))


def _centered_gram(gram, debiased):
    """Returns a Gram matrix as if its vectors had mean 0, or U-centered (Szekely and Rizzo 2014)."""
    count = len(gram)
    if debiased:
        np.fill_diagonal(gram, 0)
        means = gram.sum(axis=0) / (count - 2)
        means -= means.sum() / (2 * (count - 1))
    else:
        means = gram.mean(axis=0)
        means -= means.mean() / 2
    gram = gram - means[:, None] - means
    if debiased:
        np.fill_diagonal(gram, 0)
    return gram


def _canonical(a, b, variance):
    """Returns the mean canonical correlation of principal axes that keep a share of the variance, PWCCA for `None`."""
    rule = "There must be more vectors than dimensions, or correlations are 1 by chance. Pass more texts, or use CKA."
    expect(a.count > max(a.width, b.width), rule, vectors=a.count, dimensions=(a.width, b.width))
    whitening = _whitening(a.own, variance), _whitening(b.own, variance)
    turned, correlations, _ = np.linalg.svd(whitening[0].T @ a.products(b) @ whitening[1], full_matrices=False)
    if variance is not None:
        return float(np.minimum(correlations, 1).mean())
    if whitening[1].shape[1] < whitening[0].shape[1]:
        return _canonical(b, a, None)
    weights = np.abs(a.own @ whitening[0] @ turned).sum(axis=0)
    return float(weights @ np.minimum(correlations, 1) / weights.sum())


def _whitening(products, variance):
    """Returns the map [width, axes] to the principal axes that keep a share of the variance, each of variance 1."""
    values, axes = (each[..., ::-1] for each in np.linalg.eigh(products))
    _check_variance(values[0] > 0)
    kept = values > _ROUNDING * values[0]
    kept &= np.cumsum(values) - values < (2 if variance is None else variance) * values[kept].sum()
    return axes[:, kept] / np.sqrt(values[kept])
