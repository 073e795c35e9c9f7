"""A lock that lets one process at a time write into a folder."""

import contextlib
import errno
import logging
import os
import pathlib
import socket
import weakref

log = logging.getLogger("keras_transfer")

# The locks of this process. A `fit` that fails does not release its lock, and the next one takes it over.
_held = weakref.WeakSet()


class FolderLock:
    """A lock on a folder, until `release()` is called or nothing refers to it. `lock_folder` creates it.

    The operating system releases the lock when the process ends for any reason. A file that a killed process leaves
    behind is therefore not locked. The file contains the process id of the owner.
    """

    def __init__(self, folder):
        path = pathlib.Path(folder) / ".lock"
        while True:
            self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _lock(self.file, folder)
            except BaseException:
                os.close(self.file)
                raise
            if _is_at(self.file, path):
                break
            os.close(self.file)  # The previous owner has just removed the file.
        self.release = weakref.finalize(self, _remove, self.file, path)
        try:
            os.ftruncate(self.file, 0)
            os.write(self.file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        except OSError as error:
            self.release()
            error.filename = str(path)  # `write` names none.
            raise


def lock_folder(folder):
    """Returns the `FolderLock` of this process on an existing folder."""
    for lock in list(_held):
        if lock.release.alive and _is_at(lock.file, pathlib.Path(folder) / ".lock"):
            return lock
    lock = FolderLock(folder)
    _held.add(lock)
    return lock


def _lock(file, folder):
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(file, 200, 0).decode(errors="replace") or "an unknown process"
        raise RuntimeError(
            "Only one process at a time can write into a folder. Wait until the other one ends, "
            f"or use another folder. Received: folder={str(folder)!r}, in use by {owner}"
        ) from error
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        log.warning("The file system has no locks. Make sure that only one process uses %s", folder)


def _is_at(file, path):
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:  # Another process has removed the file.
        return False


def _remove(file, path):
    with contextlib.suppress(OSError):  # A file that is left behind is not locked.
        if _is_at(file, path):
            path.unlink()
    os.close(file)


def _leave_to_parent():
    """Closes the lock files in a forked process, which would otherwise keep the locks after its parent has ended."""
    for lock in list(_held):
        if lock.release.detach():
            os.close(lock.file)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
