"""Temporary folders that do not outlive their process for long, even if it is killed."""

import contextlib
import glob
import os
import pathlib
import shutil
import tempfile


@contextlib.contextmanager
def scratch_folder(parent, name):
    """Yields a new folder `.NAME-*.tmp` in `parent`, and deletes it at the end.

    The folders that killed processes left behind are deleted first. A living process holds a lock on its folder. Where
    folders cannot be locked (Windows, some network file systems), nothing is deleted.

    Args:
        parent: `pathlib.Path`. An existing folder.
        name: String. Name of all these folders.
    """
    with contextlib.ExitStack() as stack:
        with _locked(parent) as locked:  # No other process is between creating and locking a folder.
            for left in parent.glob(f".{glob.escape(name)}-*.tmp") if locked else ():
                with _locked(left, wait=False) as abandoned:
                    if abandoned:
                        shutil.rmtree(left, ignore_errors=True)
            scratch = tempfile.mkdtemp(prefix=f".{name}-", suffix=".tmp", dir=parent)
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            stack.enter_context(_locked(scratch))
        yield pathlib.Path(scratch)


@contextlib.contextmanager
def _locked(folder, wait=True):
    """Yields whether this process has locked a folder. The system unlocks it when the process ends."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            locked = True
        except OSError:  # held by another process, or not supported by the file system
            locked = False
        yield locked
    finally:
        os.close(descriptor)
