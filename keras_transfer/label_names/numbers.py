"""Numbers as labels of classes whose names are numbers, too: such a label may be a name or a position."""

import math

import numpy as np

from keras_transfer.names import listed

_BOOLEANS = {"false": False, "true": True}


def as_positions(labels, names):
    """Returns numbers that are all names, or all positions, as positions.

    Args:
        labels: Array of numbers or booleans.
        names: List of strings. The names of the classes, in order.

    Returns:
        An int32 array of positions, or `labels` unchanged if they are positions already.
    """
    places = _places(names, labels.dtype.kind == "b")
    if _are_places(places) or not labels.size:
        return labels
    found = np.unique(labels).tolist()
    are_names = all(value in places for value in found)
    are_places = labels.dtype.kind != "b" and all(0 <= value < len(names) and value % 1 == 0 for value in found)
    if are_names and not (are_places and any(places[value] != value for value in found)):
        flat = [places[value] for value in labels.ravel().tolist()]
        return np.array(flat, "int32").reshape(labels.shape)
    if are_names:
        raise ValueError(
            f"Labels must not be numbers that are both names in `label_names`, {listed(names)}, and positions of "
            "other names. Pass the names as strings, `[str(label) for label in labels]`, or, for positions, "
            f"`[model.label_names[label] for label in labels]`. Received: {labels.ravel()[0]} at position 0"
        )
    if are_places:
        return labels
    known = places if any(value in places for value in found) else range(len(names))
    [wrong] = np.flatnonzero([value not in known for value in labels.ravel().tolist()])[:1]
    raise ValueError(
        f"Labels that are numbers must all be names in `label_names`, {listed(names)}, or all be positions, from 0 "
        f"to {len(names) - 1}. Received: {labels.ravel()[wrong]} at position {wrong}"
    )


def as_names(labels, names):
    """Returns numbers as a list of names if a part of them could be read in two ways, and otherwise unchanged."""
    if _are_places(_places(names, labels.dtype.kind == "b")):
        return labels
    return [names[int(place)] for place in as_positions(labels, names).ravel()]


def _are_places(places):
    """Returns whether no name is a number, or each one that is a number is its own position."""
    return all(value == place for value, place in places.items())


def _places(names, booleans):
    """Returns a dict from the numbers or booleans among the names to their positions."""
    lower = {name.lower(): place for place, name in enumerate(names)}
    if booleans and lower.keys() == _BOOLEANS.keys():
        return {_BOOLEANS[name]: place for name, place in lower.items()}
    numbers = {}
    for place, name in enumerate(names):
        try:
            value = float(name)
        except ValueError:  # This name is a word.
            continue
        if math.isfinite(value):
            numbers.setdefault(value, place)
    if booleans and not {0.0, 1.0} <= numbers.keys():
        raise ValueError(
            f"Labels must not be booleans, which are not among `label_names`, {listed(names)}. Pass the names as "
            "strings, or positions as integers. Received: labels of type bool"
        )
    return numbers


def keys_as_positions(keys, names):
    """Returns the keys of `class_weight`, names or numbers, as a list in which names are positions.

    Numbers are read as `as_positions` reads them. Keys that are neither are returned unchanged.
    """
    places, keys = {name: place for place, name in enumerate(names)}, list(keys)
    numbers = [key for key in keys if isinstance(key, (int, float, np.number)) and not isinstance(key, bool)]
    if numbers:
        try:
            places |= dict(zip(numbers, as_positions(np.array(numbers), names).tolist()))
        except ValueError as error:
            raise ValueError(f"Invalid keys of `class_weight`. Pass names of classes as strings. {error}") from None
    return [places.get(key, key) for key in keys]
