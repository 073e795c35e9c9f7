"""Writing a folder whole or not at all."""

import contextlib
import os
import pathlib
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


def _check_free(folder, overwrite):
    if os.path.lexists(folder) and not overwrite:
        raise FileExistsError(
            f"the folder must not exist yet: choose another one, or pass overwrite=True. Received: {str(folder)!r}"
        )
