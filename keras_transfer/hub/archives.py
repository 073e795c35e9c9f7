"""Archives of modules: unpacking them safely, and finding a complete module in them."""

import gzip
import pathlib
import re
import shutil
import tarfile

from keras_transfer.hub.errors import HubError, one_line

# Larger than the largest text modules (4.8 billion float32 parameters take 18 GiB), smaller than most disks.
MAX_BYTES = 32 * 2**30
# Modules have tens of files. Even an empty one costs an inode and a system call.
MAX_MEMBERS = 10_000
CHUNK = 2**20

# Ops in every graph with variables: `RestoreV2` reads them (TF2), the others hold them (TF1 Hub format).
_VARIABLES = re.compile(rb"RestoreV2|VarHandleOp|VariableV2")


def unpack(file, folder, max_bytes=MAX_BYTES, name="given"):
    """Unpacks an untrusted tar archive, with or without gzip compression.

    Only files and folders are unpacked, with default permissions. Bytes are counted as they are read, since the sizes
    in headers cannot be trusted.

    Args:
        file: Seekable binary file at its start. The archive.
        folder: Path of an existing empty folder.
        max_bytes: Integer. Maximum size of the unpacked archive. Defaults to 32 GiB.
        name: String. Name of the archive in error messages. Defaults to `"given"`.

    Raises:
        HubError: If the file is not a tar archive, is damaged or truncated, is larger than `max_bytes` or has more
            than 10,000 members; or if a member is a link or a device, or lies outside `folder`.
    """
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    try:
        stream = _Bounded(gzip.GzipFile(fileobj=file) if packed else file, max_bytes)
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            for count, member in enumerate(archive, 1):
                if count > MAX_MEMBERS:
                    raise HubError(f"Expected at most {MAX_MEMBERS:,} members. Received: at least {count:,}")
                _unpack_member(archive, member, folder)
        while stream.read(CHUNK):  # to the end, where gzip's checksum is
            pass
    except Exception as error:  # tarfile, gzip and zlib raise a dozen types for damaged archives
        known = isinstance(error, HubError)
        reason = error if known else f"Expected an intact .tar or .tar.gz archive. Received: {one_line(error)}"
        raise HubError(f"Cannot unpack the archive {name}. {reason}") from error


def _unpack_member(archive, member, folder):
    path = pathlib.PureWindowsPath(member.name)  # handles all separators and drives, on any system
    if path.anchor or ".." in path.parts:
        raise HubError(f"Expected members inside the archive's folder. Received: {member.name!r}")
    target = folder / member.name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.isreg() and not member.issparse():  # a sparse file is larger than the bytes read
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.extractfile(member) as source, open(target, "wb") as copy:
            shutil.copyfileobj(source, copy, CHUNK)
    else:
        raise HubError(
            f"Expected only files and folders, no links, devices or pipes. Received: {member.name!r} of tar type "
            f"{member.type!r}"
        )


class _Bounded:
    """A file for tarfile to read, with limits on the size of a header and on the total size."""

    def __init__(self, file, max_bytes):
        self._file = file
        self._max_bytes = max_bytes
        self.seek, self.tell = file.seek, file.tell

    def read(self, size):
        if size > CHUNK:
            raise HubError(f"Expected headers of at most {CHUNK:,} bytes. Received: {size:,}")
        data = self._file.read(size)
        if self._file.tell() > self._max_bytes:
            raise HubError(
                f"Expected at most {self._max_bytes:,} bytes when unpacked. To allow more, call `resolve` with a "
                f"larger `max_bytes`. Received: at least {self._file.tell():,}"
            )
        return data


def find_module(folder):
    """Returns the folder if it is a complete module, or its only subfolder that is one, or else None."""
    if not folder.is_dir():
        return None
    if not why_incomplete(folder):
        return folder
    below = [path for path in folder.iterdir() if path.is_dir() and not why_incomplete(path)]
    return below[0] if len(below) == 1 else None


def why_incomplete(folder):
    """Returns a phrase on what a SavedModel lacks, for an error message, or None if it is complete."""
    graph = next((path for name in ("saved_model.pb", "saved_model.pbtxt") if (path := folder / name).is_file()), None)
    if graph is None:
        return f"no saved_model.pb (found: {sorted(path.name for path in folder.iterdir())})"
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
