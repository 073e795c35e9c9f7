"""Labels and weights of words, a list for each sentence, as arrays with one value for each word of all sentences."""

import numpy as np

from keras_transfer.arrays import check_weights
from keras_transfer.label_names.columns import whole_labels
from keras_transfer.label_names.numbers import as_positions, keys_as_positions
from keras_transfer.names import listed


def label_ids(sentences, labels, names=None):
    """Returns the labels of all words as one integer array.

    Args:
        sentences: List of lists of strings.
        labels: List of lists of integers, or of strings that are among the names.
        names: List of strings, or `None` if all labels are integers. Defaults to `None`.
    """
    labels = whole_labels(labels, names)
    labels = labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)
    if len(labels) != len(sentences):
        raise ValueError(
            "Labels must contain one list for each sentence. "
            f"Received: {len(labels)} lists of labels, {len(sentences)} sentences"
        )
    known = {name: index for index, name in enumerate(names or ())}
    numbers = range(len(known)) if names else range(2**31 - 1)
    expected = (
        f"one of {listed(names)}, or its index" if names else "integers of at least 0 (names require `label_names`)"
    )
    ids, named = [], _numbers_as_positions(labels, names or ())
    for index, (words, tags) in enumerate(zip(sentences, labels)):
        tags = [tags] if isinstance(tags, (str, bytes)) or not hasattr(tags, "__len__") else list(tags)
        if len(tags) != len(words):
            raise ValueError(
                f"Labels must contain one label for each word. Received: {len(words)} words, {words[:8]}, and "
                f"{len(tags)} labels, {tags[:8]}, in sentence {index}"
            )
        for word, tag in zip(words, tags):
            is_integer = isinstance(tag, (int, np.integer)) and not isinstance(tag, bool)
            number = named.get(tag, tag) if is_integer else known.get(tag) if isinstance(tag, str) else None
            if number is None or number not in numbers:
                raise ValueError(f"Labels must be {expected}. Received: {tag!r} for {word!r} in sentence {index}")
            ids.append(number)
    return np.array(ids, "int32")


def _numbers_as_positions(labels, names):
    """Returns a dict from the integers among the labels of words to their positions, if these are not the same."""
    rows = (tags for tags in labels if hasattr(tags, "__len__") and not isinstance(tags, (str, bytes)))
    found = [tag for tags in rows for tag in tags if isinstance(tag, (int, np.integer)) and not isinstance(tag, bool)]
    found = sorted(set(found))
    return dict(zip(found, as_positions(np.array(found, int), names).tolist()))


def weights_of_words(weights, names, ids):
    """Returns the weight of each word [words]."""
    by_id = dict(zip(keys_as_positions(weights or {}, names or ()), (weights or {}).values()))
    wrong = [label for label in by_id if isinstance(label, str) or (names and label not in range(len(names)))]
    if wrong:
        expected = listed(names) if names else "integers (names require `label_names`)"
        raise ValueError(f"The keys of `class_weight` must be labels: {expected}. Received: {wrong}")
    check_weights(np.array(list(by_id.values())), "class_weight")
    return np.array([by_id.get(label, 1.0) for label in ids.tolist()], "float32")
