"""The files of a corpus: ids in shards, which are read without copying them into memory."""

import dataclasses
import pathlib
import zlib

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.files import atomic_file, read_json, write_json

CORPUS_FILE = "corpus.json"  # It says whether the files are complete.
_COLUMNS = ("ids", "documents", "lines")  # `lines` and `documents` say where they end.
_ROUNDS = 6
_MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)


@dataclasses.dataclass(frozen=True)
class Shard:
    """A part of a corpus, in files that are mapped into memory.

    Attributes:
        ids: Integer array [tokens].
        documents: Integer array. Where each document ends.
        lines: Integer array. Where each line, such as a sentence, ends. Each document ends with a line.
    """

    ids: np.ndarray
    documents: np.ndarray
    lines: np.ndarray


def write_shard(folder, number, columns, **facts):
    """Writes a shard. It exists when its file of counts and of further facts does, which is written last."""
    try:
        for name in _COLUMNS:
            with atomic_file(_path(folder, number, name)) as file:
                np.save(file, columns[name])
        found = {name: len(columns[name]) for name in _COLUMNS} | facts
        write_json(
            _counts(folder, number), found | {"checksums": {name: _checksum(columns[name]) for name in _COLUMNS}}
        )
    except OSError as error:  # That of NumPy says how many bytes are missing, and not where.
        raise OSError(
            f"{folder}: A file of the corpus cannot be written. If the disk is full, make room and call `Corpus.build` "
            f"again, which goes on after the last complete shard. Received: {error}"
        ) from error


def discard_begin(folder):
    """Removes what a build has written, unless a shard is complete, from which on another call can go on."""
    if not read_counts(folder):
        for path in [*pathlib.Path(folder).glob("00000.*.npy"), pathlib.Path(folder) / CORPUS_FILE]:
            path.unlink(missing_ok=True)


def read_counts(folder):
    """Returns a list of the counts of the shards that are complete, from the first on without a gap."""
    found = []
    while (path := _counts(folder, len(found))).exists():
        found.append(read_json(path))
    return found


def open_shard(folder, number, counts):
    """Returns a `Shard`."""
    columns = {}
    for name in _COLUMNS:
        path = _path(folder, number, name)
        try:
            columns[name] = np.load(path, mmap_mode="r", allow_pickle=False)
        except (EOFError, OSError, ValueError) as error:
            raise ValueError(
                f"{path}: Expected a file of a corpus with {counts[name]:,} values. It is missing, cut or damaged: "
                f"remove the folder and build the corpus again. Received: {error}"
            ) from None
        advice = "remove the folder and build the corpus again."
        rule = f"{path}: Expected {counts[name]:,} values. It is from another corpus: {advice}"
        expect(columns[name].shape == (counts[name],), rule, shape=columns[name].shape)
        written, found = counts.get("checksums", {}).get(name), _checksum(columns[name])
        rule = f"{path}: Expected values with the checksum {written}. The file is damaged: copy it again, or {advice}"
        expect(written in (None, found), rule, checksum=found)  # Earlier versions wrote no checksums.
    return Shard(**columns)


def _checksum(values):
    """Returns the CRC-32 of an array, which is read in parts."""
    found, step = 0, 2**22
    for start in range(0, len(values), step):
        found = zlib.crc32(values[start : start + step].tobytes(), found)
    return found


def _path(folder, number, name):
    return pathlib.Path(folder) / f"{number:05d}.{name}.npy"


def _counts(folder, number):
    return pathlib.Path(folder) / f"{number:05d}.json"


class Shuffle:
    """A random permutation of the integers below `count`, computed for each position by itself.

    It is a Feistel network, which is a bijection on all numbers of an even number of bits. A result that is too large
    goes through the network again, so that the numbers below `count` are permuted among themselves.
    """

    def __init__(self, count, seed):
        self.count = count
        self._half = np.uint64(max(1, -(-max(count - 1, 1).bit_length() // 2)))
        self._mask = (np.uint64(1) << self._half) - np.uint64(1)
        self._keys = np.random.default_rng(seed).integers(2**64, size=_ROUNDS, dtype="uint64")

    def __call__(self, positions):
        numbers = self._permute(np.array(positions, "uint64"))
        while (outside := numbers >= self.count).any():
            numbers[outside] = self._permute(numbers[outside])
        return numbers.astype("int64")

    def _permute(self, numbers):
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys:
            mixed = (right ^ key) * _MULTIPLIER
            mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
            left, right = right, left ^ ((mixed >> _SHIFT) & self._mask)
        return (left << self._half) | right
