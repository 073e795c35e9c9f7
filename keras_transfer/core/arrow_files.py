"""Tables in Parquet and Arrow files, a batch of rows at a time."""

import contextlib

from keras_transfer.core.expect import expect

SUFFIXES = (".parquet", ".arrow")


def column_names(path):
    """Returns the names of the columns of a Parquet or Arrow file.

    An `.arrow` file has Arrow's IPC format, as a file (Feather) or a stream (Hugging Face's).
    """
    with _opened(path) as (names, _):
        return names


def record_batches(path, columns=None):
    """Yields the rows of a Parquet or Arrow file as batches of pyarrow."""
    with _opened(path) as (names, read):
        yield from read(names if columns is None else columns)


@contextlib.contextmanager
def _opened(path):
    """Opens a file, for its column names and a function from such names to an iterable of batches."""
    suffix = path.suffix.lower()
    rule = (
        "Expected a file without gzip, because Parquet and Arrow files contain compressed columns. Decompress the file."
    )
    expect(suffix != ".gz", rule, received="a gzip file", where=path)
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"To read {path}, run `pip install pyarrow`.") from None
    with contextlib.ExitStack() as stack:
        try:
            if suffix == ".parquet":
                file = stack.enter_context(pyarrow.parquet.ParquetFile(path))
                yield file.schema_arrow.names, lambda columns: file.iter_batches(columns=columns)
                return
            source = stack.enter_context(pyarrow.memory_map(str(path)))
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            reader = stack.enter_context((pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(source))
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            yield reader.schema.names, lambda columns: (batch.select(columns) for batch in batches)
        except (pyarrow.ArrowInvalid, OSError) as error:
            kind = suffix[1:].title()
            raise ValueError(f"{path}: Expected a complete {kind} file. Received: {error!s:.200}") from error
