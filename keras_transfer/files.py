"""Writing a folder, or a file, whole or not at all."""

import contextlib
import os
import pathlib
import secrets
import tempfile


@contextlib.contextmanager
def written_whole(folder, overwrite=False):
    """Gives an empty folder to write into, which takes its place only when the block ends without an error.

    Until then what stood there stays untouched; after an error it still stands, and nothing new is left behind.

    Args:
        folder: path to write; the folders above it are made.
        overwrite: bool, replace what is there.

    Yields:
        The `pathlib.Path` of the empty folder, on the same file system.

    Raises:
        FileExistsError: `folder` exists and `overwrite` is False.
        ValueError: `folder` is a URL.

    Example:
    ```python
    from keras_transfer.files import written_whole

    with written_whole("results") as folder:
        (folder / "accuracy.txt").write_text("0.93")
    ```
    """
    if "://" in str(folder):
        raise ValueError(f"a folder of this machine is needed: write there, then copy. Received: {str(folder)!r}")
    folder = pathlib.Path(folder)
    _check_free(folder, overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        new, old = pathlib.Path(scratch) / "new", pathlib.Path(scratch) / "old"
        new.mkdir()  # a folder in a temporary folder, so that its permissions are the usual ones
        yield new
        _check_free(folder, overwrite)
        if os.path.lexists(folder):
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if os.path.lexists(old):
                old.rename(folder)
            raise


@contextlib.contextmanager
def file_written_whole(path):
    """Gives a file to write bytes to, which takes its place, and that of a file there, when all of it is on the disk.

    Until then what stood there stays untouched; after an error it still stands, and nothing new is left behind. What a
    killed process leaves behind is a file `.NAME-*.tmp` beside it.

    Args:
        path: path to write, in a folder that exists.

    Yields:
        A binary file.

    Example:
    ```python
    from keras_transfer.files import file_written_whole

    with file_written_whole("accuracy.txt") as file:
        file.write(b"0.93")
    ```
    """
    path = pathlib.Path(path)
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened; there the new name may be lost in a power cut
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _check_free(folder, overwrite):
    if os.path.lexists(folder) and not overwrite:
        raise FileExistsError(
            f"the folder must not exist yet: choose another one, or pass overwrite=True. Received: {str(folder)!r}"
        )
