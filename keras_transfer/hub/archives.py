"""Archives of modules: unpacked into one folder and nowhere else, and checked to be whole."""

import gzip
import pathlib
import re
import shutil
import tarfile

from keras_transfer.hub.errors import HubError, described

# Above the largest text modules (an encoder of 4.8 billion parameters in float32 is 18 GiB), below most disks.
MAX_BYTES = 32 * 2**30
# Modules have tens of files; each costs an inode and a system call, however small it is.
MAX_MEMBERS = 10_000
CHUNK = 2**20

# What a graph with variables contains: the op that reads them (TF2), or those that hold them (the TF1 Hub format).
_VARIABLES = re.compile(rb"RestoreV2|VarHandleOp|VariableV2")


def unpack(file, folder, max_bytes=MAX_BYTES, name="given"):
    """Unpacks a tar archive, plain or with gzip, of which nothing is trusted.

    Only files and folders are unpacked, with the usual permissions. Bytes are counted as they are read: what the
    headers promise is not believed.

    Args:
        file: binary file that can seek, at its start.
        folder: path of an existing empty folder.
        max_bytes: int, the most bytes that the unpacked archive may have.
        name: str, the archive's name for messages.

    Raises:
        HubError: it is no such archive, is damaged or truncated, is larger than `max_bytes` or has more than 10,000
            members; or a member is no file or folder (a link, a device), or lies outside `folder`.
    """
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    try:
        stream = _Bounded(gzip.GzipFile(fileobj=file) if packed else file, max_bytes)
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for count, member in enumerate(archive, 1):
                if count > MAX_MEMBERS:
                    raise HubError(f"expected at most {MAX_MEMBERS:,} members. Received: more")
                _unpack_member(archive, member, folder)
        while stream.read(CHUNK):  # to the end, where gzip's checksum stands
            pass
    except Exception as error:  # tarfile, gzip and zlib raise a dozen types for damaged archives
        known = isinstance(error, HubError)
        reason = error if known else f"expected a whole .tar or .tar.gz archive. Received: {described(error)}"
        raise HubError(f"the archive {name} was not unpacked: {reason}") from error


def _unpack_member(archive, member, folder):
    path = pathlib.PureWindowsPath(member.name)  # knows all separators and drives, on any system
    if path.anchor or ".." in path.parts:
        raise HubError(f"expected members inside the archive's folder. Received: {member.name!r}")
    target = folder / member.name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.isreg() and not member.issparse():  # a sparse file is larger than what is read for it
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.extractfile(member) as source, open(target, "wb") as copy:
            shutil.copyfileobj(source, copy, CHUNK)
    else:
        raise HubError(
            f"expected files and folders only, no links, devices or pipes. Received: {member.name!r} of tar's type "
            f"{member.type!r}"
        )


class _Bounded:
    """The file that tarfile reads: no header fills the memory, and it reads no further than the limit."""

    def __init__(self, file, max_bytes):
        self._file = file
        self._max_bytes = max_bytes
        self.seek, self.tell = file.seek, file.tell

    def read(self, size):
        if size > CHUNK:
            raise HubError(f"expected headers of at most {CHUNK:,} bytes. Received: {size:,}")
        data = self._file.read(size)
        if self._file.tell() > self._max_bytes:
            raise HubError(
                f"expected at most {self._max_bytes:,} bytes when unpacked; if more is right, call `resolve` with a "
                "larger `max_bytes`. Received: more"
            )
        return data


def find_module(folder):
    """Returns the folder with a whole module: this one, or the only one below it that has one, else None."""
    if not folder.is_dir():
        return None
    if not why_incomplete(folder):
        return folder
    below = [path for path in folder.iterdir() if path.is_dir() and not why_incomplete(path)]
    return below[0] if len(below) == 1 else None


def why_incomplete(folder):
    """Returns what a folder has instead of a whole SavedModel, for a message, or None if nothing is missing."""
    graph = next((path for name in ("saved_model.pb", "saved_model.pbtxt") if (path := folder / name).is_file()), None)
    if graph is None:
        return f"no saved_model.pb, but {sorted(path.name for path in folder.iterdir()) or 'nothing'}"
    content = graph.read_bytes()
    if not content:
        return f"an empty {graph.name}"
    if not _VARIABLES.search(content):
        return None
    index = folder / "variables" / "variables.index"
    if not index.is_file() or not index.stat().st_size:
        return "no variables/variables.index, or an empty one"
    shards = [re.fullmatch(r"variables\.data-(\d+)-of-(\d+)", path.name) for path in index.parent.iterdir()]
    found = {(int(shard[1]), int(shard[2])) for shard in shards if shard}
    count = max((of for _, of in found), default=1)
    missing = next((i for i in range(count) if (i, count) not in found), None)
    return None if missing is None else f"no variables/variables.data-{missing:05}-of-{count:05}"
