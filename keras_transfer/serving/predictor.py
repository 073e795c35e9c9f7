"""An exported model as an object that engines for large tables copy to their workers. It maps tables to tables."""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.names import did_you_mean
from keras_transfer.serving.exported import MARKS, is_exported, open_exported


@expects(batch_size=integer(1))
@dataclasses.dataclass(eq=False)
class Predictor:
    """Adds the answers of an exported model to tables of texts, in one process or in each worker of an engine.

    Ray Data, Spark, Beam, Dask and `multiprocessing` can all pickle it, since it contains only its arguments. The first
    call in a process imports the runtime of the export, such as TensorFlow for a SavedModel, and loads the model. All
    further calls and `Predictor`s of the process share it. The rows of a call run in batches of texts of similar
    length, and are returned in their original order.

    Args:
        folder: String or path. Folder that `serving.export` has written in any format, and that each worker can read.
        text_columns: String, the column of the texts; a list of two, for a model of pairs; or a dict from the inputs of
            the signature to columns, such as `{"question": "q", "context": "c"}`. Defaults to `"text"`.
        batch_size: Integer. Number of texts that the model answers at once. Defaults to `64`.
        signature: String. Signature of a SavedModel, such as `"embed"`. Defaults to `"serving_default"`.

    Raises:
        FileNotFoundError: If `folder` does not exist or is not an exported model.
        ImportError: If the runtime of the export is not installed, in a call.
        TypeError: If a call receives anything other than a dict or a `pandas.DataFrame`.
        ValueError: If `batch_size` is not positive; and in a call, if a column is missing, has a different number of
            rows, contains anything other than strings, or has the name of an answer, if the signature does not exist
            or does not expect one text for each row and input, or if a row names an unknown adapter.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.serving.export(model, "served/1", label_names=["bad", "good"], overwrite=True)
    predict = keras_transfer.serving.Predictor("served/1", "review")
    table = predict({"id": [7, 8], "review": ["What a film!", "Too long."]})
    print(table["id"], table["label"], table["probabilities"])
    ```
    """

    folder: Any
    text_columns: str | Sequence[str] | Mapping[str, str] = "text"
    _: dataclasses.KW_ONLY
    batch_size: int = 64
    signature: str = "serving_default"

    def __post_init__(self):
        folder = str(self.folder)
        # Workers may have different working directories. A URL of remote storage is not changed.
        self.folder = folder if "://" in folder else os.path.abspath(folder)
        if "://" not in self.folder and not is_exported(self.folder):
            raise FileNotFoundError(
                f"`folder` must be an exported model, with the file {' or '.join(MARKS)}. "
                f"`serving.export(model, folder)` writes it. Received: {folder=}"
            )

    def __call__(self, table):
        """Returns a table with the columns of `table` and the columns of the answers.

        Args:
            table: Dict from names to columns (lists or arrays [rows, ...]), or a `pandas.DataFrame`.

        Returns:
            The same type. A dict has arrays [rows] or [rows, ...] of the answers, such as `label` (of strings),
            `label_id` and `probabilities`; a `DataFrame` has arrays as entries where an answer is an array. All other
            columns are unchanged.
        """
        frame = "pandas" in sys.modules and isinstance(table, sys.modules["pandas"].DataFrame)
        if not frame and not isinstance(table, Mapping):
            raise TypeError(
                f"A `Predictor` accepts a dict of columns or a pandas DataFrame. Received: {type(table).__name__}"
            )
        exported = open_exported(self.folder, self.signature)
        texts = {name: _texts(table, column) for name, column in self._columns(exported.inputs).items()}
        lengths = {name: len(column) for name, column in ({} if frame else table).items()}
        lengths = lengths or {name: len(column) for name, column in texts.items()}
        if len({*lengths.values(), *map(len, texts.values())}) > 1:
            raise ValueError(f"All columns must have the same number of rows. Received: {lengths}")
        if taken := [name for name in exported.outputs if name in table]:
            raise ValueError(
                f"The table must not have columns with the names of answers. Rename or drop them. Received: {taken}"
            )
        answers = exported.answer(texts, self.batch_size)
        if not frame:
            return {**table, **answers}
        return table.assign(**{name: _series(values, table.index) for name, values in answers.items()})

    def _columns(self, inputs):
        """Returns a dict from the signature's inputs to columns of the table."""
        columns = columns_by_input(self.text_columns)
        expect(
            set(columns) == set(inputs),
            f"`text_columns` must name a column for each input of the signature: {sorted(inputs)}. Pass one name for "
            "`text`, two for `text` and `text_pair`, or a dict from inputs to columns.",
            text_columns=self.text_columns,
        )
        return columns


def columns_by_input(text_columns):
    """Returns the `text_columns` of a `Predictor` as a dict from inputs to columns. A third column has no input."""
    if isinstance(text_columns, Mapping):
        return dict(text_columns)
    columns = [text_columns] if isinstance(text_columns, str) else list(text_columns)
    return dict(zip(["text", "text_pair", *[None] * len(columns)], columns))


def _texts(table, column):
    """Returns a column as a list of strings that UTF-8 can encode."""
    if column not in table:
        raise ValueError(
            f"The table must have the column {column!r}.{did_you_mean(column, table)} "
            f"Received the columns {[str(name) for name in table]}"
        )
    found = table[column]
    if getattr(found, "ndim", 1) != 1:
        raise ValueError(
            f"The column {column!r} must be one column of texts. Rename columns that have the same name. "
            f"Received: values of shape {tuple(found.shape)}"
        )
    found = list(found)
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise ValueError(f"Column {column!r} must contain strings. Received at row {row}: {text!r:.80}")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(
                f"Column {column!r} must contain text that UTF-8 can encode. Received at row {row}: {text!r:.80}"
            ) from None
    return found


def _series(values, index):
    """Returns an answer as a column of a `DataFrame`, with one array for each row if it has several axes."""
    pandas = sys.modules["pandas"]
    if values.ndim == 1:
        return pandas.Series(values, index, dtype="str" if values.dtype == object else values.dtype)
    return pandas.Series(list(values), index, dtype=object)
