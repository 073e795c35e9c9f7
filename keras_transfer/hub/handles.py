"""From a module's handle to the folder that holds it: local, in the cache, or fetched from where the handle says."""

import importlib.util
import os
import pathlib
import re
import tempfile
import urllib.parse
import urllib.request

from keras_transfer.hub.archives import MAX_BYTES, why_incomplete
from keras_transfer.hub.cache import Cache
from keras_transfer.hub.errors import HubError, described
from keras_transfer.hub.resolvers import resolve_with_registered

_ARCHIVES = (".tar.gz", ".tgz", ".tar")
# A connection over which nothing comes for so long has failed.
_TIMEOUT_SECONDS = 60

_KAGGLE_NAME = re.compile(r"[^/\s]+/[^/\s]+/tensorflow[12]/[^/\s]+(/\d+)?", re.IGNORECASE)
_KAGGLE_URL = re.compile(
    r"https?://(?:www\.)?kaggle\.com/models/"
    r"(?P<model>[^/?#]+/[^/?#]+)/(?:frameworks/)?(?P<framework>[^/?#]+)/(?:variations/)?(?P<variation>[^/?#]+)"
    r"(?:/(?:versions/)?(?P<version>\d+))?/?(?:[?#].*)?"
)


def resolve(handle, cache_dir=None, sha256=None, max_bytes=MAX_BYTES):
    """Returns the folder of a module, fetching and unpacking it first where the handle says so.

    What is fetched stays in a cache that is shared with tensorflow_hub: each finds what the other has fetched, and for
    a module in it no request is made. An incomplete one is fetched again.

    A handle that a resolver of yours supports (`tensorflow_hub.registry.resolver.add_implementation(...)`) goes to that
    resolver, whatever the handle looks like. Such a resolver caches and checks what it fetches itself.

    Args:
        handle: str or path, one of: a folder; an archive (`.tar.gz`, `.tgz`, `.tar`; the module at its top or in one
            folder); either as `file://...`; the URL of an archive; a module's page on tfhub.dev or kaggle.com; a name
            for kagglehub, such as `"google/nnlm/tensorFlow2/en-dim128/1"`; a folder or archive on a file system that
            only TensorFlow reads, such as `"gs://bucket/module"`; or what a registered resolver supports.
        cache_dir: path of the cache's folder; None for the environment variable TFHUB_CACHE_DIR, or else
            `tfhub_modules` in the system's temporary folder.
        sha256: str of 64 hex digits, the checksum that the archive must have, which is checked before it is unpacked.
        max_bytes: int, the most bytes that an archive may have, packed or unpacked.

    Returns:
        A `pathlib.Path`; a str for a folder that only TensorFlow reads.

    Raises:
        HubError: there is no such module, it cannot be fetched, or it is damaged; nothing of it stays in the cache.

    Example:
    ```python
    tf.saved_model.save(tf.Module(), "module")
    folder = keras_transfer.hub.resolve("module")
    ```
    """
    if not isinstance(handle, (str, os.PathLike)) or not isinstance(os.fspath(handle), str):
        raise HubError(f"a handle is a str or a path. Received: {handle!r} of type {type(handle).__name__}")
    if sha256 is not None and not (isinstance(sha256, str) and re.fullmatch(r"[0-9a-fA-F]{64}", sha256)):
        raise HubError(f"`sha256` is a str of 64 hex digits. Received: {sha256!r}")
    handle = os.fspath(handle)
    folder = cache_dir or os.environ.get("TFHUB_CACHE_DIR") or os.path.join(tempfile.gettempdir(), "tfhub_modules")
    if "://" in str(folder):
        raise HubError(f"the cache must be a folder of this machine: pass `cache_dir`. Received: {folder!r}")
    cache = Cache(pathlib.Path(folder), sha256 and sha256.lower(), max_bytes)
    try:
        if path := resolve_with_registered(handle):
            return _from_resolver(path, handle, cache)
        if handle.startswith(("http://", "https://")):
            return _from_web(handle, cache)
        if handle.startswith("file://"):
            path = "/" + handle.removeprefix("file://").partition("/")[2]  # as TensorFlow: whatever the host
            return _from_disk(urllib.request.url2pathname(path), cache)
        if "://" in handle:
            return _from_tensorflow(handle, cache)
        if _KAGGLE_NAME.fullmatch(handle) and not os.path.exists(handle):
            _refuse_checksum(handle, cache)
            return _from_kaggle(handle)
        return _from_disk(os.path.expanduser(handle), cache)
    except OSError as error:
        raise HubError(
            f"the module {handle!r} cannot be read, or not be kept in the cache {folder}. Received: {described(error)}"
        ) from error


