"""What the readers of datasets share: splits, lines, and where the files come from."""

from keras_transfer.datasets.base.dataset import Split
from keras_transfer.datasets.base.sources import SOURCES, existing_file, existing_files, missing_files
from keras_transfer.datasets.base.splits import Splits, columns_repr, positions, score
from keras_transfer.lines import (
    NUMBER,
    checked_rows,
    get,
    log,
    read_json_lines,
    read_lines,
    read_rows,
    read_text,
    read_whole_json,
    shorten,
    warn_about_size,
)

__all__ = [
    "NUMBER",
    "SOURCES",
    "Split",
    "Splits",
    "checked_rows",
    "columns_repr",
    "existing_file",
    "existing_files",
    "get",
    "log",
    "missing_files",
    "positions",
    "read_json_lines",
    "read_lines",
    "read_rows",
    "read_text",
    "read_whole_json",
    "score",
    "shorten",
    "warn_about_size",
]
