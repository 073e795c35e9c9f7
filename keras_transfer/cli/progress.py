"""A progress bar on standard error, so that standard output contains results only."""

import sys
import time

WIDTH = 30


def bar_or_lines():
    """Returns the `verbose` of `fit`: a bar on a terminal, and one line for each epoch in a file or a pipe."""
    return 1 if sys.stdout.isatty() else 2


class Progress:
    """A context manager that shows a progress bar on a terminal, and otherwise prints only a summary at the end."""

    def __init__(self, noun):
        self.noun, self.count, self._shown = noun, 0, 0.0

    def __enter__(self):
        self._start = time.monotonic()
        return self

    def update(self, count, fraction):
        """Sets the count and the fraction, between 0 and 1, of what is done."""
        self.count, now = count, time.monotonic()
        if sys.stderr.isatty() and (fraction >= 1 or now - self._shown > 0.1):
            self._shown, done = now, int(WIDTH * fraction)
            bar = "=" * done + " " * (WIDTH - done)
            print(f"\r[{bar}] {fraction:4.0%}  {self._summary()}", end="", file=sys.stderr, flush=True)

    def __exit__(self, kind, error, trace):
        if sys.stderr.isatty() and self.count:
            print(file=sys.stderr)
        elif kind is None:
            print(self._summary(), file=sys.stderr)

    def _summary(self):
        seconds = max(time.monotonic() - self._start, 1e-3)
        return f"{self.count:,} {self.noun}, {self.count / seconds:,.0f} {self.noun} per second"
