"""Runs the blocks of pages in `docs`, and writes what each block prints and logs below it.

    python tools/page_outputs.py docs/tasks/classification.md            # prints the page with its outputs
    python tools/page_outputs.py docs/tasks/classification.md --write    # changes the page

The blocks of a page share their variables. A block that prints, or in which the library logs a warning, is followed by
a block in ```text, which this tool replaces or inserts. A line `<!-- not run: REASON -->` above a block leaves the
block out, and `<!-- output: shortened -->` above an output keeps that output as it is.
"""

import argparse
import contextlib
import io
import logging
import pathlib
import re
import sys
import tempfile
import textwrap
import time

BLOCK = re.compile(
    r"(?P<reason>^ *<!-- not run: [^\n]+ -->\n+)?"
    r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```[ ]*\n"
    r"(?P<output>\n*(?P<kept><!-- output: shortened -->\n+)?^(?P=indent)```text\n.*?^(?P=indent)```[ ]*\n)?",
    re.MULTILINE | re.DOTALL,
)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
# The time of an epoch and of a step, which depends on the machine.
TIMES = re.compile(r"^( *\d+/\d+(?: ━+)?)(?: -)? \d+s(?: -)? \d+(?:\.\d+)?[mu]?s/step", re.MULTILINE)


class Screen(io.StringIO):
    """What a terminal shows: a progress bar replaces its earlier state. The times in it are left out."""

    def isatty(self):
        return True

    def text(self):
        lines = ESCAPES.sub("", self.getvalue()).replace("\b", "").split("\n")
        shown = [([part for part in line.split("\r") if part.strip()] or [""])[-1].rstrip() for line in lines]
        return TIMES.sub(r"\1", "\n".join(shown)).strip("\n")


@contextlib.contextmanager
def shown_on(screen):
    """Shows on a screen what is printed, and the messages that the library logs, which a terminal shows too."""
    logger, handler = logging.getLogger("keras_transfer"), logging.StreamHandler(screen)
    logger.addHandler(handler)
    try:
        with contextlib.redirect_stdout(screen):
            yield
    finally:
        logger.removeHandler(handler)


def blocks(text):
    """The code of each block of a page that is not marked `<!-- not run: ... -->`."""
    text = (text or "") + "\n"  # A docstring may end with a block.
    return [textwrap.dedent(match["code"]) for match in BLOCK.finditer(text) if not match["reason"]]


def with_outputs(text, names):
    """The page after its blocks have run with the variables `names`, each block followed by what it has shown."""

    def run(match):
        if match["reason"]:
            return match[0]
        screen, code = Screen(), textwrap.dedent(match["code"])
        with shown_on(screen):
            exec(compile(code, "page", "exec"), names)
        if match["kept"]:
            return match[0]
        source = match[0][: match.start("output") - match.start()] if match["output"] else match[0]
        shown = textwrap.indent(screen.text(), match["indent"])
        fence = match["indent"] + "```"
        return f"{source}\n{fence}text\n{shown}\n{fence}\n" if screen.text() else source

    return BLOCK.sub(run, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=pathlib.Path, help="pages of `docs`")
    parser.add_argument("--write", action="store_true", help="change the pages")
    options = parser.parse_args()
    for page in [page.resolve() for page in options.pages]:
        text = page.read_text("utf-8")
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            result = with_outputs(text, {"__name__": "page"})
        print(f"{page.name}: {time.process_time() - started:.0f} s of CPU time", file=sys.stderr)
        if options.write:
            page.write_text(result, "utf-8")
        else:
            print(result)


if __name__ == "__main__":
    main()
