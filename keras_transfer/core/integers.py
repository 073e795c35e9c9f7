"""A check of integers that users pass as arguments, such as sizes and counts."""

import numbers


def check_integer(name, value, least=None):
    """Returns the value of an argument as an int."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or (least is not None and value < least):
        expected = "an integer" if least is None else f"an integer of at least {least}"
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")
    return int(value)
