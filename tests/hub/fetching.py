"""Small modules, archives with any content, and a server on loopback that records its requests."""

import contextlib
import hashlib
import http.server
import io
import pathlib
import re
import tarfile
import threading

import pytest

from keras_transfer.hub import HubError, resolve
from keras_transfer.hub.archives import unpack


def write_stub(folder, graph=b"a graph without variables"):
    """Writes a folder with the files of a module, which TensorFlow cannot load."""
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(graph)
    (folder / "assets").mkdir()
    (folder / "assets" / "vocab.txt").write_bytes(b"the\nfilm\n")
    return folder


def save_module(folder):
    """Saves a SavedModel with one variable: [batch, 3] floats to [batch, 2]."""
    import tensorflow as tf

    module = tf.Module()
    module.kernel = tf.Variable(tf.ones([3, 2]))
    function = tf.function(lambda x: tf.matmul(x, module.kernel), input_signature=[tf.TensorSpec([None, 3])])
    module.__call__ = function
    tf.saved_model.save(module, str(folder), signatures=function)
    return folder


def pack(*members, mode="w:gz"):
    """Returns the bytes of an archive. A member is `(name, bytes)`, `(name, None)` for a folder, or a `TarInfo`."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            name, content = member
            header = tarfile.TarInfo(name)
            header.type, header.size = (tarfile.DIRTYPE, 0) if content is None else (tarfile.REGTYPE, len(content))
            archive.addfile(header, io.BytesIO(content or b""))
    return file.getvalue()


def pack_folder(folder, top="", mode="w:gz"):
    """Returns the bytes of an archive of a folder's content, below the folder `top` if it is given."""
    paths = sorted(pathlib.Path(folder).rglob("*"))
    names = [f"{top}/{path.relative_to(folder)}".lstrip("/") for path in paths]
    return pack(*((name, path.read_bytes() if path.is_file() else None) for name, path in zip(names, paths)), mode=mode)


def tree(folder):
    """Returns the content of a folder as `{path: content}`, with None for a subfolder."""
    paths = sorted(pathlib.Path(folder).rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def place(cache_dir, handle):
    """Returns the path of a handle's module in tensorflow_hub's cache."""
    return cache_dir / hashlib.sha1(handle.encode()).hexdigest()


def sha256(content):
    """Returns the checksum of bytes."""
    return hashlib.sha256(content).hexdigest()


def assert_error(handle, *parts, **options):
    """Asserts that `resolve` raises a `HubError` that matches all the regular expressions."""
    with pytest.raises(HubError) as error:
        resolve(handle, **options)
    for part in parts:
        assert re.search(part, str(error.value)), f"{part!r} is not in: {error.value}"


def unpack_bytes(content, folder, **options):
    """Unpacks the bytes of an archive into a folder, and returns the folder."""
    folder.mkdir(exist_ok=True)
    unpack(io.BytesIO(content), folder, **options)
    return folder


def assert_refused(content, folder, message, **options):
    """Asserts that an archive is a `HubError` with a message that matches."""
    with pytest.raises(HubError, match=f"Cannot unpack the archive given. {message}"):
        unpack_bytes(content, folder, **options)


class Server(http.server.ThreadingHTTPServer):
    """A server on loopback.

    Attributes:
        answers: dict from a path, with its query, to bytes, or to `(status, headers, bytes)`.
        requests: list of the paths that were asked for.
        before_answer: callable, called in each request.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers, self.requests, self.before_answer = {}, [], lambda: None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        self.server.before_answer()
        answer = self.server.answers.get(self.path, (404, {}, b"no such page"))
        status, headers, body = (200, {}, answer) if isinstance(answer, bytes) else answer
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serving(monkeypatch):
    """Yields a running `Server`, without a proxy."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
