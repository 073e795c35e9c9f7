"""Wrong inputs over all tasks, adaptation, checkpoints, exports and the command, and what each of them leads to.

    python tools/mistakes.py
    python tools/mistakes.py --only "sample_weight" --messages  # some of them, with what they say

For each mistake, one of these is printed:

- `clear error`: the library raises an error that says what the case expects, and no weight has changed;
- `warning`: the call succeeds, and a warning or a log line says what the case expects;
- `right answer`: the library understands what was meant, which the case checks;
- `raw error`: an error of another library, or one that does not say what it should;
- `damage`: a clear error after weights have changed;
- `silent`: nothing is said, and the answer is not the right one.

The exit status is 1 if there is a raw error, damage or silence.
"""

import argparse
import collections
import logging
import pathlib
import re
import sys
import tempfile
import traceback
import warnings
from typing import NamedTuple

from mistake_cases import AREAS
from mistake_cases.models import Models, Refused

import keras_transfer

PACKAGE = str(pathlib.Path(keras_transfer.__file__).parent)
GOOD, BAD = ("clear error", "warning", "right answer"), ("raw error", "damage", "silent")


class Outcome(NamedTuple):
    """What a mistake led to, and what was said."""

    kind: str
    message: str


class Said(logging.Handler):
    """Collects the warnings and the log lines of a call."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())

    def __enter__(self):
        self._warnings = warnings.catch_warnings(record=True)
        self._caught = self._warnings.__enter__()
        warnings.simplefilter("always")
        logging.getLogger("keras_transfer").addHandler(self)
        return self

    def __exit__(self, *error):
        logging.getLogger("keras_transfer").removeHandler(self)
        # NumPy and TensorFlow warn of each other's deprecated functions.
        self.lines += [str(found.message) for found in self._caught if found.category is not DeprecationWarning]
        self._warnings.__exit__(*error)


def outcome(mistake, models):
    """Makes a mistake and returns its `Outcome`."""
    said = Said()
    try:
        with said:
            result = mistake.make(models)
    except Exception as error:
        message = str(error) or type(error).__name__
        expected = mistake.says if _is_ours(error) else mistake.elsewhere
        if not expected or not re.search(expected, message, re.DOTALL):
            return Outcome("raw error", f"{type(error).__name__}: {message}")
        return Outcome("damage" if models.have_changed() else "clear error", message)
    if mistake.right is not None and mistake.right(result):
        return Outcome("right answer", repr(result))
    message = "\n".join(said.lines)
    if mistake.says and re.search(mistake.says, message, re.DOTALL):
        return Outcome("warning", message)
    return Outcome("silent", message or repr(result))


def _is_ours(error):
    """Whether a `raise` statement of the library raised an error, or it is the refusal of its command."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return isinstance(error, Refused) or (last.filename.startswith(PACKAGE) and last.line.startswith("raise "))


def main(arguments=None):
    """Makes the mistakes, prints a line for each and the counts, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression for the area or the description")
    parser.add_argument("--every", type=int, default=1, help="make only every so many mistakes; default: 1")
    parser.add_argument("--messages", action="store_true", help="also print what is said")
    args = parser.parse_args(arguments)
    counts = collections.Counter()
    named = [(f"{area}: {mistake.what}", mistake) for area, mistakes in AREAS.items() for mistake in mistakes]
    for name, mistake in [pair for pair in named if re.search(args.only, pair[0])][:: args.every]:
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(mistake, Models(pathlib.Path(folder)))
        counts[found.kind] += 1
        print(f"{found.kind:<12}  {name}", flush=True)
        if args.messages or found.kind in BAD:
            print(f"              {' '.join(found.message.split())[:400]}", flush=True)
    print(", ".join(f"{kind}: {counts[kind]}" for kind in GOOD + BAD), f"of {counts.total()}")
    return int(any(counts[kind] for kind in BAD))


if __name__ == "__main__":
    sys.exit(main())
