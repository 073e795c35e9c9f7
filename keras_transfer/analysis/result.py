"""The base class of results that print as a table."""

from typing import Any

from keras_transfer.analysis import page
from keras_transfer.analysis.tables import Table, visible


class Result:
    """Base class of results that print as a table, which a notebook displays.

    A subclass sets `rows` and `columns`, or implements `_cells`, which returns the column headers and the rows of the
    table as strings. `_notes` returns the lines below it.

    Attributes:
        title: String. Title of the table.
        index: Tuple of the names in the rows that identify a row.
        rows: List of dicts.
        columns: Dict from column headers to `(name, form)`, the name of a value in the rows and its format, such as
            `".3f"`, or the names of the two limits of an interval, and their format. A column without any value is left
            out.
    """

    title = ""
    index: tuple[str, ...] = ()
    rows: Any
    columns: Any = {}

    def _cells(self):
        found = {}
        for head, (names, form) in self.columns.items():
            values = [[row.get(name) for name in ([names] if isinstance(names, str) else names)] for row in self.rows]
            cells = ["" if None in own else ", ".join(format(value, form) for value in own) for own in values]
            if any(cells):
                found[head] = cells if isinstance(names, str) else [cell and f"[{cell}]" for cell in cells]
        return [*found], [*map(list, zip(*found.values()))]

    def _notes(self) -> list[str]:
        return []

    def __str__(self):
        heads, rows = self._cells()
        rows = [[visible(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(heads, *rows)]
        lines = [
            "  ".join([cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))])
            for cells in (heads, *rows)
        ]
        return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], *self._notes()])

    __repr__ = __str__

    def _repr_html_(self):
        return page.section(Table(self.title, *self._cells(), " ".join(self._notes())))

    def to_markdown(self) -> str:
        """Returns the table and its notes as Markdown.

        Returns:
            String.
        """
        heads, rows = self._cells()
        lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
        table = ["| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |" for cells in lines]
        return "\n".join([*table, "", *self._notes()])

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
