"""Downloaded modules are cached, checked, shared with tensorflow_hub, and downloaded again if damaged."""

import http.client
import pathlib
import shutil
import tempfile
import threading
import urllib.error
import urllib.request

import pytest

from keras_transfer.hub import HubError, resolve
from keras_transfer.hub import cache as caching
from tests.hub.fetching import assert_error, pack, pack_folder, place, save_module, sha256, tree, write_stub

USE = "https://tfhub.dev/google/universal-sentence-encoder/4"


def assert_holds_one(cache_dir, url):
    """Asserts that the cache contains only the module of this URL and its record."""
    folder = place(cache_dir, url)
    assert sorted(cache_dir.iterdir()) == [folder, folder.with_suffix(".descriptor.txt")]


def test_a_url_is_downloaded_only_once(url, stub, server, cache_dir):
    server.answers["/module.tar.gz"] = pack_folder(stub, top="top")
    for _ in range(2):
        assert resolve(url) == place(cache_dir, url)
    assert tree(place(cache_dir, url)) == tree(stub)
    assert server.requests == ["/module.tar.gz"]
    assert_holds_one(cache_dir, url)


@pytest.mark.parametrize(
    ("asked", "requested"),
    [
        ("/google/nnlm/1", "/google/nnlm/1?tf-hub-format=compressed"),
        ("/google/nnlm/1?a=b%20c", "/google/nnlm/1?a=b+c&tf-hub-format=compressed"),
        ("/google/nnlm/1?tf-hub-format=compressed", "/google/nnlm/1?tf-hub-format=compressed"),
        ("/nnlm.tar.gz?signature=a%20b", "/nnlm.tar.gz?signature=a%20b"),
    ],
)
def test_a_page_is_asked_for_its_archive(asked, requested, stub, server, cache_dir):
    server.answers[requested] = pack_folder(stub)
    assert resolve(server.url + asked) == place(cache_dir, server.url + asked)


def test_redirects_are_followed(stub, server, cache_dir):
    server.answers["/google/nnlm/1?tf-hub-format=compressed"] = (302, {"Location": "/elsewhere?signature=x"}, b"")
    server.answers["/elsewhere?signature=x"] = pack_folder(stub)
    assert tree(resolve(f"{server.url}/google/nnlm/1")) == tree(stub)


