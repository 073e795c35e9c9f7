"""A check of integers that users pass as arguments, such as sizes and counts."""

import numbers


def check_integer(name, value, least=None):
    """Returns the value of an argument as an int.

    Args:
        name: String. Name of the argument, for the error.
        value: What was passed.
        least: Integer. The lowest value. Defaults to `None`, for any.

    Raises:
        ValueError: If the value is not an integer of at least `least`.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or (least is not None and value < least):
        expected = "an integer" if least is None else f"an integer of at least {least}"
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")
    return int(value)
