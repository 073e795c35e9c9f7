"""Atomic writing of folders and files, and reading of JSON files."""

import contextlib
import hashlib
import json
import os
import pathlib
import secrets
import tempfile

WEIGHT_FACTS = "facts"  # The name under which files of weights have what describes their model.


@contextlib.contextmanager
def atomic_folder(folder, overwrite=False):
    """Yields an empty folder to write into, and moves it to `folder` if the block ends without an error.

    After an error, nothing new is left behind, and an existing folder is unchanged. A killed process can leave a folder
    `.NAME-*` next to it.

    Args:
        folder: Path to write. Its parent folders are created.
        overwrite: Boolean. Whether to replace an existing folder. Defaults to `False`.

    Yields:
        The `pathlib.Path` of the empty folder, on the same file system.

    Raises:
        FileExistsError, PermissionError, ValueError: If `check_folder` rejects the folder.

    Example:
    ```python
    from keras_transfer.files import atomic_folder

    with atomic_folder("results") as folder:
        (folder / "accuracy.txt").write_text("0.93")
    ```
    """
    check_folder(folder, overwrite)
    folder = pathlib.Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        new, old = pathlib.Path(scratch) / "new", pathlib.Path(scratch) / "old"
        new.mkdir()  # It is inside the temporary folder so that it has default permissions.
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


def check_folder(folder, overwrite=False):
    """Raises an error if `atomic_folder` cannot write a folder. Call it before the work that produces the content.

    Args:
        folder: Path to write.
        overwrite: Boolean. Whether to replace an existing folder. Defaults to `False`.

    Raises:
        FileExistsError: If `folder` exists and `overwrite` is `False`, or if a parent of it is a file.
        PermissionError: If its parent folder cannot be written.
        ValueError: If `folder` is a URL, or a name such as `"."`.

    Example:
    ```python
    from keras_transfer.files import check_folder

    check_folder("results")
    ```
    """
    if "://" in str(folder):
        raise ValueError(
            f"`folder` must be local. Write to a local folder, then copy it. Received: folder={str(folder)!r}"
        )
    path = pathlib.Path(folder)
    _check_free(path, overwrite)
    if path.name in ("", ".."):
        raise ValueError(f"The folder must have a name. Pass its path with the name. Received: folder={str(folder)!r}")
    parent = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
    if not parent.is_dir():
        raise FileExistsError(
            f"The parents of a folder must be folders. Received: folder={str(folder)!r}, but {parent} is a file"
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{parent} cannot be written. Choose another folder. Received: folder={str(folder)!r}")


@contextlib.contextmanager
def atomic_file(path):
    """Yields a file to write bytes to, and moves it to `path` when all bytes are on the disk.

    After an error, nothing new is left behind, and an existing file is unchanged. A killed process can leave a file
    `.NAME-*.tmp` next to it.

    Args:
        path: Path to write, in an existing folder.

    Yields:
        A binary file.

    Example:
    ```python
    from keras_transfer.files import atomic_file

    with atomic_file("accuracy.txt") as file:
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
    if os.name == "posix":  # Other systems cannot open a folder, and can lose the new name in a power cut.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _check_free(folder, overwrite):
    if os.path.lexists(folder) and not overwrite:
        kind, name = ("folder", "folder") if os.path.isdir(folder) else ("file", "path")
        raise FileExistsError(
            f"The {kind} exists. Choose another one or pass `overwrite=True`. Received: {name}={str(folder)!r}"
        )


def read_json(path, expected=dict):
    """Returns the content of a JSON file, an object (`expected=dict`) or an array (`expected=list`).

    Raises:
        ValueError: If there is no such file, or if it contains something else.
    """
    try:
        value = json.loads(pathlib.Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} must be a JSON file. Received: {error}") from error
    if not isinstance(value, expected):
        name = {dict: "object", list: "array"}[expected]
        raise ValueError(f"{path} must contain a JSON {name}. Received: {type(value).__name__}")
    return value


def write_json(path, value):
    """Writes a JSON file atomically."""
    with atomic_file(path) as file:
        file.write((json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def file_digest(path):
    """Returns a digest of the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
