"""Answers of an exported model for a folder of Parquet files, file by file, for engines with many workers."""

import contextlib
import json
import os
import pathlib
from typing import Any

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.files import atomic_file, file_digest
from keras_transfer.core.names import did_you_mean, listed
from keras_transfer.serving.exported import format_of
from keras_transfer.serving.predictor import Predictor, columns_by_input

ROWS = 16_384  # Number of rows that are in memory at once, and in a row group of the output.
ORIGIN = b"keras_transfer"  # Key of a file's metadata that records its original and how it was written.


class FolderPredictor:
    """Adds the answers of an exported model to all Parquet files of a folder, in files of the same names.

    Ray, Spark, Beam, Dask and `multiprocessing` can copy it to their workers, which call it with the names from
    `pending()`. A file appears when all of its rows are written. A run that is killed therefore continues with the
    missing files, and a file that a second worker starts again has each row once. All columns and the order of the rows
    are the same as in the original file.

    Args:
        predict: `Predictor`, which determines the model and the columns of the texts.
        data: String or path. Folder of `.parquet` files, also in nested folders, which all workers can read.
        output: String or path. Folder for the files with answers, which all workers can write. It is created.

    Raises:
        FileNotFoundError: If `data` has no `.parquet` files.
        ImportError: If `pyarrow` is not installed.
        ValueError: If one folder is the other or is inside it.

    Example:
    ```python
    import pathlib

    import pandas as pd

    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.serving.export(model, "served/2", label_names=["bad", "good"], overwrite=True)
    pathlib.Path("reviews").mkdir(exist_ok=True)
    pd.DataFrame({"id": [7, 8], "review": ["What a film!", "Too long."]}).to_parquet("reviews/0.parquet")

    predict = keras_transfer.serving.Predictor("served/2", "review")
    job = keras_transfer.serving.FolderPredictor(predict, "reviews", "answers")
    for name in job.pending():
        print(name, job(name))
    print(pd.read_parquet("answers/0.parquet")[["id", "label", "probabilities"]])
    ```
    """

    def __init__(self, predict: Predictor, data: Any, output: Any) -> None:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise ImportError("Parquet files require pyarrow. Run `pip install pyarrow`.") from None
        # Workers may have different working directories.
        self.predict, self.data, self.output = predict, os.path.abspath(data), os.path.abspath(output)
        real = [pathlib.Path(os.path.realpath(folder)) for folder in (data, output)]
        are_apart = not (real[0].is_relative_to(real[1]) or real[1].is_relative_to(real[0]))
        rule = "`output` must be a different folder from `data`, and neither may be inside the other."
        expect(are_apart, rule, data=str(data), output=str(output))
        if not _names(self.data):
            raise FileNotFoundError(f"`data` must be a folder with .parquet files. Received: data={str(data)!r}")
        self.settings = self._settings()  # Each worker compares them, since the model could have been replaced.

    def pending(self) -> list[str]:
        """Returns the names of the files without answers, in order, and creates the output folder.

        A file is also pending if the size or the modification time of its original has changed since it was read.

        Returns:
            List of strings, the paths of files within `data`.

        Raises:
            FileExistsError: If `output` contains other files, or answers of a different model, signature or columns.
            ValueError: If a pending file cannot be read or lacks a text column.
        """
        import pyarrow.parquet

        names, output = _names(self.data), pathlib.Path(self.output)
        output.mkdir(parents=True, exist_ok=True)
        done = {*_names(output)}
        others = {path.name for path in output.iterdir() if path.is_file() and path.name[0] != "."}
        if unknown := sorted((done | others) - {*names}):
            raise FileExistsError(
                f"`output` must be empty or contain answers to the files of `data`. Received: output={self.output!r}, "
                f"with {listed(unknown)}"
            )
        pending = [name for name in names if name not in done or not self._is_current(name)]
        for name in pending:
            path = pathlib.Path(self.data, name)
            try:
                columns = pyarrow.parquet.read_schema(path).names
            except (pyarrow.ArrowInvalid, OSError) as error:
                raise ValueError(f"{path} must be a Parquet file. Received: {error}") from None
            for column in self._columns():
                if column not in columns:
                    raise ValueError(
                        f"{path}: There is no column {column!r}.{did_you_mean(column, columns)} "
                        f"Received: the columns {listed(columns)}"
                    )
        return pending

    def __call__(self, name):
        """Writes one file with the answers to its texts.

        Args:
            name: String, one of `pending()`.

        Returns:
            Integer. The number of its rows.
        """
        import pyarrow.parquet

        source, target = pathlib.Path(self.data, name), pathlib.Path(self.output, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        # The time must be taken before the file is read.
        origin = json.dumps({"settings": self.settings, "original": _size_and_time(source)})
        with (
            pyarrow.parquet.ParquetFile(source) as file,
            atomic_file(target) as output,
            contextlib.ExitStack() as stack,
        ):
            schema, writer, rows = file.schema_arrow, None, 0
            for batch in _batches(file):
                table = dict(zip(schema.names, batch.columns))
                table |= {column: table[column].to_pylist() for column in self._columns()}
                try:
                    found = self.predict(table)
                except ValueError as error:
                    raise ValueError(f"{source}, in the rows from {rows} on: {error}") from None
                answers = {key: _as_arrow(values) for key, values in found.items() if key not in table}
                if writer is None:
                    for answer, values in answers.items():
                        schema = schema.append(pyarrow.field(answer, values.type))
                    schema = schema.with_metadata({**(schema.metadata or {}), ORIGIN: origin})
                    writer = stack.enter_context(pyarrow.parquet.ParquetWriter(output, schema))
                arrays = [*batch.columns, *answers.values()]
                writer.write_batch(pyarrow.RecordBatch.from_arrays(arrays, schema=schema))
                rows += batch.num_rows
            if (found := self._settings()) != self.settings:
                raise ValueError(
                    "The exported model must stay the same until all files are written. Create a new "
                    f"`FolderPredictor`. Expected: {self.settings}. Received: {found}"
                )
        return rows

    def _columns(self):
        """Returns the names of the text columns."""
        return list(columns_by_input(self.predict.text_columns).values())

    def _is_current(self, name):
        """Returns whether a file in the output has answers to the current version of its original."""
        import pyarrow.parquet

        path = pathlib.Path(self.output, name)
        try:
            origin = json.loads(pyarrow.parquet.read_schema(path).metadata[ORIGIN])
        except (KeyError, TypeError, ValueError):  # `metadata` can be `None`. Arrow's own errors are `ValueError`s.
            raise FileExistsError(
                "`output` contains a file that this class did not write. Choose another folder. "
                f"Received: {str(path)!r}"
            ) from None
        found = origin["settings"]
        if changed := [key for key in self.settings if found.get(key) != self.settings[key]]:
            shown = {key: found.get(key) for key in ("signature", "columns")}
            raise FileExistsError(
                f"`output` contains answers of a run that differs in its {' and '.join(changed)}. Choose another "
                f"folder, or use the same settings. Received: {str(path)!r}, which was written with {shown}"
            )
        return origin["original"] == _size_and_time(pathlib.Path(self.data, name))

    def _settings(self):
        """Returns the settings that all files of an output have in common."""
        model = self.predict.folder
        if "://" not in model:
            paths = [pathlib.Path(model, name) for name in format_of(model).FILES]
            model = " ".join(file_digest(path) for path in paths if path.exists())
        columns = dict(sorted(columns_by_input(self.predict.text_columns).items(), key=str))
        return {"model": model, "signature": self.predict.signature, "columns": columns}


def _names(folder):
    """Returns the paths of the Parquet files in a folder, as strings with slashes, except for hidden ones."""
    files = (path for path in pathlib.Path(folder).rglob("*.parquet") if not path.is_dir())
    paths = (path.relative_to(folder) for path in files)
    return sorted(path.as_posix() for path in paths if not any(part[0] in "._" for part in path.parts))


def _size_and_time(path):
    """Returns the size of a file in bytes and the time of its last modification in ns."""
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns]


def _batches(file):
    """Yields the rows of a Parquet file in batches, or one batch without rows, which has the types of the answers."""
    import pyarrow

    if file.metadata.num_rows == 0:
        yield pyarrow.RecordBatch.from_pylist([], file.schema_arrow)
    else:
        yield from file.iter_batches(ROWS)


def _as_arrow(values):
    """Returns answers [rows, ...] as an Arrow array of values, lists, or lists of lists."""
    import pyarrow

    flat = values.ravel()
    array = pyarrow.array(flat.tolist(), pyarrow.string()) if values.dtype == object else pyarrow.array(flat)
    for axis in range(values.ndim - 1, 0, -1):
        lists = int(np.prod(values.shape[:axis]))
        array = pyarrow.ListArray.from_arrays(np.arange(lists + 1, dtype="int32") * values.shape[axis], array)
    return array
