"""Distances and depths in dependency trees, and spanning trees of distances, in NumPy."""

import numpy as np

from keras_transfer.core.expect import expect, instance_of
from keras_transfer.datasets import Trees, check_heads

TREES = instance_of(Trees, "`datasets.Trees`, such as `datasets.read_trees` returns")


def check_trees(trees, name):
    """Raises a `ValueError` unless an argument has sentences, each of which has a tree of as many words."""
    sizes = {field: len(column) for field, column in zip(trees._fields, trees)}
    expect(len(set(sizes.values())) == 1, f"The columns of `{name}` must have the same length.", **sizes)
    expect(len(trees.words), f"`{name}` must have at least one sentence.", trees)
    for sentence, columns in enumerate(zip(*trees)):
        where = f"`{name}`, sentence {sentence}"
        sizes = {field: len(column) for field, column in zip(trees._fields, columns)}
        rule = "A sentence must have a head, a relation and a tag for each word."
        expect(len(set(sizes.values())) == 1, rule, where=where, **sizes)
        check_heads(columns[1], where)


def tree_depths(heads):
    """Returns the number of edges between each word of a tree and its root, [words]."""
    governors = np.asarray(heads) - 1
    depths, above = np.zeros(len(heads), "int32"), governors
    while (above >= 0).any():
        depths += above >= 0
        above = np.where(above >= 0, governors[above], -1)
    return depths


def tree_distances(heads):
    """Returns the number of edges between each two words of a tree, [words, words]."""
    found, order = np.zeros((len(heads), len(heads)), "int32"), np.argsort(tree_depths(heads), kind="stable")
    for place, word in enumerate(order[1:], 1):  # Each word after its governor.
        above = order[:place]
        found[word, above] = found[above, word] = found[heads[word] - 1, above] + 1
    return found


def spanning_tree(distances, keep):
    """Returns the edges `(i, j)`, i < j, of the minimum spanning tree of the words to keep (Kruskal 1956).

    Of equal distances, the one that comes first by rows is preferred, as in the authors' code.
    """
    kept = np.flatnonzero(keep)
    first, second = np.triu_indices(len(kept), 1)
    order = np.argsort(distances[kept[first], kept[second]], kind="stable")
    group, edges = list(range(len(distances))), []
    for i, j in zip(kept[first[order]].tolist(), kept[second[order]].tolist()):
        if group[i] != group[j]:
            edges.append((i, j))
            group = [group[i] if each == group[j] else each for each in group]
    return edges
