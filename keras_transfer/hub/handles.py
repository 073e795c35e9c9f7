"""Resolving the handle of a module to its folder, which is local, in the cache, or downloaded."""

import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from keras_transfer.core.expect import Rule, expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.hub.archives import MAX_BYTES, why_incomplete
from keras_transfer.hub.cache import Cache
from keras_transfer.hub.errors import HubError, expect, raising, shown
from keras_transfer.keras_internals import hub_modules

ARCHIVES = (".tar.gz", ".tgz", ".tar")

# A connection without data for this long has failed.
_TIMEOUT_SECONDS = 60

_KAGGLE_NAME = re.compile(r"[^/\s]+/[^/\s]+/tensorflow[12]/[^/\s]+(/\d+)?", re.IGNORECASE)

_KAGGLE_URL = re.compile(
    r"https?://(?:www\.)?kaggle\.com/models/"
    r"(?P<model>[^/?#]+/[^/?#]+)/(?:frameworks/)?(?P<framework>[^/?#]+)/(?:variations/)?(?P<variation>[^/?#]+)"
    r"(?:/(?:versions/)?(?P<version>\d+))?/?(?:[?#].*)?"
)


_PATH = Rule(
    "a string or a path",
    lambda value: isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str),
    (None, 3, b"module", ["module"]),
)
_SHA256 = Rule(
    "a string of 64 hexadecimal digits",
    lambda value: isinstance(value, str) and bool(re.fullmatch(r"[0-9a-fA-F]{64}", value)),
    ("", "abc", "g" * 64, b"0" * 64, 0),
)


