"""What counts as raw text, and raw text in any form as plain columns of strings."""

import numpy as np


def is_pair(x):
    """Returns whether `x` is a pair of columns of texts: a tuple of two things that are not strings themselves."""
    return isinstance(x, tuple) and len(x) == 2 and not any(isinstance(part, (str, bytes, type(None))) for part in x)


def is_text(x):
    """Returns whether `x` is raw text or a pair of it, and not numbers, a dict or a dataset."""
    if is_pair(x):
        return is_text(x[0])
    if isinstance(x, (str, bytes)):
        return True
    if isinstance(x, (list, tuple)):
        # Texts with a gap among them are texts, with a mistake that `to_columns` names; so is an empty list.
        return not x or any(isinstance(value, (str, bytes)) for value in x)
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        return False
    name = getattr(dtype, "name", str(dtype))
    return name.startswith(("str", "object", "bytes", "category", "large_string"))


def to_columns(x):
    """Returns texts as a numpy array of `str`, and a pair of columns as a tuple of two such arrays.

    Args:
        x: a str, a list, tuple, numpy array (object, `<U` or bytes), pandas column or string tensor of rank 1; or a
            tuple of two such.

    Returns:
        An object array [texts], or a tuple of two.

    Raises:
        ValueError: something among them is not a string; the two columns differ in length.
    """
    if is_pair(x):
        first, second = to_columns(x[0]), to_columns(x[1])
        if len(first) != len(second):
            raise ValueError(f"both texts of each pair are needed. Received: {len(first)} and {len(second)} texts")
        return first, second
    x = [x] if isinstance(x, (str, bytes)) else x
    values = x.numpy() if hasattr(x, "numpy") else x
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    values = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
    wrong = [i for i, value in enumerate(values) if not isinstance(value, str)]
    if wrong:
        raise ValueError(
            f"every text must be a string. Received: {values[wrong[0]]!r} ({type(values[wrong[0]]).__name__}) at position "
            f"{wrong[0]}" + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
        )
    column = np.empty(len(values), object)
    column[:] = values
    return column
