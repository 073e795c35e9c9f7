"""Writing a folder whole or not at all."""

import contextlib
import pathlib
import shutil
import tempfile


@contextlib.contextmanager
def written_whole(folder, overwrite=False):
    """Gives a temporary folder beside `folder` and moves it there at the end; an error leaves nothing behind.

    Args:
        folder: the path to write.
        overwrite: bool, replace it if it exists; the old one stays until the new one is complete.

    Yields:
        A `pathlib.Path` to write into.

    Raises:
        FileExistsError: `folder` exists and `overwrite` is False.
    """
    folder = pathlib.Path(folder)
    if folder.exists() and not overwrite:
        raise FileExistsError(f"{folder} exists: choose another folder, or pass overwrite=True to replace it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        temporary.chmod(0o755)
        yield temporary
        if folder.is_dir():
            shutil.rmtree(folder)
        elif folder.exists():
            folder.unlink()
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
