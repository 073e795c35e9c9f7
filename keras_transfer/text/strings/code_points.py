"""Sets of code points, written as in `"41 61-7A"`, which are the letters A and a to z."""

import pathlib
import tomllib

SETS = tomllib.loads(pathlib.Path(__file__).with_suffix(".toml").read_text("utf-8"))


def spans_of(ranges):
    """Returns the first and the last code point of each range."""
    spans = [[int(code, 16) for code in span.split("-")] for span in ranges.split()]
    return [(span[0], span[-1]) for span in spans]


def codes_of(ranges):
    """Returns all code points, as a list."""
    return [code for first, last in spans_of(ranges) for code in range(first, last + 1)]


def class_of(ranges):
    """Returns the inside of an RE2 character class."""
    return "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in spans_of(ranges))
