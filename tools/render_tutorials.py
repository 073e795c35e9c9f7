"""Runs the tutorials in examples/tutorials, and writes them as pages with their outputs and pictures.

    python tools/render_tutorials.py                      # all of them
    python tools/render_tutorials.py adapters --show      # one, whose output is also printed
    python tools/render_tutorials.py adapters --text      # after a change to its text only: keeps the outputs

A tutorial is a Python script whose cells begin with `# %%`, or with `# %% [markdown]` for text. Editors open it as a
notebook, and `jupytext --to notebook FILE` converts it into one. For each tutorial NAME, this writes
`docs/tutorials/NAME.md` and, for each matplotlib figure that is the last value of a cell, `docs/tutorials/NAME_1.png`
and so on. The tutorials on real data read it from the folder that KERAS_TRANSFER_DATA names.
"""

import argparse
import ast
import contextlib
import os
import pathlib
import re
import sys
import tempfile
import textwrap
import time
from typing import NamedTuple

from page_outputs import Screen

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
SOURCES, PAGES = REPOSITORY / "examples" / "tutorials", REPOSITORY / "docs" / "tutorials"
MARKER = re.compile(r"^# %%(.*)$", re.MULTILINE)
WIDTH = 116  # Longer lines of the output are broken.
OUTPUT = re.compile(r"(\n\n```text\n.*?\n```)?(\n\n!\[[^\n]*\]\([^\n]*\))?", re.DOTALL)
BAR = re.compile(" ━+ ")  # of Keras, when a run of batches has ended


class Cell(NamedTuple):
    """A part of a tutorial: its text in Markdown, or its code and the line where that begins."""

    is_code: bool
    text: str
    line: int


class Shown(NamedTuple):
    """What a cell has shown: what it printed, and its last value, or None."""

    printed: str
    value: object


def read_cells(path):
    """Returns the list of `Cell`s in a tutorial."""
    source = path.read_text("utf-8")
    markers, cells = list(MARKER.finditer(source)), []
    if not markers or source[: markers[0].start()].strip():
        raise ValueError(f"A tutorial begins with `# %%`. Received: {path}")
    for marker, end in zip(markers, [*(marker.start() for marker in markers[1:]), len(source)]):
        kind, text = marker[1].strip(), source[marker.end() + 1 : end].strip("\n")
        if kind not in ("", "[markdown]"):
            raise ValueError(f"A cell begins with `# %%` or `# %% [markdown]`. Received: {marker[0]!r} in {path}")
        if kind:
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
        cells.append(Cell(not kind, text, source[: marker.end() + 1].count("\n")))
    return cells


def run_cells(cells, path, names=None):
    """Yields each `Cell` with a `Shown`, or with None for text. The code cells share their variables."""
    names = {"__name__": "__main__"} if names is None else names
    for cell in cells:
        if not cell.is_code:
            yield cell, None
            continue
        tree = ast.parse("\n" * cell.line + cell.text, str(path))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        screen, value = Screen(), None
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            exec(compile(tree, str(path), "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), str(path), "eval"), names)
        yield cell, Shown(BAR.sub(" ", screen.text()), value)


def broken(text):
    """Returns a text whose long lines are broken between words."""
    lines = text.split("\n")
    options = {"subsequent_indent": "    ", "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(
        part for line in lines for part in ([line] if len(line) <= WIDTH else textwrap.wrap(line, WIDTH, **options))
    )


def render(path, folder, show=False):
    """Runs a tutorial in an empty working directory, and writes its page and pictures into a folder."""
    parts, began, pictures = [], (time.time(), time.process_time()), []
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        for cell, shown in run_cells(read_cells(path), path):
            if shown is None:
                parts.append(cell.text)
                continue
            parts.append(f"```python\n{cell.text}\n```")
            value = shown.value
            is_picture = hasattr(value, "savefig")
            if is_picture:
                pictures.append(f"{path.stem}_{len(pictures) + 1}.png")
                value.savefig(folder / pictures[-1], dpi=110)
            silent = value is None or is_picture or re.search(r" at 0x[0-9a-f]+>$", repr(value))
            says = "" if silent else str(value)
            printed = "\n".join(filter(None, [shown.printed, says]))
            if printed:
                parts.append(f"```text\n{broken(printed)}\n```")
            if is_picture:
                parts.append(f"![{caption(value)}]({pictures[-1]})")
            if show:
                print(parts[-1], flush=True)
    for old in folder.glob(f"{path.stem}_*.png"):  # Only now, so that a run that fails loses no picture.
        if old.name not in pictures:
            old.unlink()
    parts.append(how_made(path, time.time() - began[0], time.process_time() - began[1]))
    (folder / f"{path.stem}.md").write_text("\n\n".join(parts) + "\n", "utf-8")


def refresh(path, folder):
    """Writes the text of a tutorial into its page again, with the outputs that the page has."""
    page, parts = (folder / f"{path.stem}.md").read_text("utf-8"), []
    for cell in read_cells(path):
        if not cell.is_code:
            parts.append(cell.text)
            continue
        code = f"```python\n{cell.text}\n```"
        if code not in page:
            raise SystemExit(f"The code of {path.name} has changed: run it without --text. Received: {cell.text}")
        output = OUTPUT.match(page, page.index(code) + len(code))
        parts += [code + output[0]]
    parts.append(page[page.rindex("---\n\n`python tools") :].strip())
    (folder / f"{path.stem}.md").write_text("\n\n".join(parts) + "\n", "utf-8")


def caption(figure):
    """Returns what a figure says about itself, for readers who do not see it."""
    axes = figure.axes[0]
    shown = [axes.get_title() or axes.get_ylabel(), axes.get_xlabel()]
    return " by ".join(" ".join(text.split()) for text in shown if text) or "Picture"


def how_made(path, seconds, busy):
    """Returns the last lines of a page."""
    import keras

    backend = keras.backend.backend()
    version = getattr(__import__(backend), "__version__", "")
    text = (
        f"`python tools/render_tutorials.py {path.stem}` made this page from `examples/tutorials/{path.name}` in "
        f"{seconds // 60:.0f} min {seconds % 60:.0f} s ({busy:.0f} s of CPU time), on {len(os.sched_getaffinity(0))} "
        f"CPU cores that other processes shared, with Keras {keras.__version__} on {backend} {version}."
    )
    return "---\n\n" + textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="tutorials, without .py. Defaults to all of them")
    parser.add_argument("--show", action="store_true", help="print the outputs too")
    parser.add_argument("--text", action="store_true", help="run nothing, write only the text anew")
    parser.add_argument("--output", type=pathlib.Path, default=PAGES, help="folder. Defaults to docs/tutorials")
    args = parser.parse_args(arguments)
    known = sorted(path.stem for path in SOURCES.glob("*.py"))
    if unknown := sorted(set(args.names) - set(known)):
        parser.error(f"Expected names from {known}. Received: {unknown}")
    for name in args.names or known:
        began = time.time()
        if args.text:
            refresh(SOURCES / f"{name}.py", args.output)
            continue
        render(SOURCES / f"{name}.py", args.output.resolve(), args.show)
        print(f"{name}: {time.time() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
