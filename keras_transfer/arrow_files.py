"""Tables in Parquet and Arrow files, a batch of rows at a time."""

import contextlib

SUFFIXES = (".parquet", ".arrow")


def record_batches(path, choose=list):
    """Yields the rows of a Parquet or Arrow file as batches of pyarrow.

    Args:
        path: `pathlib.Path`. An `.arrow` file has Arrow's IPC format, as a file (Feather) or a stream (Hugging Face's).
        choose: Function from the names of the columns to those that are read. Defaults to `list`, for all.

    Raises:
        ImportError: If `pyarrow` is not installed.
        ValueError: If the file is damaged, is compressed by gzip, or has another format.
    """
    kind = "Parquet" if ".parquet" in path.name.lower() else "Arrow"
    if path.suffix.lower() == ".gz":
        raise ValueError(f"{path}: Expected a file of {kind}. Decompress the file. Received: a gzip file")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"{path} is a file of {kind}. To read it, run `pip install pyarrow`.") from None
    with contextlib.ExitStack() as stack:
        try:
            if kind == "Parquet":
                file = stack.enter_context(pyarrow.parquet.ParquetFile(path))
                yield from file.iter_batches(columns=choose(file.schema_arrow.names))
                return
            source = stack.enter_context(pyarrow.memory_map(str(path)))
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            reader = stack.enter_context((pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(source))
            columns = choose(reader.schema.names)
            for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
                yield batch.select(columns)
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise ValueError(f"{path}: Expected a whole file of {kind}. Received: {error!s:.200}") from error