def _from_resolver(path, handle, cache):
    if cache.sha256 is not None:
        raise HubError(
            "`sha256` cannot be used with a handle of a registered resolver. "
            f"Received: sha256={cache.sha256!r} for {handle!r}"
        )
    if "://" in path:
        return _from_tensorflow(path, cache)
    if not os.path.isdir(path):
        raise HubError(f"the registered resolver of {handle!r} must return a folder that exists. Received: {path!r}")
    return _whole(pathlib.Path(path))


def _from_disk(path, cache):
    if os.path.isdir(path):
        _refuse_checksum(path, cache)
        return _whole(pathlib.Path(path))
    if os.path.isfile(path):
        return cache.unpack(path)
    raise HubError(
        "there is no such folder or archive. A handle is a folder, a .tar.gz archive, a URL, or a name on Kaggle such "
        f"as 'google/nnlm/tensorFlow2/en-dim128/1'. Received: {path!r}"
    )


def _from_kaggle(name):
    try:
        import kagglehub
    except ImportError as error:
        raise HubError(
            "there is no folder of this name, and modules on Kaggle are fetched with kagglehub: "
            f"`pip install kagglehub`. Received: {name!r} without it"
        ) from error
    try:
        folder = kagglehub.model_download(name)
    except Exception as error:  # kagglehub raises its own types, those of requests and Python's
        raise HubError(
            "kagglehub could not fetch the module, and there is no folder of its name: check the name and the network; "
            f"offline, pass the path of a downloaded folder or archive. Received: {name!r}: {described(error)}"
        ) from error
    return _whole(pathlib.Path(folder))


def _from_web(url, cache):
    if module := cache.find(url):
        return module
    advice = "download the archive elsewhere and pass its path, or bring its folder in the cache along"
    kaggle = _KAGGLE_URL.fullmatch(url)
    if kaggle and cache.sha256 is None and importlib.util.find_spec("kagglehub"):
        return _from_kaggle("/".join(filter(None, kaggle.groups())))
    if kaggle or url.startswith("https://tfhub.dev/"):
        advice += (
            ", or pass its name on Kaggle, where this page leads, such as 'google/nnlm/tensorFlow2/en-dim128/1' (after "
            "`pip install kagglehub`)"
        )
    return cache.fetch(url, lambda: _open_url(url), advice)


def _open_url(url):
    """An archive's URL as it is; any other is a page, which gives the archive when asked as tensorflow_hub asks."""
    parts = urllib.parse.urlsplit(url)
    query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    if not parts.path.endswith(_ARCHIVES) and ("tf-hub-format", "compressed") not in query:
        query.append(("tf-hub-format", "compressed"))
        url = parts._replace(query=urllib.parse.urlencode(query), fragment="").geturl()
    return urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS)


def _from_tensorflow(url, cache):
    import tensorflow as tf

    if url.endswith(_ARCHIVES):
        advice = "download the archive and pass its path"
        return cache.find(url) or cache.fetch(url, lambda: tf.io.gfile.GFile(url, "rb"), advice)
    _refuse_checksum(url, cache)
    folder = url.rstrip("/")
    try:
        if any(tf.io.gfile.exists(f"{folder}/{name}") for name in ("saved_model.pb", "saved_model.pbtxt")):
            return folder
    except tf.errors.OpError as error:
        raise HubError(
            "a handle is a folder, an archive, a name on Kaggle, or a URL with file://, http(s):// or what TensorFlow "
            f"reads (gs://). Received: {url!r}: {described(error)}"
        ) from error
    raise HubError(f"a module is a folder with saved_model.pb. Received: {url!r} without one")


def _whole(folder):
    if problem := why_incomplete(folder):
        raise HubError(f"a module is a folder with a whole SavedModel. Received: {folder} with {problem}")
    return folder


def _refuse_checksum(name, cache):
    if cache.sha256 is not None:
        raise HubError(f"`sha256` is of an archive: pass the archive's path or URL. Received: {name!r}")
