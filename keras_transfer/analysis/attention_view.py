"""Attention as HTML without scripts: lines between tokens for each head, or a small matrix for each of all heads."""

import html
import zlib

import numpy as np

from keras_transfer.analysis import page
from keras_transfer.analysis.tables import shorten

TOKENS = 48  # Number of tokens of a text that the page shows.
LEVELS = {0.05: 0.15, 0.1: 0.3, 0.2: 0.5, 0.4: 0.75, 0.7: 1.0}  # Opacity from a weight on. Smaller ones are left out.
STEP, LABEL, GAP = 15, 68, 40  # Height of a line, and width of the labels and between them, in pixels.


def heads_view(layers, queries, keys):
    """Returns the lines of each head of each layer, given arrays `[heads, queries, keys]` and the names of tokens."""
    labels = "".join(
        f'<text x="{x}" y="{STEP * place + 11}" text-anchor="{anchor}">{html.escape(shorten(name, 10))}</text>'
        for names, x, anchor in ((queries, LABEL - 4, "end"), (keys, LABEL + GAP + 4, "start"))
        for place, name in enumerate(names[:TOKENS])
    )
    key = f"tokens-{zlib.crc32(labels.encode('utf-8', 'replace')):x}"  # A notebook may show several texts.
    parts = [
        "<p>Queries on the left, keys on the right.</p>",
        '<svg width="0" height="0" style="position: absolute" aria-hidden="true"><defs>'
        f'<g id="{key}" font-size="11" fill="currentColor">{labels}</g></defs></svg>',
    ]
    width, height = 2 * LABEL + GAP, STEP * max(min(len(names), TOKENS) for names in (queries, keys))

    def line(query, key):
        return f"M{LABEL} {STEP * query + STEP // 2}L{LABEL + GAP} {STEP * key + STEP // 2}"

    for layer, heads in enumerate(layers):
        drawn = []
        for head, weights in enumerate(heads):
            lines = _paths(weights, line, 'fill="none" stroke="currentColor" stroke-width="1.5" stroke')
            picture = _svg(layer, head, f'width="{width}" height="{height}"', width, height)
            drawn.append(f'<div><p>head {head}</p>{picture}<use href="#{key}"/>{lines}</svg></div>')
        flow = f'<div class="side" style="gap: .5em">{"".join(drawn)}</div>'
        parts.append(f"<details{'' if layer else ' open'}><summary>layer {layer}</summary>{flow}</details>")
    return "\n".join([*parts, _note(queries, keys)])


def model_view(layers, queries, keys):
    """Returns a small matrix of each head, queries from top to bottom, with a layer in each line of a table."""
    rows, columns = min(len(queries), TOKENS), min(len(keys), TOKENS)
    names = {"Queries, from top to bottom": queries, "Keys, from left to right": keys}
    names = {"Tokens, from top to bottom and from left to right": keys} if queries == keys else names
    parts = [f"<p>{kind}:</p>{page.text_spans(each, [''] * len(each))}" for kind, each in names.items()]
    lines = [f"<tr><th></th>{''.join(f'<th>head {head}</th>' for head in range(max(map(len, layers))))}</tr>"]
    for layer, heads in enumerate(layers):
        cells = []
        for head, weights in enumerate(heads):
            squares = _paths(weights, lambda query, key: f"M{key} {query}h1v1h-1z", 'fill="currentColor" fill')
            frame = f'<rect width="{columns}" height="{rows}" fill="currentColor" opacity=".06"/>'
            picture = _svg(layer, head, f'width="{max(40, 2 * columns)}"', columns, rows)
            cells.append(f"<td>{picture}{frame}{squares}</svg></td>")
        lines.append(f"<tr><th>layer {layer}</th>{''.join(cells)}</tr>")
    return "\n".join([*parts, '<div class="wide"><table>', *lines, "</table></div>", _note(queries, keys)])


def _svg(layer, head, size, width, height):
    name = f"layer {layer}, head {head}"
    return f'<svg {size} viewBox="0 0 {width} {height}" role="img" aria-label="{name}"><title>{name}</title>'


def _paths(weights, draw, attribute):
    """Returns a path for each level of weights `[queries, keys]`, made of what a function draws for each of them."""
    level, found = np.searchsorted([*LEVELS], weights[:TOKENS, :TOKENS], side="right"), []
    for place, opacity in enumerate(LEVELS.values(), 1):
        drawn = "".join(draw(*pair) for pair in np.argwhere(level == place).tolist())
        found.append(f'<path {attribute}-opacity="{opacity}" d="{drawn}"/>' if drawn else "")
    return "".join(found)


def _note(queries, keys):
    most = max(len(queries), len(keys))
    more = f" Only the first {TOKENS} of {most:,} tokens are shown." if most > TOKENS else ""
    levels = ", ".join(f"{least:g}" for least in LEVELS)
    return f"<p>The higher the weight, the stronger the color: from {levels} on. Lower weights are left out.{more}</p>"
