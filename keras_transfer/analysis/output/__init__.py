"""Tables, pictures and pages of a report."""

from keras_transfer.analysis.output import page, tables
from keras_transfer.analysis.output.tables import Table

__all__ = [
    "Table",
    "page",
    "tables",
]
