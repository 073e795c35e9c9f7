"""Distances and depths in dependency trees, spanning trees of distances, and how well they agree, in NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transfer.core.expect import expect, instance_of
from keras_transfer.datasets import Trees, check_heads

TREES = instance_of(Trees, "`datasets.Trees`, such as `datasets.read_trees` returns")


def tree_distances(heads: Sequence[int]) -> np.ndarray:
    """Returns the number of edges between each two words of a dependency tree.

    Args:
        heads: List of integers. The number of each word's governor, from 1, and 0 for the root, as in
            `datasets.Trees`.

    Returns:
        Integer array `[words, words]`.

    Raises:
        ValueError: If the heads are not a tree with one root.

    Example:
    ```python
    keras_transfer.analysis.tree_distances([2, 0, 2])  # [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    ```

    Source: Hewitt and Manning 2019. https://aclanthology.org/N19-1419
    """
    depths = tree_depths(heads)
    found, order = np.zeros((len(heads), len(heads)), "int32"), np.argsort(depths, kind="stable")
    for place, word in enumerate(order[1:], 1):  # Each word after its governor.
        above = order[:place]
        found[word, above] = found[above, word] = found[heads[word] - 1, above] + 1
    return found


def tree_depths(heads: Sequence[int]) -> np.ndarray:
    """Returns the number of edges between each word of a dependency tree and its root.

    Args:
        heads: List of integers. The number of each word's governor, from 1, and 0 for the root, as in
            `datasets.Trees`.

    Returns:
        Integer array `[words]`.

    Raises:
        ValueError: If the heads are not a tree with one root.

    Example:
    ```python
    keras_transfer.analysis.tree_depths([2, 0, 2])  # [1, 0, 1]
    ```

    Source: Hewitt and Manning 2019. https://aclanthology.org/N19-1419
    """
    check_heads(heads, "`heads`")
    governors = np.asarray(heads) - 1
    depths, above = np.zeros(len(heads), "int32"), governors
    while (above >= 0).any():
        depths += above >= 0
        above = np.where(above >= 0, governors[above], -1)
    return depths


def spanning_tree(distances: Any, keep: Any = None) -> list[tuple[int, int]]:
    """Returns the edges of the minimum spanning tree of some words, given their distances.

    Of equal distances, the one that comes first by rows is preferred, as in the authors' code.

    Args:
        distances: Symmetric array `[words, words]`.
        keep: Boolean array `[words]`. The words that the tree spans, such as all but punctuation. Defaults to `None`,
            all words.

    Returns:
        List of pairs of words, from 0, the smaller one first.

    Raises:
        ValueError: If the distances are not a square.

    Example:
    ```python
    distances = np.array([[0, 2, 1], [2, 0, 3], [1, 3, 0]])
    keras_transfer.analysis.spanning_tree(distances)  # [(0, 2), (0, 1)]
    ```

    Source: Kruskal 1956.
    """
    distances = np.asarray(distances)
    is_square = distances.ndim == 2 and distances.shape[0] == distances.shape[1]
    expect(is_square, "`distances` must be a square array [words, words].", shape=distances.shape)
    kept = np.arange(len(distances)) if keep is None else np.flatnonzero(keep)
    first, second = np.triu_indices(len(kept), 1)
    order = np.argsort(distances[kept[first], kept[second]], kind="stable")
    group, edges = list(range(len(distances))), []
    members = {word: [word] for word in group}
    for i, j in zip(kept[first[order]].tolist(), kept[second[order]].tolist()):
        one, other = group[i], group[j]
        if one != other:
            edges.append((i, j))
            for word in members[other]:
                group[word] = one
            members[one] += members.pop(other)
            if len(edges) == len(kept) - 1:
                break
    return edges


def uuas(distances: Sequence, heads: Sequence[Sequence[int]], keep: Sequence | None = None) -> float:
    """Returns the undirected unlabeled attachment score: the share of the edges of trees that spanning trees have.

    The edges of all sentences count alike. Words that are left out are also left out of the tree: what they connect is
    connected by the shortest paths.

    Args:
        distances: List of symmetric arrays `[words, words]`, one for each sentence.
        heads: List of lists of integers, as in `datasets.Trees`.
        keep: List of boolean arrays `[words]`. The words that count, such as all but punctuation. Defaults to `None`,
            all words.

    Returns:
        Float between 0 and 1.

    Raises:
        ValueError: If there are not as many distances as trees, or if the heads of a sentence are not a tree.

    Example:
    ```python
    distances = [np.array([[0, 1, 1], [1, 0, 3], [1, 3, 0]])]
    keras_transfer.analysis.uuas(distances, [[2, 0, 2]])  # 0.5, since (0, 1) is an edge, but (0, 2) is none
    ```

    Source: Hewitt and Manning 2019. https://aclanthology.org/N19-1419
    """
    rule = "There must be as many distances as trees."
    expect(len(distances) == len(heads), rule, distances=len(distances), heads=len(heads))
    right = total = 0
    for found, own, kept in zip(distances, heads, keep or [None] * len(heads)):
        edges = set(spanning_tree(tree_distances(own), kept))
        right += len(edges & set(spanning_tree(found, kept)))
        total += len(edges)
    return right / max(total, 1)


def rank_correlations(values, others):
    """Returns Spearman's correlation of each row of two arrays [rows, values], NaN where all values are equal."""

    def ranks(rows):
        above = rows[:, :, None] > rows[:, None]
        found = above.sum(axis=2) + (rows[:, :, None] == rows[:, None]).sum(axis=2) / 2
        return found - found.mean(axis=1, keepdims=True)

    first, second = ranks(np.asarray(values)), ranks(np.asarray(others))
    with np.errstate(invalid="ignore"):
        return (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))


def check_trees(trees, name):
    """Raises a `ValueError` unless each sentence of an argument has a tree of as many words."""
    sizes = {field: len(column) for field, column in zip(trees._fields, trees)}
    expect(len(set(sizes.values())) == 1, f"The columns of `{name}` must have the same length.", **sizes)
    for sentence, columns in enumerate(zip(*trees)):
        where = f"`{name}`, sentence {sentence}"
        sizes = {field: len(column) for field, column in zip(trees._fields, columns)}
        rule = "A sentence must have a head, a relation and a tag for each word."
        expect(len(set(sizes.values())) == 1, rule, where=where, **sizes)
        check_heads(columns[1], where)
