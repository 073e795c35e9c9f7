"""The page of a report: one HTML file with its tables and pictures, and without scripts."""

import html
import io
import pathlib
import re
import warnings
from typing import Any

from keras_transfer.analysis import tables
from keras_transfer.analysis.tables import METRICS, shorten
from keras_transfer.core.files import atomic_file
from keras_transfer.core.plots import BLUE, GREY, RED, new_axes

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #4a5668; --line: #dde3ea; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ef; --soft: #a9b4c4; --line: #39424f; --paper: #161b22; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2em auto;
  max-width: 68em; padding: 0 1em; }
h1 { font-size: 1.6em; } h1[id] { margin-top: 2em; } h2 { font-size: 1.15em; margin: 2em 0 .5em; }
table { border-collapse: collapse; } .wide { overflow-x: auto; }
th, td { padding: .25em .7em; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); }
th, td { max-width: 16em; } .name { overflow-wrap: anywhere; min-width: 7em; } .number { white-space: nowrap; }
.texts td:last-child { min-width: 22em; max-width: 40em;
  white-space: pre-wrap; } h1 { overflow-wrap: anywhere; }
p { color: var(--soft); margin: .4em 0; } .side { display: flex; flex-wrap: wrap; gap: 2.5em; align-items: flex-start; }
.side > * { min-width: 0; max-width: 100%; } svg { max-width: 100%; height: auto; }
.both > * > p:first-child { font-weight: 600; margin-top: 1em; } .both h2 { margin-top: .5em; }
.both th, .both td { padding: .2em .35em; font-size: 13px; } .both td svg { width: 32px; }
p.words { color: var(--ink); line-height: 2; overflow-wrap: anywhere; }
.words span { unicode-bidi: isolate; padding: .15em .1em; border-radius: .2em; }
@media (max-width: 30em) { body { margin: 1em auto; padding: 0 .7em; } th, td { padding: .25em .35em; font-size: 14px; }
  .texts tr { display: flex; flex-wrap: wrap; } .texts tr > * { flex: 1 0 0; min-width: 0; border: 0; }
  .texts tr > :last-child { flex-basis: 100%; max-width: none; border-bottom: 1px solid var(--line); }
  .texts th { font-size: 12px; } .texts td:last-child { min-width: 0; } }
