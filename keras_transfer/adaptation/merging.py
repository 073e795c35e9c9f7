"""Means of weights: soups and TIES of models that come from the same weights, and combinations of adapters."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.adapters import (
    NAME,
    adapted_encoder,
    adapter_weights,
    add,
    check_names,
    head_for,
)
from keras_transfer.adaptation.adapters.kind import NAMES
from keras_transfer.adaptation.adapters.lora import LoRA, LowRankAdapter
from keras_transfer.adaptation.ensembles import SHARES, checked_shares
from keras_transfer.core.expect import expect, expects, instance_of, list_of, number, one_of

_MODELS = list_of(instance_of((keras.Model, str, os.PathLike), "a model or the path of a file"), least=1)
_METHOD, _DENSITY = one_of("linear", "ties"), number(most=1, above=0)


class Soup(NamedTuple):
    """What `greedy_soup` has found.

    Attributes:
        used: List of integers. The positions of the models in the mean, the best one first.
        score: Float. The score of the mean.
        scores: List of floats. The score of each model.

    Example:
    ```python
    soup = keras_transfer.adaptation.Soup(used=[1, 0], score=0.94, scores=[0.92, 0.93, 0.9])
    soup.score - max(soup.scores)  # 0.01
    ```
    """

    used: list
    score: float
    scores: list


@expects(models=_MODELS, method=_METHOD, weights=SHARES, density=_DENSITY)
def merge_models(
    model: keras.Model,
    models: Sequence[Any],
    *,
    method: str = "linear",
    weights: Sequence[float] | None = None,
    density: float = 0.2,
) -> keras.Model:
    """Sets the weights of a model to a combination of those of several models that were trained from the same weights.

    Unlike an ensemble, the result is as small and as fast as one model. Only models of a common origin can be merged:
    trained from the same pretrained encoder, best also from the same head, with other seeds, data or hyperparameters,
    or checkpoints of one run. Others have their features at different places, and their mean is useless.

    With `"linear"`, each weight is the weighted mean, by default a uniform soup (Wortsman et al. 2022). `"ties"` (Yadav
    et al. 2023) is for models of different tasks, whose changes contradict each other. It keeps the largest changes of
    each model, elects a sign for each weight, and adds the mean of the changes with that sign. Weights that are equal
    in all models stay bit-identical.

    Args:
        model: Model of the same architecture, which receives the weights. With `"ties"`, its own are the common origin.
        models: List of models, or of paths of `.keras` or `.weights.h5` files, which are read one by one.
        method: String, `"linear"` or `"ties"`. Defaults to `"linear"`.
        weights: List of floats of at least 0 with the sum 1, one for each model. Defaults to `None`, equal weights.
        density: Float above 0, at most 1. Fraction of each model's changes that `"ties"` keeps. Defaults to `0.2`.

    Returns:
        The model.

    Raises:
        ValueError: If there are no models, if one has another architecture, other adapters or classes, if models were
            quantized separately, if a file cannot be read, or if `weights` are not one number for each model, with the
            sum 1. The model is then unchanged.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    model.save_weights("first.weights.h5")
    model.compile()
    model.fit(["What a film!", "What a bore."], ["good", "bad"])
    model.save_weights("second.weights.h5")
    keras_transfer.adaptation.merge_models(model, ["first.weights.h5", "second.weights.h5"])
    ```

    Source: https://arxiv.org/abs/2203.05482, https://arxiv.org/abs/2306.01708
    """
    shares, own = checked_shares(weights, len(models)), _averaged(model)
    start = _values(own)
    _assign(own, _combined((_values_of(model, each) for each in models), shares, start, method, density))
    return model


@expects(models=_MODELS, mode=one_of("max", "min"))
def greedy_soup(
    model: keras.Model, models: Sequence[Any], x: Any, y: Any = None, *, metric: str = "accuracy", mode: str = "max"
) -> Soup:
    """Sets the weights of a model to the mean of those models whose mean is best on validation data.

    The models are sorted by their score. Beginning with the best one, each is added to the mean if the score does not
    become worse. So the result is never worse than the best model on these data.

    Args:
        model: Compiled model, which receives the weights. It may be one of `models`.
        models: List of models of the same architecture and origin, or of paths of files, as for `merge_models`.
        x: Validation data, as for `evaluate`.
        y: Labels, as for `evaluate`. Defaults to `None`, for datasets, which contain labels.
        metric: String. Name of the score in the results of `evaluate`. Defaults to `"accuracy"`.
        mode: String. `"max"` if a higher score is better, or `"min"`, as for `"loss"`. Defaults to `"max"`.

    Returns:
        A `Soup` with the positions of the models in the mean, its score, and the scores of all models.

    Raises:
        ValueError: If `merge_models` rejects the models, if `model` is not compiled, or if `evaluate` does not return
            `metric`. The model is then unchanged.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=["bad", "good"])
    model.save_weights("first.weights.h5")
    model.compile()
    model.fit(["What a film!", "What a bore."], ["good", "bad"])
    model.save_weights("second.weights.h5")
    paths = ["first.weights.h5", "second.weights.h5"]
    keras_transfer.adaptation.greedy_soup(model, paths, ["A fine film."], ["good"]).used
    ```

    Source: Wortsman et al. 2022, https://arxiv.org/abs/2203.05482
    """
    own, sign = _averaged(model), 1 if mode == "max" else -1
    start = _values(own)

    def values_of(place):
        return start if models[place] is model else _values_of(model, models[place])  # `model` changes here.

    def score_of(values):
        _assign(own, values)
        found = model.evaluate(x, y, verbose=0, return_dict=True)
        expect(metric in found, f"`metric` must be one of the results of `evaluate`, {list(found)}.", metric=metric)
        return float(found[metric])

    try:
        scores = [score_of(values_of(place)) for place in range(len(models))]
        used, best, total = [], -np.inf, [np.zeros(weight.shape) for weight in own]
        for place in np.argsort(-sign * np.array(scores), kind="stable").tolist():  # Scores that are not numbers: last.
            added = [part + value for part, value in zip(total, values_of(place))]
            score = score_of([part / (len(used) + 1) for part in added]) if used else scores[place]
            if not used or sign * score >= best:
                used, best, total = [*used, place], sign * score, added
    except BaseException:
        _assign(own, start)
        raise
    _assign(own, [part / len(used) for part in total])
    return Soup(used, sign * best, scores)


@expects(names=NAMES, name=NAME, method=_METHOD, weights=SHARES, density=_DENSITY)
def combine_adapters(
    model: Any,
    names: Sequence[str],
    *,
    name: str = "combined",
    method: str = "linear",
    weights: Sequence[float] | None = None,
    density: float = 0.2,
) -> Any:
    """Adds adapters that combine several adapters of a model, without training.

    With `"linear"`, `LoRA` changes each layer by exactly the weighted mean of the changes: its matrices are
    concatenated, so that its rank is the sum of the ranks. Other kinds have the weighted mean of the weights, which
    requires adapters that were trained from the same start. `"ties"` merges the weights as `merge_models` does, from
    where the adapters change nothing. The head is the weighted mean of the heads.

    Args:
        model: Model with adapters.
        names: List of names of adapters of the same kinds and sizes.
        name: String. Name of the new adapters, which become the active ones. Defaults to `"combined"`.
        method: String, `"linear"` or `"ties"`. Defaults to `"linear"`.
        weights: List of floats of at least 0 with the sum 1, one for each name. Defaults to `None`, equal weights.
        density: Float above 0, at most 1. Fraction of the weights that `"ties"` keeps. Defaults to `0.2`.

    Returns:
        The model, which must be compiled.

    Raises:
        ValueError: If the model has no adapters with one of these names, if they differ in their kinds, if `name` is
            taken, or if `weights` are not one number for each of them, with the sum 1. The model is then unchanged.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    for name in ("first", "second"):
        keras_transfer.adaptation.add_adapters(model, "lora:r=4", name=name)
    keras_transfer.adaptation.combine_adapters(model, ["first", "second"], weights=[0.7, 0.3])
    ```

    Source: Chronopoulou et al. 2023, https://arxiv.org/abs/2302.07027; https://arxiv.org/abs/2306.01708
    """
    encoder = adapted_encoder(model)
    check_names(encoder, names)
    kinds, shares = [encoder.adapters[each] for each in names], checked_shares(weights, len(names))
    rule = "Only adapters of the same kinds and sizes can be combined."
    expect(all(each == kinds[0] for each in kinds), rule, kinds=kinds)
    heads = [] if model is encoder else [head_for(model, each) for each in names]
    weights_of = adapter_weights(encoder, names[0])
    states = [_values(adapter_weights(encoder, each).values()) for each in names]
    layers = [slot.adapters[names[0]] for slot in encoder.attached.slots if names[0] in slot.adapters]
    starts = {id(weight): value for layer in layers for weight, value in layer.starts()}
    start = [np.asarray(starts.get(id(weight), np.zeros(weight.shape))) for weight in weights_of.values()]
    found, kinds = dict(zip(weights_of, _combined(states, shares, start, method, density))), kinds[0]
    if method == "linear":
        pairs = [pair for layer in layers if _is_product(layer) for pair in layer.factors]
        axes = {id(weight): axis for pair in pairs for weight, axis in zip(pair, (1, 0))}
        for i, (place, weight) in enumerate(weights_of.items()):
            if (axis := axes.get(id(weight))) is not None:
                factors = [state[i] * (1 if axis else share) for state, share in zip(states, shares)]
                found[place] = np.concatenate(factors, axis)
        kinds = [_widened(kind, len(names)) if _is_product(kind) else kind for kind in kinds]
    add(model, kinds, name)
    for place, weight in adapter_weights(encoder, name).items():
        weight.assign(found[place])
    for values in zip(*heads):
        values[0][0].assign(sum(share * np.float64(value) for share, (_, value) in zip(shares, values)))
    return model


def ties(changes, shares, density):
    """Returns one change `[size]` for those of several models `[models, size]`: trims, elects signs, averages."""
    sizes, count = np.abs(changes), max(int(density * changes.shape[1]), 1)
    changes = np.where(sizes >= np.partition(sizes, -count, axis=1)[:, -count, None], changes, 0)
    sign = np.where(shares @ changes >= 0, 1, -1)
    shares = shares[:, None] * (np.sign(changes) == sign)
    total = shares.sum(axis=0)
    return (shares * changes).sum(axis=0) / np.where(total > 0, total, 1)


def _combined(states, shares, start, method, density):
    """Returns a combination of lists of arrays, which are read one by one, as such a list."""
    if method == "linear":
        total = [np.zeros(value.shape) for value in start]
        for share, state in zip(shares, states):
            total = [part + share * value for part, value in zip(total, state)]
        return total
    changes = np.stack([np.concatenate([(a - b).ravel() for a, b in zip(state, start)]) for state in states])
    changes = np.split(ties(changes, shares, density), np.cumsum([value.size for value in start])[:-1])
    return [value + change.reshape(value.shape) for value, change in zip(start, changes)]


def _averaged(model):
    """Returns the weights of a model that can be averaged: neither counters nor quantized matrices."""
    return [weight for weight in model.weights if keras.backend.is_float_dtype(weight.dtype)]


def _quantized(model):
    """Returns the quantized matrices of a model, of which no mean exists, as arrays."""
    return [ops.convert_to_numpy(weight) for weight in model.weights if weight.dtype in ("int8", "uint8")]


def _values(weights):
    """Returns float64 arrays, of which even a mean of equal values is exact."""
    return [np.array(ops.convert_to_numpy(weight), "float64") for weight in weights]


def _assign(weights, values):
    for weight, value in zip(weights, values):
        weight.assign(value)


def _values_of(model, source):
    """Returns what a model of the same architecture, or a file, has for the weights of `_averaged(model)`."""
    own = _averaged(model)
    if isinstance(source, keras.Model):
        ours, theirs = _described(model), _described(source)
        rule = "All models must have the architecture, the adapters and the classes of `model`."
        parts = zip(("class", "facts", *(weight.path for weight in own)), theirs, ours)
        wrong = next((part for part in parts if part[1] != part[2]), ("weights", len(theirs) - 2, len(own)))
        expect(ours == theirs, rule, received="{}={} instead of {}".format(*wrong))
        _check_quantized(_quantized(source), _quantized(model), source.name)
        return _values(_averaged(source))
    matrices = _quantized(model)
    before, optimizer = [np.array(value) for value in model.get_weights()], getattr(model, "optimizer", None)
    try:
        model.optimizer = None  # Otherwise, it would get the state of that in the file.
        model.load_weights(source)
        _check_quantized(_quantized(model), matrices, source)
        return _values(own)
    finally:
        model.optimizer = optimizer
        _assign(model.weights, before)


def _check_quantized(found, expected, source):
    """Raises a `ValueError` unless a model, or the file of one, has the quantized matrices of the merged model."""
    rule = "Quantized matrices have no mean. Merge the models before you quantize the result."
    expect(all(map(np.array_equal, found, expected)), rule, source=source)


def _described(model):
    """Returns what models must have in common so that their weights correspond, as a list."""
    facts = model.weight_facts() if hasattr(model, "weight_facts") else None
    return [type(model).__name__, facts, *(tuple(weight.shape) for weight in _averaged(model))]


def _is_product(part):
    """Returns whether a kind, or a layer, of adapters adds a product of two matrices and nothing else."""
    return isinstance(part, (LoRA, LowRankAdapter)) and not part.magnitude


def _widened(kind, count):
    """Returns `LoRA` of several times the rank and of the same scale."""
    rank = count * kind.rank
    return dataclasses.replace(kind, rank=rank, alpha=kind.scale * (rank**0.5 if kind.rank_stabilized else rank))
