"""Atomic writing of folders and files, and reading of JSON files."""

import contextlib
import errno
import hashlib
import json
import os
import pathlib
import secrets
import tempfile

from keras_transfer.core.expect import expect, raising

_CODES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
WEIGHT_FACTS = "facts"  # The name under which files of weights have what describes their model.


@contextlib.contextmanager
def atomic_folder(folder, overwrite=False):
    """Yields an empty folder to write into, and moves it to `folder` if the block ends without an error.

    After an error, nothing new is left behind, and an existing folder is unchanged. A killed process can leave a folder
    `.NAME-*` next to it.
    """
    check_folder(folder, overwrite)
    folder = pathlib.Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(folder, folder.parent) as scratch:
        new = scratch / "new" / folder.name
        new.mkdir()  # It is inside the temporary folder so that it has default permissions.
        yield new
        _check_free(folder, overwrite)
        _move(scratch, folder.parent, [folder.name])


@contextlib.contextmanager
def atomic_files(folder, named=None):
    """Yields an empty folder to write into, and moves its files into `folder`, which keeps its other files.

    All files are moved if the block ends without an error, and otherwise none.

    Args:
        named: Path that errors name. Defaults to `None`, for `folder`.
    """
    folder = pathlib.Path(folder)
    if named is None and not os.path.lexists(folder):
        with atomic_folder(folder) as new:
            yield new
        return
    with _scratch(pathlib.Path(named or folder), folder) as scratch:
        yield scratch / "new"
        # Settings come last. Without them, what a killed process leaves is no checkpoint.
        _move(scratch, folder, sorted(os.listdir(scratch / "new"), key=lambda name: name.endswith("config.json")))


@contextlib.contextmanager
def _scratch(path, parent):
    """Yields a temporary folder with the empty folders `new` and `old`."""
    with naming(path), tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=parent) as scratch:
        for name in ("new", "old"):
            (pathlib.Path(scratch) / name).mkdir()
        yield pathlib.Path(scratch)


def _move(scratch, folder, names):
    """Moves files and folders from `new` into a folder, all or none, and what they replace to `old`."""
    done = []
    try:
        for name in names:
            new, target = scratch / "new" / name, folder / name
            steps = [(new, target)]
            # The operating system replaces a single file at once.
            if os.path.lexists(target) and (len(names) > 1 or new.is_dir() or target.is_dir()):
                steps.insert(0, (target, scratch / "old" / name))
            for step in steps:
                os.replace(*step)
                done.append(step)
    except OSError:
        for before, after in reversed(done):
            os.replace(after, before)
        raise


@contextlib.contextmanager
def naming(path):
    """Lets errors of the file system name a path: that of `write` names none, and others name a temporary one."""
    try:
        yield
    except Exception as error:
        text, code = str(error), getattr(error, "errno", None)
        if isinstance(error, OSError):
            temporary = [os.path.join(folder, f".{path.name}-") for folder in (path, path.parent)]
            ours = error.filename is None or str(error.filename).startswith(tuple(temporary))
            known = ours and (code is not None or type(error) is OSError)
        else:  # Libraries that write by themselves, such as HDF5 and safetensors, say what the system says.
            code = next((each for each in _CODES if os.strerror(each) in text), None)
            known = code is not None
        if not known:
            raise
        text = f"{path} cannot be written. Its content is kept. If the disk is full, free some space. Received: {text}"
        raise OSError(*([] if code is None else [code]), text) from error


def check_folder(folder, overwrite=False):
    """Raises an error if `atomic_folder` cannot write a folder. Call it before the work that produces the content."""
    rule = "`folder` must be local. Write to a local folder, then copy it."
    expect("://" not in str(folder), rule, folder=str(folder))
    path = pathlib.Path(folder)
    _check_free(path, overwrite)
    rule = "The folder must have a name. Pass its path with the name."
    expect(path.name not in ("", ".."), rule, folder=str(folder))
    parent = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
    rule = f"The parents of a folder must be folders, but {parent} is a file."
    expect(parent.is_dir(), rule, folder=str(folder), error=FileExistsError)
    is_open, rule = os.access(parent, os.W_OK | os.X_OK), f"{parent} cannot be written. Choose another folder."
    expect(is_open, rule, folder=str(folder), error=PermissionError)


@contextlib.contextmanager
def atomic_file(path):
    """Yields a file to write bytes to, and moves it to `path` when all bytes are on the disk.

    After an error, nothing new is left behind, and an existing file is unchanged. A killed process can leave a file
    `.NAME-*.tmp` next to it.
    """
    path = pathlib.Path(path)
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}.tmp")
    with naming(path):
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
        with contextlib.suppress(OSError):  # Not every file system can. The file is whole, and has its name.
            os.fsync(folder)
        os.close(folder)


def _check_free(folder, overwrite):
    kind, name = ("folder", "folder") if os.path.isdir(folder) else ("file", "path")
    rule = f"The {kind} exists. Choose another one or pass `overwrite=True`."
    expect(overwrite or not os.path.lexists(folder), rule, error=FileExistsError, **{name: str(folder)})


def read_json(path, expected=dict, error=ValueError):
    """Returns the content of a JSON file, an object (`expected=dict`) or an array (`expected=list`)."""
    with raising(f"{path} must be a JSON file.", OSError, ValueError, error=error):
        value = json.loads(pathlib.Path(path).read_text("utf-8"))
    rule = f"{path} must contain a JSON {'object' if expected is dict else 'array'}."
    expect(isinstance(value, expected), rule, received=type(value).__name__, error=error)
    return value


def write_json(path, value):
    """Writes a JSON file atomically."""
    with atomic_file(path) as file:
        file.write((json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def file_digest(path):
    """Returns a digest of the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
