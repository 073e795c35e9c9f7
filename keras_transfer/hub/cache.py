"""The cache of fetched modules, which is shared with tensorflow_hub: each finds what the other has fetched."""

import contextlib
import dataclasses
import hashlib
import pathlib
import tempfile

from keras_transfer.hub.archives import CHUNK, find_module, unpack, why_incomplete
from keras_transfer.hub.errors import HubError, described


@dataclasses.dataclass(frozen=True)
class Cache:
    """A folder of modules, each under the sha1 of its handle, and what their archives must satisfy.

    Beside each stands a record with the checksum of its archive, in the file in which tensorflow_hub notes the handle:
    where that fetches the module again, the record goes.

    Args:
        folder: `pathlib.Path`.
        sha256: str, the checksum that an archive must have; None for any.
        max_bytes: int, the most bytes that an archive may have, packed or unpacked.
    """

    folder: pathlib.Path
    sha256: str | None
    max_bytes: int

    def find(self, url):
        """Returns the whole module that was fetched from there, or None; with `sha256` only if from that archive."""
        return self._usable(self._place(url))

    def fetch(self, url, open_source, advice):
        """Returns the module in an archive, which is copied to a nameless file first and checked there.

        Args:
            url: str.
            open_source: callable that returns the archive as a binary file.
            advice: str for the message, what to do without the network.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            try:
                with open_source() as source:
                    self._copy(source, file)
            except Exception as error:  # urllib, http.client, ssl and TensorFlow raise a dozen types
                raise HubError(
                    f"{url} could not be fetched, and the cache has no whole module of it (looked in "
                    f"{self._place(url)}; TFHUB_CACHE_DIR sets another). Check the URL and the network; offline, "
                    f"{advice}. Received: {described(error)}"
                ) from error
            return self._install(file, self._place(url), url, self._checksum(file, url))

    def unpack(self, path):
        """Returns the module in an archive of this machine, kept by what it holds: the file may change."""
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
                raise HubError(f"more than {self.max_bytes:,} bytes: call `resolve` with a larger `max_bytes`")
            file.write(chunk)
        expected = getattr(source, "headers", {}).get("Content-Length")
        if expected is not None and int(expected) != size:
            raise EOFError(f"{size:,} of {int(expected):,} bytes")

    def _checksum(self, file, name):
        file.seek(0)
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        if self.sha256 not in (None, checksum):
            raise HubError(f"the archive {name} must have the sha256 {self.sha256}. Received: {checksum}")
        return checksum

    def _install(self, file, place, name, checksum):
        """Unpacks an archive beside its place and moves it there, unless another process was faster."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=self.folder) as scratch:
            new, record = pathlib.Path(scratch, "new"), pathlib.Path(scratch, "record")
            new.mkdir()
            unpack(file, new, self.max_bytes, name)
            module = find_module(new)
            if module is None:
                raise HubError(
                    "an archive must hold one whole module, at its top or in one folder. "
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
                except OSError:  # another process came between
                    if last_try:
                        raise
                else:  # only now: a record is never beside what was not unpacked from its archive
                    record.write_text(f"Module: {name}\nSHA256: {checksum}\n", "utf-8", "backslashreplace")
                    record.replace(_record(place))
                    break
        module = self._usable(place)
        if module is None:
            raise HubError(f"another process fetched the module meanwhile: try again. Received: {name} in {place}")
        return module


def _record(place):
    return place.with_name(f"{place.name}.descriptor.txt")
