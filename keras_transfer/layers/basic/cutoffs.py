"""The clusters of a vocabulary that is sorted by frequency."""

import itertools

from keras import ops

from keras_transfer.core.expect import expect


class Clusters:
    """The tokens of each cluster, the most frequent ones first, and the width of their vectors.

    Args:
        cutoffs: List of integers. The first token of each cluster but the first.
        div_value: Float, at least 1. Factor by which each cluster is narrower than the one before.

    Attributes:
        bounds: List of tuples of integers, the first token of each cluster and the one after its last.
    """

    def __init__(self, cutoffs, size, div_value):
        edges = [0, *cutoffs, size]
        rule = f"`cutoffs` must be increasing integers between 0 and {size}, the number of tokens."
        expect(sorted(set(edges)) == edges, rule, cutoffs=cutoffs)
        self.cutoffs, self.bounds = list(cutoffs), list(itertools.pairwise(edges))
        self._div_value = div_value

    def width(self, dim, number):
        """Returns the vectors' width in a cluster, given the width in the first cluster."""
        return max(1, int(dim // self._div_value**number))

    def places(self, tokens, number):
        """Returns the places of tokens in this cluster, any place for others, and whether each is in it."""
        begin, end = self.bounds[number]
        inside = ops.logical_and(tokens >= begin, tokens < end)
        return ops.clip(tokens - begin, 0, end - begin - 1), inside
