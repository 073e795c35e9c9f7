"""Where the outputs of originals are, and fixed samples of large corpora and of all characters.

KERAS_TRANSFER_TEST_WHOLE=1 makes the samples the whole of them.
"""

import os
import pathlib

REFERENCES = pathlib.Path(__file__).parent / "references"

WHOLE = os.environ.get("KERAS_TRANSFER_TEST_WHOLE", "0") != "0"


def sample(items, step):
    """Returns every `step`th of a list."""
    return items if WHOLE else items[::step]


def characters(step=7):
    """Returns the characters of most alphabets and every `step`th of Unicode's planes 0 to 3, and a few of the others.

    From plane 4 on, Unicode has only tags, variation selectors, private use and unassigned code points.
    """
    codes = [*range(0x3000), *range(0x3000, 0x40000, step), *range(0xE0000, 0xE0200), *range(0x40000, 0x110000, 500)]
    return [chr(code) for code in (range(0x110000) if WHOLE else codes) if not 0xD800 <= code < 0xE000]
