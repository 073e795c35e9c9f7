"""Each kind of handle resolves to its module, or raises an error that lists the kinds of handles."""

import importlib.machinery
import io
import os
import pathlib
import sys
import types
import urllib.error
import urllib.request

import pytest

from keras_transfer.hub import cache as caching
from keras_transfer.hub import resolve
from tests.hub.fetching import assert_error, pack_folder, place, sha256, tree, write_stub


def test_a_folder_is_returned_unchanged(stub, monkeypatch):
    for handle in (str(stub), stub, f"{stub}/", f"file://{stub}", stub.as_uri()):
        assert resolve(handle) == stub
    monkeypatch.chdir(stub.parent)
    assert resolve("stub") == pathlib.Path("stub")
    monkeypatch.setenv("HOME", str(stub.parent))
    assert resolve("~/stub") == stub


def test_a_file_url_may_be_quoted(tmp_path):
    stub = write_stub(tmp_path / "a stub")
    assert "a%20stub" in stub.as_uri()
    assert resolve(stub.as_uri()) == stub


@pytest.mark.parametrize(("suffix", "top"), [(".tar.gz", ""), (".tgz", "top"), (".tar", ".")])
def test_an_archive_is_unpacked_into_the_cache_once(suffix, top, stub, tmp_path, cache_dir, monkeypatch):
    archive = tmp_path / f"module{suffix}"
    archive.write_bytes(pack_folder(stub, top=top, mode="w" if suffix == ".tar" else "w:gz"))
    folder = resolve(archive)
    assert folder.parent == cache_dir and tree(folder) == tree(stub)
    monkeypatch.setattr(caching, "unpack", None)
    for handle in (str(archive), f"file://{archive}"):
        assert resolve(handle, sha256=sha256(archive.read_bytes())) == folder


def test_an_archive_that_has_changed_is_another_module(stub, tmp_path, cache_dir):
    archive = tmp_path / "module.tar.gz"
    folders = set()
    for graph in (b"old", b"new"):
        (stub / "saved_model.pb").write_bytes(graph)
        archive.write_bytes(pack_folder(stub))
        folder = resolve(archive)
        assert (folder / "saved_model.pb").read_bytes() == graph
        folders.add(folder)
    assert len(folders) == 2


@pytest.fixture
def kagglehub(stub, monkeypatch):
    module = types.ModuleType("kagglehub")
    module.__spec__ = importlib.machinery.ModuleSpec("kagglehub", None)
    module.asked = []
    module.model_download = lambda name: module.asked.append(name) or str(stub)
    monkeypatch.setitem(sys.modules, "kagglehub", module)
    return module


@pytest.mark.parametrize(
    ("handle", "name"),
    [
        ("google/nnlm/tensorFlow2/en-dim128/1", "google/nnlm/tensorFlow2/en-dim128/1"),
        ("google/nnlm/TensorFlow2/en-dim128", "google/nnlm/TensorFlow2/en-dim128"),
        ("https://www.kaggle.com/models/google/elmo/tensorFlow1/elmo/3", "google/elmo/tensorFlow1/elmo/3"),
        ("https://kaggle.com/models/google/elmo/tensorFlow1/elmo/", "google/elmo/tensorFlow1/elmo"),
        (
            "https://www.kaggle.com/models/google/yamnet/frameworks/TensorFlow2/variations/yamnet/versions/1",
            "google/yamnet/TensorFlow2/yamnet/1",
        ),
        (
            "https://www.kaggle.com/models/deepmind/i3d-kinetics/tensorFlow1/400/1?tfhub-redirect=true",
            "deepmind/i3d-kinetics/tensorFlow1/400/1",
        ),
    ],
)
def test_a_name_or_a_page_on_kaggle_is_passed_to_kagglehub(handle, name, kagglehub, stub, cache_dir):
    assert resolve(handle) == stub
    assert kagglehub.asked == [name]


def test_a_folder_takes_precedence_over_a_name_on_kaggle(kagglehub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write_stub(tmp_path / "google" / "nnlm" / "tensorFlow2" / "en-dim128" / "1")
    assert resolve("google/nnlm/tensorFlow2/en-dim128/1").samefile(folder)
    assert kagglehub.asked == []


def test_a_path_with_four_parts_is_not_a_name_on_kaggle(kagglehub):
    assert_error("my/models/bert/first", "The module does not exist. Expected .*'my/models/bert/first'")
    assert kagglehub.asked == []


def test_a_page_in_the_cache_is_not_downloaded(kagglehub, cache_dir):
    page = "https://www.kaggle.com/models/google/elmo/tensorFlow1/elmo/3"
    assert resolve(page) != write_stub(place(cache_dir, page))
    assert resolve(page) == place(cache_dir, page)
    assert len(kagglehub.asked) == 1


def test_a_name_without_kagglehub_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "kagglehub", None)
    assert_error("google/nnlm/tensorFlow2/en-dim128/1", "`pip install kagglehub`. Received: 'google/nnlm")


