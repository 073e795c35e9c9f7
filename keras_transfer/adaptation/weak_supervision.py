"""Weak supervision: labels from many simple functions, weighted by the accuracy that a label model finds for each."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_transfer.core.expect import TEXT, Rule, expect, expects, integer, list_of, number, one_of
from keras_transfer.core.names import did_you_mean
from keras_transfer.text import to_columns

ABSTAINS = -1  # The vote of a function that returned `None`.
_MOST_STEPS, _CLOSE = 1000, 1e-10  # The largest number of steps, and the change of the accuracies that ends them.
_PRIOR = 0.7  # The accuracy that is expected of a function before any vote.


@expects(functions=list_of(Rule("a function", callable, ("a", None)), 1), label_names=list_of(TEXT, 2))
def apply_labeling_functions(functions: Sequence[Callable], texts: Any, label_names: Sequence[str]) -> np.ndarray:
    """Returns the votes of labeling functions on texts.

    Args:
        functions: List of functions of a text that return the name of a class, or `None` if they abstain.
        texts: List, array or column of strings.
        label_names: List of strings. The names of the classes.

    Returns:
        Integer array `[texts, functions]`: the position of the class in `label_names`, or -1.

    Raises:
        ValueError: If `texts` are pairs, if a function returns something else, or if all functions abstain on all
            texts.

    Example:
    ```python
    functions = [
        lambda text: "person" if text.startswith("Who") else None,
        lambda text: "place" if "where" in text.lower() else None,
    ]
    texts = ["Who wrote Hamlet?", "Where is Rome?", "Why?"]
    keras_transfer.adaptation.apply_labeling_functions(functions, texts, ["person", "place"])
    # [[0, -1], [-1, 1], [-1, -1]]
    ```
    """
    places = {name: place for place, name in enumerate(label_names)} | {None: ABSTAINS}
    texts = to_columns(texts)
    expect(not isinstance(texts, tuple), "`texts` must be single texts. Join the two texts of each pair.", texts=texts)
    texts = list(texts)
    votes = np.full((len(texts), len(functions)), ABSTAINS)
    for column, function in enumerate(functions):
        for row, text in enumerate(texts):
            name = function(text)
            if not (name is None or isinstance(name, str)) or name not in places:
                hint = did_you_mean(name, label_names) if isinstance(name, str) else ""
                rule = f"A labeling function must return None or one of {list(label_names)}.{hint}"
                expect(False, rule, name, function=_name_of(function, column), text=text)
            votes[row, column] = places[name]
    expect((votes >= 0).any(), "At least one labeling function must not abstain.", texts=len(texts))
    return votes


def _name_of(function, column):
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name} ({column})" if name == "<lambda>" else name


@dataclasses.dataclass(frozen=True)
class WeakLabels:
    """What a label model says about texts.

    Attributes:
        probabilities: Float array `[texts, classes]`. The probabilities of the classes: soft labels for `fit`.
        known: Boolean array `[texts]`. Whether at least one function did not abstain. The others have the shares of
            the classes, and are of no use for training.
        accuracies: Float array `[functions]`. How often each function is right when it does not abstain, as estimated
            without labels. `nan` if it always abstains.
        coverages: Float array `[functions]`. Fraction of the texts on which each function does not abstain.
        conflicts: Float array `[functions]`. Fraction of the texts on which another function votes differently.

    Example:
    ```python
    labels = keras_transfer.adaptation.combine_votes([[0, 0], [1, -1], [-1, -1]], num_classes=2)
    labels.known  # [True, True, False]
    ```
    """

    probabilities: np.ndarray
    known: np.ndarray
    accuracies: np.ndarray
    coverages: np.ndarray
    conflicts: np.ndarray

    def __str__(self):
        rows = ["function  coverage  conflicts  accuracy"]
        columns = zip(self.coverages, self.conflicts, self.accuracies)
        rows += [
            f"{row:8}  {cover:8.3f}  {other:9.3f}  {right:8.3f}" for row, (cover, other, right) in enumerate(columns)
        ]
        return "\n".join(rows)


@expects(num_classes=integer(2), model=one_of("generative", "majority"), prior_votes=number(0))
def combine_votes(
    votes: Any,
    num_classes: int,
    *,
    model: str = "generative",
    class_shares: Sequence[float] | None = None,
    prior_votes: float = 50,
) -> WeakLabels:
    """Combines the votes of labeling functions into soft labels.

    The generative model assumes that functions err independently, given the class: function j is right with probability
    a_j when it votes, and otherwise votes for each other class alike. Expectation maximization finds the most probable
    accuracies, given the votes, and needs no labels. The majority vote gives each function the same weight.

    Train a classifier on the result with a loss for probabilities: `compile(loss=keras.losses.CategoricalCrossentropy(
    from_logits=True))`, and `fit` with the texts and the rows of `probabilities` that are `known`.

    Args:
        votes: Integer array `[texts, functions]`: the position of a class, or -1 for a function that abstains.
        num_classes: Integer. Number of classes.
        model: String, `"generative"` or `"majority"`. The generative model needs at least three functions that often
            vote on the same texts. Defaults to `"generative"`.
        class_shares: List of floats `[classes]`. Shares of the classes, if they are known. Defaults to `None`, equal
            ones. They are not estimated, because functions that vote for one class each cannot tell them apart from
            their own errors.
        prior_votes: Float of at least 0. The expected accuracy of a function, 0.7, counts as much as this many votes.
            With 0, the accuracies are those with the highest likelihood. If few functions vote on the same texts, this
            may be that some are always wrong. Defaults to `50`.

    Returns:
        `WeakLabels`.

    Raises:
        ValueError: If `votes` has other values, or if all functions abstain on all texts.

    Example:
    ```python
    votes = np.array([[0, 0, -1], [1, 1, 0], [0, -1, 0], [1, 1, 1]])
    labels = keras_transfer.adaptation.combine_votes(votes, num_classes=2)
    labels.probabilities.argmax(axis=1)  # [0, 1, 0, 1]
    ```

    Source: https://arxiv.org/abs/1605.07723 and https://arxiv.org/abs/1711.10160.
    """
    votes = np.asarray(votes)
    fits = votes.ndim == 2 and votes.dtype.kind in "iu" and votes.size > 0
    fits = fits and votes.min() >= ABSTAINS and votes.max() < num_classes
    rule = f"`votes` must be integers [texts, functions] from -1 to {num_classes - 1}."
    expect(fits, rule, received=f"{votes.dtype} of shape {votes.shape}")
    given = votes >= 0
    expect(given.any(), "At least one labeling function must not abstain.", votes=votes.shape)
    shares = np.full(num_classes, 1 / num_classes) if class_shares is None else np.asarray(class_shares, "float64")
    fits = shares.shape == (num_classes,) and (shares > 0).all() and abs(shares.sum() - 1) < 1e-6
    expect(fits, f"`class_shares` must be {num_classes} positive numbers whose sum is 1.", class_shares=class_shares)

    chosen = votes[:, :, None] == np.arange(num_classes)  # [texts, functions, classes]
    counts, known = given.sum(axis=0), given.any(axis=1)
    if model == "majority":
        found = chosen.sum(axis=1)
        best = found == found.max(axis=1, keepdims=True)  # If several classes have most votes, they share the row.
        probabilities = np.where(known[:, None], best / best.sum(axis=1, keepdims=True), shares)
    else:
        accuracies = np.full(len(counts), _PRIOR)
        for _ in range(_MOST_STEPS):
            probabilities = _posterior(chosen, accuracies, shares)
            before, accuracies = accuracies, _accuracies(probabilities, chosen, counts, prior_votes)
            if np.abs(accuracies - before).max() < _CLOSE:
                break
        probabilities = _posterior(chosen, accuracies, shares)
    differs = given[:, :, None] & given[:, None] & (votes[:, :, None] != votes[:, None])
    return WeakLabels(
        probabilities=probabilities.astype("float32"),
        known=known,
        accuracies=np.where(counts > 0, _accuracies(probabilities, chosen, counts, prior_votes), np.nan),
        coverages=given.mean(axis=0),
        conflicts=differs.any(axis=2).mean(axis=0),
    )


def _accuracies(probabilities, chosen, counts, prior_votes):
    """Returns the expected fraction of the votes of each function that are right, with those before any vote."""
    right = np.einsum("tc,tfc->f", probabilities, chosen) + prior_votes * _PRIOR
    return right / np.maximum(counts + prior_votes, 1)


def _posterior(chosen, accuracies, shares):
    """Returns the probabilities of the classes of each text, given its votes."""
    accuracies = np.clip(accuracies, 1e-6, 1 - 1e-6)
    wrong = np.log((1 - accuracies) / (len(shares) - 1))
    scores = np.einsum("tfc,f->tc", chosen, np.log(accuracies) - wrong) + np.log(np.maximum(shares, 1e-12))
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)
