"""Archives of modules: unpacking them safely, and finding a complete module in them."""

import gzip
import pathlib
import re
import tarfile
import zlib

from keras_transfer.hub.errors import HubError, expect, one_line

# Larger than the largest text modules (4.8 billion float32 parameters take 18 GiB), smaller than most disks.
MAX_BYTES = 32 * 2**30
# Modules have tens of files. Even an empty one costs an inode and a system call. Extended headers count as members.
MAX_MEMBERS = 10_000
# Extended headers hold long names and times: a kilobyte for a member.
MAX_HEADER_BYTES = 32 * 2**20
CHUNK = 2**20
BLOCK = 512

_FILES = {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE}
_LONG_NAMES = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_PAX = {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE}
# What a damaged archive raises. Any other OSError is about the disk.
_DAMAGE = (ValueError, EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError)
_CONFLICTS = (FileExistsError, IsADirectoryError, NotADirectoryError)  # a member is a file and a folder

_SPARSE = b"GNU.sparse"  # begins the keywords of sparse files, which are larger than the bytes read
_RECORD = re.compile(rb"(\d{1,9}) ([^=]+)=")

# Ops in every graph with variables: `RestoreV2` reads them (TF2), the others hold them (TF1 Hub format).
_VARIABLES = re.compile(rb"RestoreV2|VarHandleOp|VariableV2")


def unpack(file, folder, max_bytes=MAX_BYTES, name="given"):
    """Unpacks an untrusted tar archive, with or without gzip compression.

    Only files and folders are unpacked, with default permissions. Links, devices, files outside `folder` and more than
    10,000 members are errors. The archive is read once, from its start to its end. Bytes are counted as they are read,
    since the sizes in headers cannot be trusted.
    """
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    archive = _Archive(gzip.GzipFile(fileobj=file) if packed else file, max_bytes)
    try:
        for member, size in archive.members():
            target = folder / member
            if size is None:
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as copy:
                copy.writelines(archive.content(size))
    except (*_DAMAGE, *_CONFLICTS) as error:
        known = isinstance(error, HubError)
        reason = error if known else f"Expected an intact .tar or .tar.gz archive. Received: {one_line(error)}"
        raise HubError(f"Cannot unpack the archive {name}. {reason}") from error


class _Archive:
    """A tar archive, which is read block by block.

    Python's `tarfile` treats a damaged header as the end of the archive, and goes back for members of negative size.
    """

    def __init__(self, file, max_bytes):
        self._file = file
        self._max_bytes = max_bytes
        self._count = 0

    def members(self):
        """Yields the path and the size of each member (`None` for a folder). The caller then reads its `content`."""
        own, shared, header_bytes = {}, {}, 0  # records of the next member, and of all that follow
        for count, header in enumerate(self._headers(), 1):
            expect(count <= MAX_MEMBERS, f"Expected at most {MAX_MEMBERS:,} members.", received=f"at least {count:,}")
            size = _non_negative(header.size)
            if header.type in _PAX | _LONG_NAMES:
                header_bytes += size
                rule = f"Expected at most {MAX_HEADER_BYTES:,} bytes of extended headers."
                expect(header_bytes <= MAX_HEADER_BYTES, rule, received=f"at least {header_bytes:,}")
                content = b"".join(self.content(size))
                if header.type in _PAX:
                    (shared if header.type == tarfile.XGLTYPE else own).update(_records(content))
                elif header.type == tarfile.GNUTYPE_LONGNAME:
                    own[b"path"] = content.partition(b"\0")[0]
                continue
            records, own = shared | own, {}
            name = records[b"path"].decode(errors="surrogateescape") if b"path" in records else header.name
            path = pathlib.PureWindowsPath(name)  # handles all separators and drives, on any system
            is_inside = not path.anchor and ".." not in path.parts
            expect(is_inside, "Expected members inside the archive's folder.", name)
            is_folder, is_file = header.type == tarfile.DIRTYPE, header.type in _FILES and _SPARSE not in records
            rule = "Expected only files and folders, no links, devices or pipes."
            expect(is_folder or is_file, rule, received=f"{name!r} of tar type {header.type!r}")
            yield name, None if is_folder else _non_negative(int(records.get(b"size", size)))
        if own:
            raise tarfile.ReadError("an extended header without its member")

    def content(self, size):
        """Yields the bytes that follow a header, without their padding."""
        for start in range(0, size, CHUNK):
            yield self._read(min(CHUNK, size - start))
        self._read(-size % BLOCK)

    def _headers(self):
        """Yields each header as a `tarfile.TarInfo`. Two blocks of zeros, and nothing else, must follow the last."""
        while (block := self._read(BLOCK)).strip(b"\0"):
            yield tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        rest = self._read(BLOCK)
        while rest:  # to the end, where gzip's checksum is
            if rest.strip(b"\0"):
                raise tarfile.ReadError("bytes after the end of the archive")
            rest = self._read_some(CHUNK)

    def _read(self, size):
        data = self._read_some(size)
        if len(data) < size:
            raise EOFError("the end of the archive is missing")
        return data

    def _read_some(self, size):
        data = self._file.read(size)
        self._count += len(data)
        if self._count > self._max_bytes:
            advice = "To allow more, call `resolve` with a larger `max_bytes`. Received: at least"
            raise HubError(f"Expected at most {self._max_bytes:,} bytes when unpacked. {advice} {self._count:,}")
        return data


def _non_negative(size):
    if size < 0:
        raise tarfile.ReadError(f"a member of negative size: {size}")
    return size


def _records(content):
    """Returns the records of a pax header that change the path or the size of a member."""
    records, start = {}, 0
    while start < len(content):
        match = _RECORD.match(content, start)
        end = start + int(match[1]) if match else 0
        if not match or not match.end() < end <= len(content) or content[end - 1 : end] != b"\n":
            raise tarfile.ReadError("a damaged extended header")
        keyword = _SPARSE if match[2].startswith(_SPARSE) else match[2]
        if keyword in (b"path", b"size", _SPARSE):
            records[keyword] = content[match.end() : end - 1]
        start = end
    return records


def find_module(folder):
    """Returns the folder if it is a complete module, or its only subfolder that is one, or else None."""
    if not folder.is_dir():
        return None
    if not why_incomplete(folder):
        return folder
    below = [path for path in folder.iterdir() if path.is_dir() and not why_incomplete(path)]
    return below[0] if len(below) == 1 else None


def why_incomplete(folder):
    """Returns a phrase for an error message that says what a SavedModel lacks, or None if it is complete."""
    graph = next((path for name in ("saved_model.pb", "saved_model.pbtxt") if (path := folder / name).is_file()), None)
    if graph is None:
        names = sorted(path.name for path in folder.iterdir())
        more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
        return f"no saved_model.pb (found: {names[:10]}{more})"
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
