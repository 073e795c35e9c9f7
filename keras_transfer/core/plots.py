"""The style of all plots, which is readable in grey and for color-blind readers, and the error without matplotlib."""

import functools
import io
from typing import Any

from keras_transfer.core.expect import raising

# The colors of Okabe and Ito (2008), each with a line style and a marker, so that color is not the only difference.
BLUE, ORANGE, GREEN, RED, PURPLE, BLACK = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#000000"
GREY = "#767676"
STYLES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linestyle": "-", "marker": "o"},
    {"color": RED, "linestyle": "--", "marker": "s"},
    {"color": BLACK, "linestyle": ":", "marker": "^"},
    {"color": GREEN, "linestyle": "-.", "marker": "D"},
    {"color": PURPLE, "linestyle": (0, (3, 1, 1, 1, 1, 1)), "marker": "v"},
    {"color": ORANGE, "linestyle": (0, (6, 2)), "marker": "P"},
)


def new_axes(width=6.4, height=3.6):
    """Returns the axes of a new figure, `axes.figure`, which no window shows."""
    rule = "Plotting requires matplotlib. Install it with `pip install matplotlib`."
    with raising(rule, ImportError, error=ImportError):
        axes = _figure_class()(figsize=(width, height), layout="constrained").add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def draw_lines(axes, places, rows, lines):
    """Draws values of rows, given a dict from their names to labels, and the band of the first, `low` to `high`."""
    for (name, label), style in zip(lines.items(), STYLES):
        axes.plot(places, [row[name] for row in rows], label=label, **style)
    low, high = ([row[name] for row in rows] for name in ("low", "high"))
    axes.fill_between(places, low, high, color=STYLES[0]["color"], alpha=0.2, linewidth=0)


@functools.cache
def _figure_class():
    """Returns a class of figures that a notebook displays, also without `%matplotlib inline`."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self):
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

        def __reduce__(self):  # Pickle finds no class that is created in a function.
            return object.__new__, (Figure,), self.__getstate__()

    return NotebookFigure
