"""The sizes of the weights and of the optimizer's state in a `.keras` file, from the headers of its HDF5 file."""

import io
import os
import struct
import zipfile

from keras_transfer.files import WEIGHT_FACTS


def weight_sizes(path):
    """Returns the number of bytes of the weights in a `.keras` file, and of the state of the optimizer."""
    import h5py

    sizes = {False: 0, True: 0}

    def add(name, found):
        if isinstance(found, h5py.Dataset) and name.rpartition("/")[2] != WEIGHT_FACTS:
            sizes[name.startswith("optimizer/")] += found.nbytes

    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for entry in archive.infolist():
            if entry.filename.endswith(".weights.h5"):
                with _opened(archive, entry, file) as part, h5py.File(part, "r") as weights:
                    weights.visititems(add)
    return sizes[False], sizes[True]


def _opened(archive, entry, file):
    """Returns an entry of an archive as a file. In `ZipFile.open`, each step backward reads from its start again."""
    if entry.compress_type != zipfile.ZIP_STORED:
        return archive.open(entry)
    file.seek(entry.header_offset + 26)
    name, extra = struct.unpack("<HH", file.read(4))
    return _Section(file, entry.header_offset + 30 + name + extra, entry.file_size)


class _Section(io.RawIOBase):
    """A section of a file, as a file that can be read.

    Args:
        file: File that can be read.
        start, size: Integers. Position and number of its bytes.
    """

    def __init__(self, file, start, size):
        super().__init__()
        self.file, self.start, self.size, self.position = file, start, size, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=os.SEEK_SET):
        self.position = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.size}[whence] + offset
        return self.position

    def readinto(self, buffer):
        self.file.seek(self.start + self.position)
        found = self.file.read(min(len(buffer), max(self.size - self.position, 0)))
        buffer[: len(found)] = found
        self.position += len(found)
        return len(found)
