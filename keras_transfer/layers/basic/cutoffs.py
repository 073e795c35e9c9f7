"""The clusters of a vocabulary that is sorted by frequency."""


def check_cutoffs(cutoffs, size):
    """Returns a list of the tokens at which clusters begin.

    Args:
        cutoffs: List of integers.
        size: Integer. Number of tokens.

    Raises:
        ValueError: If they are not increasing integers between 0 and the number of tokens.
    """
    found = list(cutoffs) if isinstance(cutoffs, (list, tuple)) else []
    bounds = [0, *found, size]
    if not found or not all(type(cutoff) is int for cutoff in found) or sorted(set(bounds)) != bounds:
        raise ValueError(
            f"`cutoffs` must be a list of increasing integers between 0 and {size}, the number of tokens. "
            f"Received: cutoffs={cutoffs!r}"
        )
    return found