def test_the_argument_the_environment_or_the_temporary_folder_sets_the_cache(url, tmp_path, cache_dir, monkeypatch):
    assert resolve(url, cache_dir=tmp_path / "mine") == place(tmp_path / "mine", url)
    assert resolve(url) == place(cache_dir, url)
    monkeypatch.delenv("TFHUB_CACHE_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert resolve(url) == place(tmp_path / "tfhub_modules", url)


def test_each_library_finds_the_modules_that_the_other_has_downloaded(server, tmp_path, cache_dir):
    tensorflow_hub = pytest.importorskip("tensorflow_hub")
    module = save_module(tmp_path / "module")
    server.answers["/ours.tar.gz"] = pack_folder(module, top="top")
    server.answers["/theirs.tar.gz?tf-hub-format=compressed"] = pack_folder(module)
    ours, theirs = f"{server.url}/ours.tar.gz", f"{server.url}/theirs.tar.gz"
    folders = [str(resolve(ours)), tensorflow_hub.resolve(theirs)]
    server.answers.clear()
    assert [tensorflow_hub.resolve(ours), str(resolve(theirs))] == folders
    assert tree(folders[0]) == tree(folders[1]) == tree(module)
    assert len(server.requests) == 2


def test_a_module_that_tensorflow_hub_unpacked_with_a_top_folder_is_found(cache_dir, server):
    url = f"{server.url}/module"
    stub = write_stub(place(cache_dir, url) / "top")
    assert resolve(url) == stub
    assert server.requests == []


def write_damaged(folder, how):
    if how == "a file":
        folder.parent.mkdir()
        folder.write_bytes(b"")
    elif how == "a dangling link":
        folder.parent.mkdir()
        folder.symlink_to("nowhere")
    elif how == "empty":
        folder.mkdir(parents=True)
    elif how == "no graph":
        (write_stub(folder) / "saved_model.pb").unlink()
    elif how == "an empty graph":
        write_stub(folder, graph=b"")
    elif how == "no variables":
        write_stub(folder, graph=b"RestoreV2")


@pytest.mark.parametrize("how", ["a file", "a dangling link", "empty", "no graph", "an empty graph", "no variables"])
def test_a_damaged_module_in_the_cache_is_kept_until_it_is_downloaded_again(how, stub, server, cache_dir):
    url = f"{server.url}/module.tar.gz"
    write_damaged(place(cache_dir, url), how)
    before = tree(cache_dir)
    assert_error(url, "HTTPError: HTTP Error 404")
    assert tree(cache_dir) == before
    server.answers["/module.tar.gz"] = pack_folder(stub)
    assert tree(resolve(url)) == tree(stub)
    assert_holds_one(cache_dir, url)


def test_files_of_a_killed_process_are_never_used_as_a_module(url, stub, server, cache_dir, tmp_path, monkeypatch):

    def unpack_half(file, folder, *arguments):
        write_stub(folder / "top")
        shutil.copytree(cache_dir, tmp_path / "killed")
        raise KeyboardInterrupt

    monkeypatch.setattr(caching, "unpack", unpack_half)
    with pytest.raises(KeyboardInterrupt):
        resolve(url)
    assert list(cache_dir.iterdir()) == []
    monkeypatch.undo()
    assert len(tree(tmp_path / "killed")) > 3
    assert tree(resolve(url, cache_dir=tmp_path / "killed")) == tree(stub)
    assert len(server.requests) == 2


def test_simultaneous_downloads_share_the_module_that_was_unpacked_first(url, stub, server, cache_dir):
    server.before_answer = threading.Barrier(2).wait
    folders = []
    threads = [threading.Thread(target=lambda: folders.append(resolve(url))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders == [place(cache_dir, url)] * 2
    assert len(server.requests) == 2
    assert tree(folders[0]) == tree(stub)
    assert_holds_one(cache_dir, url)


@pytest.mark.parametrize("theirs", ["whole", "damaged", "another archive"])
def test_another_process_may_move_its_module_there_first(theirs, url, stub, server, cache_dir, monkeypatch):
    cache_dir.mkdir()
    place(cache_dir, url).with_suffix(".descriptor.txt").write_text("a record of what stood there before\n")
    rename, came = pathlib.Path.rename, []

    def rename_too_late(path, target):
        if target == place(cache_dir, url) and not came:
            came.append(write_stub(target, graph=b"" if theirs == "damaged" else b"theirs"))
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", rename_too_late)
    pin = sha256(server.answers["/module.tar.gz"]) if theirs == "another archive" else None
    folder = resolve(url, sha256=pin)
    assert came == [folder]
    if theirs == "whole":
        assert (folder / "saved_model.pb").read_bytes() == b"theirs"
        assert list(cache_dir.iterdir()) == [folder]
    else:
        assert tree(folder) == tree(stub)
        assert_holds_one(cache_dir, url)


def test_a_path_in_the_cache_that_cannot_be_written_is_an_error(url, cache_dir, monkeypatch):
    def fail(path, target):
        raise PermissionError("denied")

    monkeypatch.setattr(pathlib.Path, "rename", fail)
    assert_error(url, "Cannot read the module .* or write the cache.*PermissionError: denied")
    assert list(cache_dir.iterdir()) == []


def test_an_archive_with_the_right_checksum_is_unpacked(url, server, stub, cache_dir):
    right = sha256(server.answers["/module.tar.gz"])
    for spelled in (right, right.upper(), None):
        assert tree(resolve(url, sha256=spelled)) == tree(stub)
    assert len(server.requests) == 1


def test_a_wrong_checksum_is_an_error_and_leaves_no_files(url, server, cache_dir):
    wrong, right = sha256(b""), sha256(server.answers["/module.tar.gz"])
    assert_error(url, f"{url} must have the sha256 {wrong}. Received: {right}", sha256=wrong)
    assert list(cache_dir.iterdir()) == []


def test_with_a_checksum_a_cached_module_without_a_record_is_downloaded_again(url, server, stub, cache_dir):
    write_stub(place(cache_dir, url), graph=b"from elsewhere")
    assert (resolve(url) / "saved_model.pb").read_bytes() == b"from elsewhere"
    right = sha256(server.answers["/module.tar.gz"])
    for _ in range(2):
        assert tree(resolve(url, sha256=right)) == tree(stub)
    assert len(server.requests) == 1


def test_a_cached_module_of_another_archive_is_downloaded_again(url, server, stub, cache_dir):
    old = resolve(url)
    (stub / "saved_model.pb").write_bytes(b"new")
    server.answers["/module.tar.gz"] = pack_folder(stub)
    right = sha256(server.answers["/module.tar.gz"])
    assert resolve(url, sha256=right) == old
    assert tree(old) == tree(stub)


def test_a_cached_module_stays_if_the_new_one_is_wrong_or_cannot_be_downloaded(url, server, stub, cache_dir):
    resolve(url)
    before = tree(cache_dir)
    assert_error(url, "must have the sha256", sha256=sha256(b""))
    server.answers.clear()
    assert_error(url, "Cannot download", sha256=sha256(b""))
    assert tree(cache_dir) == before


def test_the_file_that_tensorflow_hub_writes_is_not_a_record(url, server, stub, cache_dir):
    folder = resolve(url)
    folder.with_suffix(".descriptor.txt").write_text("Module: elsewhere\nDownload Time: now\n")
    resolve(url, sha256=sha256(server.answers["/module.tar.gz"]))
    assert len(server.requests) == 2


def test_the_checksum_of_a_local_archive_is_checked(archive, cache_dir):
    resolve(archive)
    assert_error(archive, "must have the sha256", sha256=sha256(b""))


@pytest.mark.parametrize("form", ["{stub}", "file://{stub}", "google/nnlm/tensorFlow2/en-dim128/1", "ram://stub"])
def test_a_checksum_for_a_folder_is_an_error(form, stub, cache_dir):
    assert_error(form.format(stub=stub), "`sha256` requires the path or URL of an archive", sha256=sha256(b""))


def test_without_network_access_only_cached_modules_are_found(cache_dir, monkeypatch):
    def refuse(opener, url, timeout):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", refuse)
    assert_error(
        USE,
        f"^Cannot download {USE}, and it is not in the cache .{place(cache_dir, USE)}; .*TFHUB_CACHE_DIR",
        "pass the path of an archive that you downloaded elsewhere",
        "pass the module's name there.*`pip install kagglehub`",
        "Received: URLError: .*Name or service not known",
    )
    assert list(cache_dir.iterdir()) == []
    write_stub(place(cache_dir, USE))
    assert resolve(USE) == place(cache_dir, USE)


@pytest.mark.parametrize("more", [1, 100_000])
def test_fewer_bytes_than_the_content_length_are_an_error(more, stub, server, cache_dir):
    body = pack_folder(stub)
    server.answers["/module.tar.gz"] = (200, {"Content-Length": len(body) + more, "Connection": "close"}, body)
    assert_error(f"{server.url}/module.tar.gz", f"EOFError: {len(body):,} of {len(body) + more:,} bytes")
    assert list(cache_dir.iterdir()) == []


def test_a_page_instead_of_an_archive_is_an_error(server, cache_dir):
    server.answers["/module?tf-hub-format=compressed"] = b"<html>Sign in</html>"
    assert_error(f"{server.url}/module", "Cannot unpack .* Expected an intact .tar or .tar.gz archive")
    assert list(cache_dir.iterdir()) == []


def test_more_bytes_than_allowed_packed_or_unpacked_are_an_error(server, cache_dir):
    server.answers["/module.tar.gz"] = pack(("zeros", bytes(1_000_000)))
    packed = len(server.answers["/module.tar.gz"])
    url = f"{server.url}/module.tar.gz"
    assert_error(url, f"more than {packed - 1:,} bytes. Call `resolve`", max_bytes=packed - 1)
    assert_error(url, f"at most {packed:,} bytes when unpacked.*`resolve`", max_bytes=packed)
    assert list(cache_dir.iterdir()) == []


@pytest.mark.parametrize("error", [TimeoutError("timed out"), http.client.IncompleteRead(b""), ValueError("port")])
def test_every_exception_of_urllib_becomes_one_error(error, cache_dir, monkeypatch):
    def fail(opener, url, timeout):
        raise error

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", fail)
    with pytest.raises(HubError) as caught:
        resolve("http://host/module")
    assert caught.value.__cause__ is error


def test_a_cache_that_cannot_be_written_is_an_error(url, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert_error(url, "Cannot read the module .* or write the cache", cache_dir=tmp_path / "file" / "cache")
    assert_error(url, "The cache must be a local folder.*'gs://bucket'", cache_dir="gs://bucket")
