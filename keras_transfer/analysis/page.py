"""The page of a report: one HTML file with its tables and pictures, and without scripts."""

import html
import math
import re

from keras_transfer.analysis import tables
from keras_transfer.analysis.tables import METRICS, shorten

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1c2430; background: #fff; margin: 2em auto; max-width: 68em;
  padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.15em; margin: 2em 0 .5em; }
table { border-collapse: collapse; } .wide { overflow-x: auto; }
th, td { padding: .25em .7em; text-align: right; border-bottom: 1px solid #dde3ea; vertical-align: top; }
th { font-weight: 600; color: #4a5668; } th:first-child, td:first-child { text-align: left; }
th, td { max-width: 16em; } .name { overflow-wrap: anywhere; min-width: 4em; } .number { white-space: nowrap; }
.texts th, .texts td { text-align: left; } .texts td:last-child { min-width: 22em; max-width: 40em;
  white-space: pre-wrap; } h1 { overflow-wrap: anywhere; }
p { color: #4a5668; margin: .4em 0; } .side { display: flex; flex-wrap: wrap; gap: 2.5em; align-items: flex-start; }
svg { max-width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: #4a5668; }
"""

LENGTH = 1000  # Number of characters of a text that the page shows.
NAME_LENGTH = 80  # Number of characters of a label that the page shows. The rest appears under the mouse pointer.
WORD_LENGTH = 14  # Number of characters of the longest word in a column header that is not broken into lines.
NUMBER = re.compile(r"[-\d.,\[\] *e]*")
BLUE, RED, GREY, LIGHT = "#2f6db3", "#be4632", "#8a95a5", "#dde3ea"
SIZE, MARGIN = 280, 44  # The diagram and the space for its axes, in pixels.


def page_of(report, found, title):
    """Returns the page as a string."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width">\n<style>{STYLE}</style>\n</head>\n<body>\n'
        f"<h1>{title}</h1>\n{content_of(report, found)}\n</body>\n</html>\n"
    )


def content_of(report, found):
    """Returns the tables and pictures of the page, which a notebook also displays."""
    metrics = found["metrics"]
    parts = [f"<p>{_escape(metrics.title)}</p>{_table(metrics)}"]
    for kind, table in found.items():
        if kind == "confusion":
            parts.append(section(table, colors=_confusion_colors(report)))
        elif kind in PICTURES:
            parts.append(section(table, PICTURES[kind](report)))
        elif kind != "metrics":
            parts.append(section(table))
    return "\n".join(parts)


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
    heads = "".join(_cell("th", head) for head in table.heads)
    last = len(table.heads) - 1 if table.texts else None  # Texts are in the last column.
    rows = [
        "".join(_cell("td", cell, colors.get((i, j)), j == last) for j, cell in enumerate(row))
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
    """Returns the accuracy, or another metric, of each slice and of all rows, with intervals."""
    metric = report.SLICE_METRICS[0]
    slices = [part for part in report.slices if part.metrics]
    lowest = min([part.metrics[metric].low for part in slices] + [report.metrics[metric].low, 0.9])
    spacing = 0.2 if lowest < 0.5 else 0.1 if lowest < 0.8 else 0.05  # Of the ticks.
    ticks = [1 - spacing * number for number in range(math.ceil(round((1 - lowest) / spacing, 6)) + 1)]
    least = ticks[-1]
    left, top, step = 200, 34, 24
    bottom = top + step * len(slices)

    def place(value):
        return left + 260 * (value - least) / (1 - least)

    marks = []
    for tick in ticks:
        marks += [_line(place(tick), top, place(tick), bottom, LIGHT)]
        marks += [_text(place(tick), bottom + 16, f"{tick:.4g}", "middle")]
    mean = report.metrics[metric].value
    marks.append(_line(place(mean), top - 4, place(mean), bottom, GREY, ' stroke-dasharray="5 4"'))
    marks.append(_text(left, top - 16, f"{METRICS[metric]} of each slice, dashed: all rows"))
    for number, part in enumerate(slices):
        score, y = part.metrics[metric], top + step * number + step / 2
        color = BLUE if score.low <= mean <= score.high else RED
        marks.append(_text(left - 10, y + 4, shorten(part.name, 28), "end"))
        marks.append(_line(place(score.low), y, place(score.high), y, color, ' stroke-width="2"'))
        marks.append(
            f'<circle cx="{place(score.value):.1f}" cy="{y:.1f}" r="4" fill="{color}"><title>'
            f"{html.escape(shorten(part.name, 100))}: {score.value:.3f} of {len(part.rows):,} rows</title></circle>"
        )
    return _picture(left + 290, bottom + 26, f"{METRICS[metric].capitalize()} of each slice", marks)


def reliability_diagram(report):
    """Returns the accuracy of predictions by their confidence, above their number in each bin."""
    bins, counted = report.reliability, report.COUNTED
    most = max(part.count for part in bins)
    below = MARGIN + SIZE + 30  # The numbers begin here.
    marks = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x, y = _x(tick), _y(tick)
        marks += [_line(x, _y(0), x, _y(1), LIGHT), _line(_x(0), y, _x(1), y, LIGHT)]
        marks += [_text(x, _y(0) + 16, f"{tick:g}", "middle"), _text(_x(0) - 6, y + 4, f"{tick:g}", "end")]
    for part in bins:
        if not part.count:
            continue
        left, width = _x(part.low) + 1, _x(part.high) - _x(part.low) - 2
        shown = f"{part.low:.2f} to {part.high:.2f}: accuracy {part.accuracy:.3f} of {part.count:,} {counted}"
        marks.append(_rectangle(left, _y(part.accuracy), width, _y(0) - _y(part.accuracy), BLUE, shown, 0.45))
        height = 50 * part.count / most
        marks.append(_rectangle(left, below + 50 - height, width, height, GREY, shown))
    marks.append(_line(_x(0), _y(0), _x(1), _y(1), GREY, ' stroke-dasharray="5 4"'))
    for part in bins:
        if part.count:
            marks.append(f'<circle cx="{_x(part.confidence):.1f}" cy="{_y(part.accuracy):.1f}" r="3.5" fill="{BLUE}"/>')
    marks.append(_text(_x(0), MARGIN - 26, "accuracy by confidence"))
    marks.append(_text(_x(0), MARGIN - 11, "dashed: perfect calibration"))
    marks.append(_text(_x(0), below + 68, f"{counted} by confidence, at most {most:,}"))
    return _picture(SIZE + 2 * MARGIN, below + 80, "Reliability diagram", marks)


PICTURES = {"reliability": reliability_diagram, "slices": slices_chart}


def _x(value):
    return MARGIN + SIZE * value


def _y(value):
    return MARGIN + SIZE * (1 - value)


def _line(x, y, x2, y2, color, more=""):
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{more}/>'


def _rectangle(x, y, width, height, color, title, opacity=1):
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}" '
        f'fill-opacity="{opacity}"><title>{html.escape(title)}</title></rect>'
    )


def _text(x, y, text, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _picture(width, height, label, marks):
    inside = "\n".join(marks)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{label}">\n{inside}\n</svg>'
    )
