"""Pictures of a report as SVG, without a plotting library."""

import html
import math

from keras_transfer.analysis.output.tables import METRICS, shorten

BLUE, RED, GREY, LIGHT = "#2f6db3", "#be4632", "#8a95a5", "#dde3ea"
SIZE, MARGIN = 280, 44  # The diagram and the space for its axes, in pixels.


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
