"""Results that print as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_transfer.analysis import page
from keras_transfer.analysis.tables import Table, visible
from keras_transfer.core.plots import new_axes


class Result(page.Page):
    """A result that prints as a table, which a notebook displays.

    A class whose results have more than a table is a subclass, which sets the same attributes.

    Args:
        rows: List of dicts.
        columns: Dict from column headers to `(name, form)`, the name of a value in the rows and its format, such as
            `".3f"`, or to the format alone if the header is the name. The format `""` is for text and integers, and
            `((low, high), form)` shows an interval. A column without any value is left out. A last column `"text"` is
            aligned to the left.
        title: String. Title of the table.
        index: Tuple of the names in the rows that identify a row.
        notes: List of the lines below the table.
        **values: What else the result has, as attributes.

    Example:
    ```python
    rows = [{"layer": "block_0", "score": 0.91, "low": 0.9, "high": 0.92}]
    columns = {"layer": "", "score": ".2f", "95% interval": (("low", "high"), ".2f")}
    print(keras_transfer.analysis.Result(rows, columns, title="Scores", index=("layer",)))
    ```
    """

    index: tuple[str, ...] = ()
    rows: Any
    columns: Any = {}
    notes: Sequence[str] = ()

    def __init__(
        self, rows: list, columns: dict, *, title: str, index: tuple[str, ...], notes: Sequence[str] = (), **values: Any
    ):
        self.rows, self.columns, self.title, self.index, self.notes = rows, columns, title, index, notes
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def _cells(self):
        """Returns the column headers and the rows of the table as strings."""
        found = {}
        for head, column in self.columns.items():
            names, form = (head, column) if isinstance(column, str) else column
            found[head] = [_cell(row, names, form) for row in self.rows]
        found = {head: cells for head, cells in found.items() if any(cells) or not cells}
        return [*found], [*map(list, zip(*found.values()))]

    def _notes(self) -> list[str]:
        return [*self.notes]

    def table(self) -> Table:
        """Returns the table as strings, of which all other forms are made.

        Returns:
            A named tuple of the `title`, the `heads`, the `rows`, and the `note` below them.
        """
        heads, rows = self._cells()
        return Table(self.title, heads, rows, " ".join(self._notes()), texts=heads[-1:] == ["text"])

    def __str__(self):
        heads, *rows = self.table().lines()
        return "\n".join([heads, "-" * len(heads), *rows, *map(visible, self._notes())])

    __repr__ = __str__

    def _repr_html_(self):
        return page.section(self.table())

    def to_markdown(self) -> str:
        """Returns the table and its notes as Markdown.

        Returns:
            String.
        """
        heads, rows = self._cells()
        lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
        lines = [[" ".join(visible(cell).split()).replace("|", r"\|") for cell in cells] for cells in lines]
        return "\n".join([*(f"| {' | '.join(cells)} |" for cells in lines), "", *self._notes()])

    def to_frame(self) -> Any:
        """Returns `rows` as a table.

        Returns:
            A `pandas.DataFrame` with the names in the rows as its index.

        Raises:
            ImportError: If pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("The table requires pandas. Install it with `pip install pandas`.") from error
        return pandas.DataFrame(self.rows).set_index(list(self.index))


class PlottedResult(Result):
    """A result with a picture, which a subclass draws with `_draw`, given axes."""

    def plot(self) -> Any:
        """Draws the result as a picture, which the docstring of its class describes.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        axes = new_axes()
        self._draw(axes)
        return axes.figure


def _cell(row, names, form):
    """Returns one value of a row, or an interval, as a string, `""` if it is missing or NaN."""
    values = [row.get(name) for name in ([names] if isinstance(names, str) else names)]
    if any(value is None or value != value for value in values):
        return ""
    forms = [form or ("," if type(value) is int else "") for value in values]
    cells = [value if isinstance(value, str) else format(value, own) for value, own in zip(values, forms)]
    return cells[0] if isinstance(names, str) else f"[{', '.join(cells)}]"