@pytest.mark.parametrize("why", ["no kagglehub", "a checksum"])
def test_the_archive_of_a_page_is_downloaded_as_in_tensorflow_hub(why, kagglehub, stub, cache_dir, monkeypatch):
    body, options, requested = pack_folder(stub), {}, []

    def open_url(opener, url, timeout):
        requested.append(url)
        return io.BytesIO(body)

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", open_url)
    if why == "no kagglehub":
        monkeypatch.setitem(sys.modules, "kagglehub", None)
    else:
        options = {"sha256": sha256(body)}
    page = "https://www.kaggle.com/models/google/elmo/tensorFlow1/elmo/3"
    assert resolve(page, **options) == place(cache_dir, page)
    assert requested == [f"{page}?tf-hub-format=compressed"]
    assert kagglehub.asked == []


def test_an_exception_of_kagglehub_becomes_an_error(kagglehub):
    def fail(name):
        raise RuntimeError("403 Client Error.\n\nYou don't have permission")

    kagglehub.model_download = fail
    assert_error(
        "google/nnlm/tensorFlow2/en-dim128/1",
        "kagglehub cannot download the module.*Without network access, pass the path",
        "Received: RuntimeError: 403 Client Error. You don't",
    )


def test_an_incomplete_module_from_kagglehub_is_an_error(kagglehub, stub):
    (stub / "saved_model.pb").unlink()
    assert_error("google/nnlm/tensorFlow2/en-dim128/1", r"Received: .*stub with no saved_model.pb .found: \['assets'\]")


def test_kagglehub_finds_its_cache_without_network_access(tmp_path, monkeypatch):
    pytest.importorskip("kagglehub")
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path))
    stub = write_stub(tmp_path / "models/google/nnlm/tensorFlow2/en-dim128/1")
    stub.with_suffix(".complete").touch()
    for handle in ("", "https://www.kaggle.com/models/"):
        assert resolve(f"{handle}google/nnlm/tensorFlow2/en-dim128/1") == stub


def test_a_folder_that_only_tensorflow_reads_is_returned_as_a_string():
    import tensorflow as tf

    for name in ("saved_model.pb", "saved_model.pbtxt"):
        with tf.io.gfile.GFile(f"ram://{name}-module/{name}", "w") as file:
            file.write("graph")
        assert resolve(f"ram://{name}-module/") == f"ram://{name}-module"


def test_an_archive_that_only_tensorflow_reads_is_unpacked_into_the_cache(stub, cache_dir):
    import tensorflow as tf

    url = "ram://bucket/module.tar.gz"
    with tf.io.gfile.GFile(url, "wb") as file:
        file.write(pack_folder(stub))
    assert resolve(url) == place(cache_dir, url)
    assert tree(place(cache_dir, url)) == tree(stub)
    tf.io.gfile.remove(url)
    assert resolve(url) == place(cache_dir, url)


def test_a_url_that_tensorflow_cannot_read_is_an_error(cache_dir):
    assert_error("ram://nothing", "must contain saved_model.pb. Received: 'ram://nothing'")
    assert_error("ram://nothing.tar.gz", "Cannot download ram://nothing.tar.gz.*Received: NotFoundError")
    assert_error("foo://module", "scheme that TensorFlow reads.*UnimplementedError: File system scheme 'foo'")


@pytest.mark.parametrize(
    "handle",
    [
        "",
        "no/such/folder",
        "no-such.tar.gz",
        "file:///no/such",
        "a\0b",
        "~\0",
        pytest.param("~\ud800", id="x"),
        "y" * 5000,
    ],
)
def test_a_missing_module_is_an_error(handle):
    assert_error(handle, "The module does not exist. Expected a folder, a .tar.gz archive, a URL, or a name")


def test_an_archive_without_read_permission_is_an_error(archive, cache_dir):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    archive.chmod(0)
    assert_error(archive, "Cannot read the module.*PermissionError")