@expects(handle=_PATH, cache_dir=_PATH._replace(wrong=(5,)), sha256=_SHA256, max_bytes=integer(1))
def resolve(
    handle: str | os.PathLike,
    cache_dir: str | os.PathLike | None = None,
    sha256: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> pathlib.Path:
    """Returns the folder of a module, and downloads and unpacks it if necessary.

    The cache is shared with tensorflow_hub: each library finds the modules that the other has downloaded. A module in
    the cache is downloaded again only if it is incomplete.

    A handle that one of your resolvers supports (`tensorflow_hub.registry.resolver.add_implementation(...)`) is always
    passed to that resolver, which is responsible for caching and checking.

    Args:
        handle: String or path. A folder; an archive (`.tar.gz`, `.tgz`, `.tar`, with the module at the top level or in
            one folder); either as `file://...`; the URL of an archive; a module's page on tfhub.dev or kaggle.com;
            a name for kagglehub, such as `"google/nnlm/tensorFlow2/en-dim128/1"`; a folder or archive on a file system
            that only TensorFlow reads, such as `"gs://bucket/module"`; or any handle of a registered resolver.
        cache_dir: Path. Folder of the cache. Defaults to the environment variable `TFHUB_CACHE_DIR`, or else to
            `tfhub_modules` in the system's temporary folder.
        sha256: String of 64 hexadecimal digits. Expected checksum of the archive. Defaults to `None`.
        max_bytes: Integer. Maximum size of an archive, packed or unpacked. Defaults to 32 GiB.

    Returns:
        A `pathlib.Path`, or a string for a folder that only TensorFlow reads.

    Raises:
        HubError: If the module does not exist, cannot be downloaded or is damaged. It is not kept in the cache.

    Example:
    ```python
    tf.saved_model.save(tf.Module(), "module")
    folder = keras_transfer.hub.resolve("module")
    ```
    """
    handle = os.fspath(handle)
    folder = cache_dir or os.environ.get("TFHUB_CACHE_DIR") or os.path.join(tempfile.gettempdir(), "tfhub_modules")
    expect("://" not in str(folder), "The cache must be a local folder. Pass `cache_dir`.", folder)
    cache = Cache(pathlib.Path(folder), sha256 and sha256.lower(), max_bytes)
    with raising(f"Cannot read the module {shown(handle)!r} or write the cache {folder}.", OSError):
        if path := resolve_with_registered(handle):
            return _from_resolver(path, handle, cache)
        scheme = re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", handle)
        if scheme:  # in lower case for all that follows
            handle = scheme[0].lower() + handle[scheme.end() :]
        if handle.startswith(("http://", "https://")):
            return _from_web(handle, cache)
        if handle.startswith("file://"):
            path = "/" + handle.removeprefix("file://").partition("/")[2]  # any host, as in TensorFlow
            return _from_disk(urllib.request.url2pathname(path), cache)
        if "://" in handle:
            return _from_tensorflow(handle, cache)
        if _KAGGLE_NAME.fullmatch(handle) and not os.path.exists(handle):
            _refuse_checksum(handle, cache)
            return _from_kaggle(handle)
        return _from_disk(_expanded(handle), cache)


def _from_resolver(path, handle, cache):
    received = f"sha256={cache.sha256!r} for {shown(handle)!r}"
    expect(cache.sha256 is None, "`sha256` cannot be used with a handle of a registered resolver.", received=received)
    if "://" in path:
        return _from_tensorflow(path, cache)
    return _check_complete(pathlib.Path(path))


def _expanded(path):
    """Returns a path in which the home folder replaces `~`."""
    try:
        return os.path.expanduser(path)
    except ValueError:  # characters that no user's name has
        return path


def _from_disk(path, cache):
    if os.path.isdir(path):
        _refuse_checksum(path, cache)
        return _check_complete(pathlib.Path(path))
    rule = "The module does not exist. Expected a folder, a .tar.gz archive, a URL, or a name on Kaggle such as "
    expect(os.path.isfile(path), f"{rule}'google/nnlm/tensorFlow2/en-dim128/1'.", path)
    return cache.unpack(path)


def _from_kaggle(name):
    try:
        import kagglehub
    except ImportError as error:
        raise HubError(
            "The folder does not exist. To download a module from Kaggle, first run `pip install kagglehub`. "
            f"Received: {name!r}"
        ) from error
    rule = (
        f"kagglehub cannot download the module {name!r}, and there is no folder with its name. Check the name and the "
        "network. Without network access, pass the path of a downloaded folder or archive."
    )
    with raising(rule):  # kagglehub raises its own types, types of requests and Python's
        folder = kagglehub.model_download(name)
    return _check_complete(pathlib.Path(folder))


def _from_web(url, cache):
    rule = (
        "A URL must not contain a user name, a password, spaces or control characters. Download the archive and pass "
        "its path."
    )  # Python cannot open it, and would print it, with its secrets, in the traceback.
    is_plain = re.fullmatch(r"[^/]+//[^/?#@\x00-\x20\x7f]*([/?#][^\x00-\x20\x7f]*)?", url)
    expect(is_plain, rule, shown(url))
    if module := cache.find(url):
        return module
    advice = "pass the path of an archive that you downloaded elsewhere, or copy its cache folder from another machine"
    kaggle = _KAGGLE_URL.fullmatch(url)
    if kaggle and cache.sha256 is None and importlib.util.find_spec("kagglehub"):
        return _from_kaggle("/".join(filter(None, kaggle.groups())))
    if kaggle or url.startswith("https://tfhub.dev/"):
        advice += (
            ". This page is on Kaggle now: pass the module's name there, such as "
            "'google/nnlm/tensorFlow2/en-dim128/1' (requires `pip install kagglehub`)"
        )
    return cache.fetch(url, lambda: open_url(url), advice)


def _from_tensorflow(url, cache):
    if url.endswith(ARCHIVES):
        advice = "pass the path of a downloaded archive"
        return cache.find(url) or cache.fetch(url, lambda: tf.io.gfile.GFile(url, "rb"), advice)
    _refuse_checksum(url, cache)
    folder = url.rstrip("/")
    rule = (
        f"Cannot read the module {shown(url)!r}. Expected a folder, an archive, a name on Kaggle, or a URL with "
        "file://, http(s):// or a scheme that TensorFlow reads (gs://)."
    )
    with raising(rule, tf.errors.OpError):
        is_module = any(tf.io.gfile.exists(f"{folder}/{name}") for name in ("saved_model.pb", "saved_model.pbtxt"))
    expect(is_module, "The folder of a module must contain saved_model.pb.", shown(url))
    return folder


def _check_complete(folder):
    problem = why_incomplete(folder)
    expect(not problem, "A module must be a folder with a complete SavedModel.", received=f"{folder} with {problem}")
    return folder


def _refuse_checksum(name, cache):
    expect(cache.sha256 is None, "`sha256` requires the path or URL of an archive.", shown(name))


def open_url(url):
    """Opens the URL of an archive. Any other URL is a page, which returns its archive for tensorflow_hub's query."""
    parts = urllib.parse.urlsplit(url)
    query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    if not parts.path.endswith(ARCHIVES) and ("tf-hub-format", "compressed") not in query:
        query.append(("tf-hub-format", "compressed"))
        url = parts._replace(query=urllib.parse.urlencode(query), fragment="").geturl()
    return urllib.request.build_opener(_Redirects).open(url, timeout=_TIMEOUT_SECONDS)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https, and from http to http."""

    def redirect_request(self, request, file, code, message, headers, url):
        old, new = (urllib.parse.urlsplit(each).scheme for each in (request.full_url, url))
        if new != "https" and (old, new) != ("http", "http"):
            raise urllib.error.HTTPError(url, code, f"Refused the redirect from {old} to {new}", headers, file)
        return super().redirect_request(request, file, code, message, headers, url)


def resolve_with_registered(handle):
    """Resolves a handle with the registered resolvers, and returns None if none of them supports it.

    The last registered resolver comes first, as in tensorflow_hub. Those of tensorflow_hub itself are skipped, since
    `resolve` supports the same handles.
    """
    for resolver in registered_resolvers():
        who = f"The resolver {type(resolver).__name__}, registered with tensorflow_hub,"
        with raising(f"{who} failed for {shown(handle)!r}."):  # user code
            is_supported = resolver.is_supported(handle)
            path = resolver(handle) if is_supported else None
        if not is_supported:
            continue
        fits = isinstance(path, (str, os.PathLike)) and ("://" in os.fspath(path) or os.path.isdir(path))
        expect(fits, f"{who} must return the path of a folder.", received=f"{path!r} for {shown(handle)!r}")
        return os.fspath(path)
    return None


def registered_resolvers():
    """Returns the resolvers that tensorflow_hub did not register itself, the last one first."""
    if sys.modules.get("tensorflow_hub") is None:
        return []  # no resolver was registered, and the import requires TensorFlow and pkg_resources
    from tensorflow_hub import registry

    resolvers = reversed(hub_modules.resolvers_of(registry))
    return [each for each in resolvers if type(each).__module__.split(".")[0] != "tensorflow_hub"]
