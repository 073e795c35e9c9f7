"""What is in a row, and how the rows of a batch become an item."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Contents:
    """What is in a row, and how a batch of rows becomes an item.

    Args:
        kind: String. What a row is: `"texts"`, `"pairs"`, `"parts"` (several texts that are read apart) or `"words"`.
            Defaults to `None`, if it is unknown.
        prepare: Function that returns an item, given a tuple of the inputs, the labels (or None) and the weights (or
            None) of a batch, its length, and a `np.random.Generator`. Defaults to `None`, for an item of those of the
            three that there are.
        makes_labels: Boolean. Whether `prepare` makes the labels. Defaults to `False`.
        places: `WordPlaces`, for words. Defaults to `None`.
        real_labels: Integer array [rows]. The length of each row of labels [rows, length] that are padded on the right,
            such as target texts. Defaults to `None`, for labels that are not sequences.
    """

    kind: str | None = None
    prepare: object = None
    makes_labels: bool = False
    places: object = None
    real_labels: object = None