"""

LENGTH = 1000  # Number of characters of a text that the page shows.
WORDS = 1000  # Number of words of a colored text that the page shows.
NAME_LENGTH = 80  # Number of characters of a label that the page shows. The rest appears under the mouse pointer.
WORD_LENGTH = 14  # Number of characters of the longest word in a column header that is not broken into lines.
NUMBER = re.compile(r"[-+±\d.,%\[\] *e]*")


def write(path, title, body):
    """Writes a page with a title, a text, and content, HTML, into a file. Returns its path."""
    path, title = pathlib.Path(path), html.escape(tables.visible(title))
    content = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width">\n<style>{STYLE}</style>\n</head>\n<body>\n'
        f"<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.write(content.encode("utf-8"))
    return path


class Page:
    """What a notebook displays with `_repr_html_`, and what becomes a page."""

    title: str = ""
    _repr_html_: Any

    def to_html(self, path: str | pathlib.Path, title: str | None = None) -> pathlib.Path:
        """Writes what a notebook displays as one HTML page, which needs no other file, no script and no connection.

        Args:
            path: String or path. File to write. An existing file is replaced. Parent folders are created.
            title: String. Title of the page. Defaults to `None`, the attribute `title`.

        Returns:
            `path` as a `pathlib.Path`.

        Raises:
            OSError: If the file cannot be written. It is then unchanged.
        """
        return write(path, self.title if title is None else title, self._repr_html_())


def content_of(report, found):
    """Returns the tables and pictures of the page, which a notebook also displays."""
    metrics = found["metrics"]
    parts = [f"<p>{_escape(metrics.title)}</p>{_table(metrics)}"]
    for kind, table in found.items():
        if kind == "confusion":
            parts.append(section(table, colors=_confusion_colors(report)))
        elif kind in PICTURES:
            parts.append(section(table, picture(lambda draw=PICTURES[kind]: draw(report))))
        elif kind != "metrics":
            parts.append(section(table))
    return "\n".join(parts)


def text_spans(words, colors, titles=None):
    """Returns words as HTML with colors of their backgrounds (CSS, or "") and titles under the mouse pointer."""
    titles = titles or [""] * len(words)
    spans = []
    for word, color, title in list(zip(words, colors, titles))[:WORDS]:
        style = f' style="background: {color}"' if color else ""
        hint = f' title="{html.escape(title)}"' if title else ""
        spans.append(f"<span{style}{hint}>{_escape(word)}</span>")
    more = f" … {len(words) - WORDS:,} more words" if len(words) > WORDS else ""
    return f'<p class="words" dir="auto">{" ".join(spans)}{more}</p>'


def section(table, picture="", colors=None):
    """Returns a table with its title and note, next to a picture. Cells may have colors by their row and column."""
    note = f"<p>{_escape(table.note)}</p>" if table.note else ""
    return f'<h2>{_escape(table.title)}</h2>\n<div class="side">{picture}<div>{_table(table, colors)}{note}</div></div>'


def _confusion_colors(report):
    """Returns the colors of the cells of a confusion matrix, by the fraction of the rows with the same label."""
    if len(report.label_names) > tables.MAX_CLASSES:
        return {}
    totals = report.confusion_matrix.sum(axis=1)
    colors = {}
    for i, counts in enumerate(report.confusion_matrix):
        for j, count in enumerate(counts):
            if count:
                shade = "38, 120, 90" if i == j else "190, 70, 50"
                colors[i, j + 1] = f"background: rgba({shade}, {0.08 + 0.62 * count / totals[i]:.2f})"
    return colors


def _table(table, colors=None):
    colors = colors or {}

    def style(i, j):  # A notebook aligns all cells to the right.
        return "; ".join(filter(None, [colors.get((i, j)), "text-align: left" if table.texts or j == 0 else None]))

    heads = "".join(_cell("th", head, style(None, j)) for j, head in enumerate(table.heads))
    last = len(table.heads) - 1 if table.texts else None  # Texts are in the last column.
    rows = [
        "".join(_cell("td", cell, style(i, j), j == last) for j, cell in enumerate(row))
        for i, row in enumerate(table.rows)
    ]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    kind = "wide texts" if table.texts else "wide"
    return f'<div class="{kind}"><table>\n<tr>{heads}</tr>\n{body}\n</table></div>'


def _cell(tag, content, style=None, is_text=False):
    """Returns a cell. Names may be long and in any script, and numbers are not broken into lines."""
    style = f' style="{style}"' if style else ""
    if tag == "td" and NUMBER.fullmatch(content) and not is_text:
        return f'<td class="number"{style}>{_escape(content)}</td>'
    shown, more = content, ""
    if len(content) > NAME_LENGTH and not is_text:
        shown, more = content[: NAME_LENGTH - 1] + "…", f' title="{_escape(content)}"'
    breaks = tag == "td" or len(max(content.split(), key=len, default="")) > WORD_LENGTH
    kind = ' class="name"' if breaks else ""
    return f'<{tag}{kind} dir="auto"{style}{more}>{_escape(shown)}</{tag}>'


def _escape(text):
    text = text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"
    return html.escape(tables.visible(text))


def slices_chart(report):
    """Returns a figure of the accuracy, or another metric, of each slice and of all rows, with intervals."""
    metric = report.SLICE_METRICS[0]
    mean, slices = report.metrics[metric].value, [part for part in report.slices if part.metrics]
    axes = new_axes(6.0, 1.0 + 0.26 * len(slices))
    for place, part in enumerate(slices):
        value, low, high = part.metrics[metric]
        color = BLUE if low <= mean <= high else RED
        axes.errorbar(value, place, xerr=[[value - low], [high - value]], fmt="o", markersize=5, color=color)
    axes.axvline(mean, color=GREY, linestyle="--")
    axes.set_yticks(range(len(slices)), [shorten(part.name, 28) for part in slices], parse_math=False)
    axes.set(ylim=(len(slices) - 0.5, -0.5), xlabel=f"{METRICS[metric]} of each slice, dashed: all rows")
    axes.grid(axis="x", alpha=0.3)
    return axes.figure


def reliability_diagram(report):
    """Returns a figure of the accuracy of predictions by their confidence. The bars are as dark as they are many."""
    bins = [part for part in report.reliability if part.count]
    axes, most = new_axes(3.9, 3.9), max(part.count for part in bins)
    for part in bins:
        shade = 0.15 + 0.6 * part.count / most
        axes.bar(part.low, part.accuracy, part.high - part.low, align="edge", color=BLUE, alpha=shade)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--")
    axes.plot([part.confidence for part in bins], [part.accuracy for part in bins], "o", markersize=4, color=BLUE)
    axes.set(xlabel="confidence, dashed: perfect calibration", ylabel=f"accuracy, darker: more {report.COUNTED}")
    axes.grid(alpha=0.3)
    return axes.figure


PICTURES = {"reliability": reliability_diagram, "slices": slices_chart}


def picture(draw):
    """Returns the figure that a function returns as SVG, or nothing without Matplotlib. The table has all numbers."""
    try:
        import matplotlib
    except ImportError:
        return ""
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # The browser has other fonts.
        draw().savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()[file.getvalue().index("<svg") :]
