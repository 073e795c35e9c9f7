"""Attention as HTML without scripts: lines between tokens for each head, or a small matrix for each of all heads."""

import html

import numpy as np

from keras_transfer.analysis import page
from keras_transfer.analysis.tables import shorten

TOKENS = 48  # Number of tokens of a text that the page shows.
LEAST = (0.05, 0.1, 0.2, 0.4, 0.7)  # Smaller weights are not drawn. The color is stronger from each of these on.
OPACITY = (0.15, 0.3, 0.5, 0.75, 1.0)
STEP, LABEL, GAP = 15, 68, 40  # Height of a line, and width of the labels and between them, in pixels.


def heads_view(layers, queries, keys):
    """Returns the lines of each head of each layer, given arrays `[heads, queries, keys]` and the names of tokens."""
    height = STEP * max(min(len(names), TOKENS) for names in (queries, keys))
    labels = [_label(name, LABEL - 4, place, "end") for place, name in enumerate(queries[:TOKENS])]
    labels += [_label(name, LABEL + GAP + 4, place, "start") for place, name in enumerate(keys[:TOKENS])]
    parts = [
        '<svg width="0" height="0" style="position: absolute" aria-hidden="true"><defs><g id="tokens" font-size="11" '
        f'fill="currentColor">{"".join(labels)}</g></defs></svg>'
    ]

    def line(query, key):
        return f"M{LABEL} {STEP * query + STEP // 2}L{LABEL + GAP} {STEP * key + STEP // 2}"

    for layer, heads in enumerate(layers):
        drawn = []
        for head, weights in enumerate(heads):
            size = f'width="{2 * LABEL + GAP}" height="{height}" viewBox="0 0 {2 * LABEL + GAP} {height}"'
            lines = _paths(weights, line, 'fill="none" stroke="currentColor" stroke-width="1.5" stroke')
            name = f"layer {layer}, head {head}"
            picture = f'<svg {size} role="img" aria-label="{name}"><use href="#tokens"/>{lines}</svg>'
            drawn.append(f"<div><p>head {head}</p>{picture}</div>")
        shown = " open" if layer == 0 else ""
        flow = '<div class="side" style="gap: .5em">'
        parts.append(f"<details{shown}><summary>layer {layer}</summary>{flow}{''.join(drawn)}</div></details>")
    return "\n".join(["<p>Queries on the left, keys on the right.</p>", *parts, _note(queries, keys)])


def model_view(layers, queries, keys):
    """Returns a small matrix of each head, queries from top to bottom, with a layer in each line of a table."""
    rows, columns = min(len(queries), TOKENS), min(len(keys), TOKENS)
    width = f'width="{max(40, 2 * columns)}" viewBox="0 0 {columns} {rows}"'
    lines = []
    for layer, heads in enumerate(layers):
        cells = []
        for head, weights in enumerate(heads):
            squares = _paths(weights, lambda query, key: f"M{key} {query}h1v1h-1z", 'fill="currentColor" fill')
            frame = f'<rect width="{columns}" height="{rows}" fill="currentColor" opacity=".06"/>'
            name = f"layer {layer}, head {head}"
            cells.append(f'<td><svg {width} role="img" aria-label="{name}"><title>{name}</title>{frame}{squares}</svg>')
        lines.append(f"<tr><th>layer {layer}</th>{'</td>'.join(cells)}</td></tr>")
    most = max(map(len, layers))
    heads = "".join(f"<th>head {head}</th>" for head in range(most))
    table = f'<div class="wide"><table>\n<tr><th></th>{heads}</tr>\n{chr(10).join(lines)}\n</table></div>'
    names = [f"<p>{kind}:</p>{page.text_spans(each, [''] * len(each))}" for kind, each in _axes(queries, keys)]
    return "\n".join([*names, table, _note(queries, keys)])


def _axes(queries, keys):
    if queries == keys:
        return [("Tokens, from top to bottom and from left to right", keys)]
    return [("Queries, from top to bottom", queries), ("Keys, from left to right", keys)]


def _label(name, x, place, anchor):
    """Returns the name of a token as text of a picture."""
    y = STEP * place + STEP // 2 + 4
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(shorten(name, 10))}</text>'


def _paths(weights, draw, attribute):
    """Returns a path for each level of weights `[queries, keys]`, made of what a function draws for each of them."""
    level = np.searchsorted(LEAST, weights[:TOKENS, :TOKENS], side="right")
    found = []
    for place, opacity in enumerate(OPACITY, 1):
        drawn = "".join(draw(*pair) for pair in zip(*(axis.tolist() for axis in np.nonzero(level == place))))
        found.append(f'<path {attribute}-opacity="{opacity}" d="{drawn}"/>' if drawn else "")
    return "".join(found)


def _note(queries, keys):
    """Returns which weights are drawn, and how many tokens are left out."""
    most = max(len(queries), len(keys))
    more = f" Only the first {TOKENS} of {most:,} tokens are shown." if most > TOKENS else ""
    levels = ", ".join(f"{least:g}" for least in LEAST)
    return f"<p>The higher the weight, the stronger the color: from {levels} on. Lower weights are left out.{more}</p>"
