"""The clusters of a vocabulary that is sorted by frequency."""

import itertools
import math
import numbers

from keras import ops

from keras_transfer.core.integers import check_integer


class Clusters:
    """The tokens of each cluster, the most frequent ones first, and the width of their vectors.

    Args:
        cutoffs: List of integers. The first token of each cluster but the first.
        div_value: Float, at least 1. Factor by which each cluster is narrower than the one before.

    Attributes:
        bounds: List of tuples of integers, the first token of each cluster and the one after its last.
    """

    def __init__(self, cutoffs, size, div_value):
        found = list(cutoffs) if isinstance(cutoffs, (list, tuple)) else []
        found = [check_integer(f"cutoffs[{k}]", cutoff) for k, cutoff in enumerate(found)]
        edges = [0, *found, size]
        if not found or sorted(set(edges)) != edges:
            raise ValueError(
                f"`cutoffs` must be a list of increasing integers between 0 and {size}, the number of tokens. "
                f"Received: cutoffs={cutoffs!r}"
            )
        if isinstance(div_value, bool) or not isinstance(div_value, numbers.Real) or not 1 <= div_value < math.inf:
            raise ValueError(f"`div_value` must be at least 1. Received: div_value={div_value!r}")
        self.cutoffs, self.bounds = found, list(itertools.pairwise(edges))
        self._div_value = div_value

    def width(self, dim, number):
        """Returns the vectors' width in a cluster, given the width in the first cluster."""
        return max(1, int(dim // self._div_value**number))

    def places(self, tokens, number):
        """Returns the places of tokens in this cluster, any place for others, and whether each is in it."""
        begin, end = self.bounds[number]
        inside = ops.logical_and(tokens >= begin, tokens < end)
        return ops.clip(tokens - begin, 0, end - begin - 1), inside
