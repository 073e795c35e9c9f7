"""The cache of downloaded modules, which is shared with tensorflow_hub."""

import contextlib
import dataclasses
import glob
import hashlib
import os
import pathlib
import shutil
import stat
import tempfile

from keras_transfer.hub.archives import CHUNK, find_module, unpack, why_incomplete
from keras_transfer.hub.errors import HubError, expect, raising, shown


@dataclasses.dataclass(frozen=True)
class Cache:
    """A folder of modules, each under the SHA-1 of its handle, with the requirements for their archives.

    A record with the checksums of the archive and of its content lies next to each module, in the file that
    tensorflow_hub writes for the handle. If tensorflow_hub downloads the module again, it overwrites the record. A
    cache that other users can write is an error.
    """

    folder: pathlib.Path
    sha256: str | None
    max_bytes: int

    def find(self, url):
        """Returns the complete module downloaded from a URL, or None.

        With `sha256`, its archive must match, and the module must be as it was unpacked.
        """
        return self._usable(self._place(url))

    def fetch(self, url, open_source, advice):
        """Downloads an archive to an unnamed file, checks it there, and returns its module.

        Args:
            open_source: Callable that returns the archive as a binary file.
        """
        self._create()
        with tempfile.TemporaryFile(dir=self.folder) as file:
            for part in self._download(url, open_source, advice):
                file.write(part)
            return self._install(file, self._place(url), url, self._checksum(file, url))

    def unpack(self, path):
        """Unpacks a local archive into the cache, and returns the module's folder.

        The key is a checksum of the content, since the file can change.
        """
        with open(path, "rb") as file:
            checksum = self._checksum(file, path)
            place = self._place(f"sha256:{checksum}")
            return self._usable(place) or self._install(file, place, path, checksum)

    def _place(self, key):
        return self.folder / hashlib.sha1(key.encode(errors="surrogatepass")).hexdigest()

    def _usable(self, place):
        check_ownership([self.folder, _record(place), place, *place.rglob("*")])
        if self.sha256 is not None and not _is_recorded(place, self.sha256):
            return None
        return find_module(place)

    def _create(self):
        self.folder.mkdir(0o755, parents=True, exist_ok=True)

    def _download(self, url, open_source, advice):
        """Yields the parts of an archive. The caller writes them, because a full disk is not a network error."""
        rule = (
            f"Cannot download {shown(url)}, and it is not in the cache ({self._place(url)}; to use another one, set "
            f"TFHUB_CACHE_DIR). Check the URL and the network. Without network access, {advice}."
        )
        size = 0
        # urllib, http.client, ssl and TensorFlow raise a dozen types.
        with raising(rule), open_source() as source:
            while part := source.read(CHUNK):
                size += len(part)
                if size > self.max_bytes:
                    raise HubError(f"more than {self.max_bytes:,} bytes. Call `resolve` with a larger `max_bytes`")
                yield part
            expected = getattr(source, "headers", {}).get("Content-Length")
            if expected is not None and int(expected) != size:
                raise EOFError(f"{size:,} of {int(expected):,} bytes")

    def _checksum(self, file, name):
        file.seek(0)
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        rule = f"The archive {shown(name)} must have the sha256 {self.sha256}."
        expect(self.sha256 in (None, checksum), rule, received=checksum)
        return checksum

    def _install(self, file, place, name, checksum):
        """Unpacks an archive next to `place` and moves its module there, unless another process did so first."""
        self._create()
        with scratch_folder(self.folder, "unpacking") as scratch:
            new, record = scratch / "new", scratch / "record"
            new.mkdir()
            unpack(file, new, self.max_bytes, shown(name))
            module = find_module(new)
            rule = "An archive must contain one complete module, at the top level or in one folder."
            expect(module is not None, rule, received=module or f"{shown(name)} with {why_incomplete(new)}")
            lines = f"Module: {shown(name)}\nSHA256: {checksum}\nContent: {_content_checksum(module)}\n"
            record.write_text(lines, "utf-8", "backslashreplace")
            for path in scratch.rglob("*"):  # the umask may allow it
                path.chmod(path.stat().st_mode & ~0o022)
            for last_try in (False, True):
                if self._usable(place):
                    break
                _record(place).unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):  # The cache has no earlier module there.
                    place.rename(scratch / f"old{last_try}")
                try:
                    module.rename(place)
                except OSError:  # another process moved its module there
                    if last_try:
                        raise
                else:  # last, so that a record never belongs to another archive's module
                    record.replace(_record(place))
                    break
        module, rule = self._usable(place), "Another process replaced the module in the cache. Try again."
        expect(module is not None, rule, received=f"{shown(name)} in {place}")
        return module


def _record(place):
    return place.with_name(f"{place.name}.descriptor.txt")


def _is_recorded(place, sha256):
    """Returns whether a module was unpacked from the archive with this checksum and has not changed since then."""
    record = _record(place)
    lines = record.read_bytes().splitlines() if record.is_file() else []
    if f"SHA256: {sha256}".encode() not in lines:
        return False
    return f"Content: {_content_checksum(place)}".encode() in lines


def _content_checksum(module):
    """Returns a checksum of the names and the contents of a module's files."""
    total = hashlib.sha256()
    for path in sorted(path for path in module.rglob("*") if path.is_file()):
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{content} {path.relative_to(module).as_posix()!r}\n".encode())
    return total.hexdigest()


def check_ownership(paths):
    """Raises a HubError if a user other than this one and root can write one of the files or folders.

    Members of the group are other users, except in a group of one user, which many systems create for each user. On
    systems other than POSIX, nothing is checked.
    """
    if os.name != "posix":
        return
    for path in paths:
        try:
            status = os.stat(path)
        except FileNotFoundError:  # No other user has put anything there.
            continue
        mode, uid = status.st_mode, status.st_uid
        shared = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_group_of_one(status.st_gid, uid))
        rule = (
            "Other users must not be able to write the cache of modules, because the graph of a module can execute "
            "arbitrary code. Delete it, or pass another `cache_dir` (or set TFHUB_CACHE_DIR). If you trust what is in "
            "it, pass the path of the module's folder instead of its URL."
        )
        is_own, received = not shared and uid in (os.geteuid(), 0), f"{path} of the user {uid} with the permissions "
        expect(is_own, rule, received=f"{received}{stat.filemode(mode)}")


def _is_group_of_one(gid, uid):
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:  # A group or user without a name, as in some containers, may have other members.
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


@contextlib.contextmanager
def scratch_folder(parent, name):
    """Yields a new folder `.NAME-*.tmp` in `parent`, and deletes it at the end.

    The folders that killed processes left behind are deleted first. A living process holds a lock on its folder. Where
    folders cannot be locked (Windows, some network file systems), nothing is deleted.
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
