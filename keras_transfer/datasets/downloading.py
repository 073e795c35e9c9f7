"""Downloads of datasets into Keras's folder, which resume where they stopped and are checked."""

import hashlib
import http.client
import os
import pathlib
import time
import urllib.error
import urllib.request

from keras_transfer.core.expect import expect
from keras_transfer.core.names import look_up
from keras_transfer.datasets.sources import SOURCES

CHUNK = 1 << 16
TRIES = 5  # So many may fail in a row, without any new data.
TIMEOUT_SECONDS = 60
WAIT_SECONDS = 1.0


def download(name: str, folder: str | os.PathLike | None = None) -> pathlib.Path:
    """Downloads the files of a dataset, and returns their folder.

    Files that exist already are checked and not downloaded again. An interrupted download resumes, even in another
    process. A file appears under its name only when it is complete and has its published checksum.

    Args:
        name: String. `"squad1.1"` or `"squad2.0"`. For other datasets, whose licence or host does not allow downloads,
            the error says where to get the data.
        folder: Path of the folder for the files. Defaults to `datasets/keras_transfer/NAME` in the folder of Keras:
            `$KERAS_HOME`, or `~/.keras`.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        ValueError: If the dataset is unknown or cannot be downloaded, or if a file has another checksum.
        OSError: If the host cannot be reached. The next call resumes.

    Example:
    ```python
    try:
        folder = keras_transfer.datasets.download("conll2003")
    except ValueError as error:
        print(error)  # says where to get the data
    ```
    """
    name = look_up(name, SOURCES, "dataset")
    source = SOURCES[name]
    if "url" not in source:
        can = " and ".join(each for each, other in SOURCES.items() if "url" in other)
        raise ValueError(f"Only {can} can be downloaded automatically. {source['advice']} Received: {name!r}")
    if folder is None:
        home = os.environ.get("KERAS_HOME") or pathlib.Path.home() / ".keras"
        folder = pathlib.Path(home) / "datasets" / "keras_transfer" / name
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file, sha256 in source["files"].items():
        download_file(source["url"] + file, folder / file, sha256)
    return folder


def download_file(url, path, sha256):
    """Downloads a file with a known checksum, unless it exists already.

    The data are first written to `NAME.part`. If the download is interrupted, this file remains, and the next call
    resumes it. If the checksum is wrong, the file is removed.
    """
    if path.exists():
        _check(path, sha256, f"Remove {path} to download it again.")
        return
    part, failures = path.with_name(f"{path.name}.part"), 0
    while True:
        before = _size(part)
        try:
            total = _append(url, part)
            if _size(part) >= total:
                break
            error = f"{_size(part):,} of {total:,} bytes"
        except urllib.error.HTTPError as problem:
            failures, error = (failures if problem.code >= 500 else TRIES), problem
        except (OSError, http.client.HTTPException) as problem:
            error = problem
        failures = failures + 1 if _size(part) <= before else 0
        if failures >= TRIES:
            raise OSError(
                f"Cannot download {url}. Try again later, to resume after {before:,} bytes. Received: {error}"
            )
        time.sleep(WAIT_SECONDS * failures)
    try:
        _check(part, sha256, "The file has changed, or the download is damaged.")
    except ValueError:
        part.unlink()
        raise
    os.replace(part, path)


def _append(url, part):
    """Appends missing data to the part while the connection lasts, and returns the size of the whole file."""
    import keras

    start = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        return start  # The part is already complete, or belongs to another file, which its checksum shows.
    with response, open(part, "ab") as file:
        if response.status != 206:  # The host sends the whole file.
            file.truncate(0)
            start = 0
        length = response.headers["Content-Length"]
        total = None if length is None else start + int(length)
        bar = keras.utils.Progbar(total, unit_name="byte")
        bar.update(start)
        while chunk := response.read(CHUNK):
            file.write(chunk)
            bar.add(len(chunk))
        file.flush()
        os.fsync(file.fileno())
    return _size(part) if total is None else total


def _size(path):
    return path.stat().st_size if path.exists() else 0


def _check(path, sha256, advice):
    with open(path, "rb") as file:
        received = hashlib.file_digest(file, "sha256").hexdigest()
    expect(received == sha256, f"{path.name} must have the sha256 {sha256}. {advice}", sha256=received)
