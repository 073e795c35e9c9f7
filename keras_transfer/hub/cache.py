"""The cache of downloaded modules, which is shared with tensorflow_hub."""

import contextlib
import dataclasses
import hashlib
import pathlib
import tempfile

from keras_transfer.hub.archives import CHUNK, find_module, unpack, why_incomplete
from keras_transfer.hub.errors import HubError, one_line


@dataclasses.dataclass(frozen=True)
class Cache:
    """A folder of modules, each under the SHA-1 of its handle, with the requirements for their archives.

    A record with the checksum of the archive lies beside each module, in the file that tensorflow_hub writes for the
    handle. If tensorflow_hub downloads the module again, it overwrites the record.

    Args:
        folder: `pathlib.Path`. Folder of the cache.
        sha256: String. Checksum that an archive must have, or `None` for any.
        max_bytes: Integer. Maximum size of an archive, packed or unpacked.
    """

    folder: pathlib.Path
    sha256: str | None
    max_bytes: int

    def find(self, url):
        """Returns the complete module downloaded from a URL, or None. With `sha256`, its archive must match."""
        return self._usable(self._place(url))

    def fetch(self, url, open_source, advice):
        """Downloads an archive to an unnamed file, checks it there, and returns its module.

        Args:
            url: String. URL of the archive.
            open_source: Callable that returns the archive as a binary file.
            advice: String for the error message. What to do without network access.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            try:
                with open_source() as source:
                    self._copy(source, file)
            except Exception as error:  # urllib, http.client, ssl and TensorFlow raise a dozen types
                raise HubError(
                    f"Cannot download {url}, and it is not in the cache ({self._place(url)}; to use "
                    "another one, set TFHUB_CACHE_DIR). Check the URL and the network. Without network access, "
                    f"{advice}. Received: {one_line(error)}"
                ) from error
            return self._install(file, self._place(url), url, self._checksum(file, url))

    def unpack(self, path):
        """Returns the module in a local archive. It is cached by content, since the file can change."""
        with open(path, "rb") as file:
            checksum = self._checksum(file, path)
            place = self._place(f"sha256:{checksum}")
            return find_module(place) or self._install(file, place, path, checksum)

    def _place(self, key):
        return self.folder / hashlib.sha1(key.encode(errors="surrogatepass")).hexdigest()

    def _usable(self, place):
        if self.sha256 is not None:
            record = _record(place)
            if not record.is_file() or f"SHA256: {self.sha256}".encode() not in record.read_bytes().splitlines():
                return None
        return find_module(place)

    def _copy(self, source, file):
        size = 0
        while chunk := source.read(CHUNK):
            size += len(chunk)
            if size > self.max_bytes:
                raise HubError(f"more than {self.max_bytes:,} bytes. Call `resolve` with a larger `max_bytes`")
            file.write(chunk)
        expected = getattr(source, "headers", {}).get("Content-Length")
        if expected is not None and int(expected) != size:
            raise EOFError(f"{size:,} of {int(expected):,} bytes")

    def _checksum(self, file, name):
        file.seek(0)
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        if self.sha256 not in (None, checksum):
            raise HubError(f"The archive {name} must have the sha256 {self.sha256}. Received: {checksum}")
        return checksum

    def _install(self, file, place, name, checksum):
        """Unpacks an archive beside `place` and moves its module there, unless another process did so first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=self.folder) as scratch:
            new, record = pathlib.Path(scratch, "new"), pathlib.Path(scratch, "record")
            new.mkdir()
            unpack(file, new, self.max_bytes, name)
            module = find_module(new)
            if module is None:
                raise HubError(
                    "An archive must contain one complete module, at the top level or in one folder. "
                    f"Received: {name} with {why_incomplete(new)}"
                )
            for last_try in (False, True):
                if self._usable(place):
                    break
                _record(place).unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    place.rename(pathlib.Path(scratch, f"old{last_try}"))
                try:
                    module.rename(place)
                except OSError:  # another process moved its module there
                    if last_try:
                        raise
                else:  # last, so that a record never belongs to another archive's module
                    record.write_text(f"Module: {name}\nSHA256: {checksum}\n", "utf-8", "backslashreplace")
                    record.replace(_record(place))
                    break
        module = self._usable(place)
        if module is None:
            raise HubError(f"Another process replaced the module in the cache. Try again. Received: {name} in {place}")
        return module


def _record(place):
    return place.with_name(f"{place.name}.descriptor.txt")
