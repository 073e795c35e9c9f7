"""What other users could have put into the cache is never loaded, and a checksum covers what is in the cache."""

import os
import stat

import pytest

from keras_transfer.hub import resolve
from tests.hub.fetching import assert_error, place, sha256, tree, write_stub

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs owners and permissions of files")
REFUSED = "Other users must not be able to write the cache of modules.*Delete it.*TFHUB_CACHE_DIR.*Received: "


def plant(cache_dir, url, checksum):
    """Writes another module with a record into the cache, as an attacker would."""
    folder = write_stub(place(cache_dir, url), graph=b"evil")
    folder.with_suffix(".descriptor.txt").write_text(f"Module: {url}\nSHA256: {checksum}\n")
    return folder


def give_away(path, monkeypatch):
    """Makes another user the owner of a path, or this process that of another user."""
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_cache_that_others_can_write_is_an_error(mode, checked, url, server, cache_dir):
    checksum = sha256(server.answers["/module.tar.gz"])
    plant(cache_dir, url, checksum)
    cache_dir.chmod(mode)
    shown = stat.filemode(stat.S_IFDIR | mode)
    assert_error(url, f"{REFUSED}{cache_dir} .* permissions {shown}", sha256=checksum if checked else None)
    assert server.requests == []


def test_a_cache_of_another_user_is_an_error(url, server, cache_dir, monkeypatch):
    plant(cache_dir, url, sha256(server.answers["/module.tar.gz"]))
    give_away(cache_dir, monkeypatch)
    assert_error(url, f"{REFUSED}{cache_dir} of the user ")


@pytest.mark.parametrize("member", ["", "assets", "assets/vocab.txt", "saved_model.pb"])
def test_a_module_in_the_cache_that_others_can_write_is_an_error(member, url, cache_dir):
    path = write_stub(place(cache_dir, url)) / member
    path.chmod(0o757)
    assert_error(url, f"{REFUSED}{path} ")


def test_a_module_of_another_user_in_the_cache_is_an_error(url, cache_dir, monkeypatch):
    folder = write_stub(place(cache_dir, url))
    give_away(folder / "saved_model.pb", monkeypatch)
    assert_error(url, REFUSED)


def test_a_group_may_write_the_cache_only_if_it_is_the_user_s_own(url, cache_dir, monkeypatch):
    import grp

    class Group:
        gr_name, gr_mem = "team", []

    write_stub(place(cache_dir, url))
    cache_dir.chmod(0o775)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: Group)
    assert_error(url, f"{REFUSED}{cache_dir} ")
    monkeypatch.undo()
    if grp.getgrgid(os.stat(cache_dir).st_gid).gr_name == __import__("pwd").getpwuid(os.geteuid()).pw_name:
        assert resolve(url, cache_dir=cache_dir) == place(cache_dir, url)


def test_a_local_archive_is_not_unpacked_into_a_cache_that_others_can_write(archive, cache_dir):
    cache_dir.mkdir()
    cache_dir.chmod(0o777)
    assert_error(archive, f"{REFUSED}{cache_dir} ")
    assert tree(cache_dir) == {}


@pytest.mark.parametrize("umask", [0o000, 0o002])
def test_others_cannot_write_a_cache_whatever_the_umask(umask, url, server, stub, cache_dir):
    before = os.umask(umask)
    try:
        resolve(url)
        assert tree(resolve(url, sha256=sha256(server.answers["/module.tar.gz"]))) == tree(stub)
    finally:
        os.umask(before)
    for path in (cache_dir, *cache_dir.rglob("*")):
        assert not path.stat().st_mode & 0o022
    assert len(server.requests) == 1


@pytest.mark.parametrize("change", ["a file changed", "a file more", "a file less", "a file renamed"])
def test_with_a_checksum_a_cached_module_that_has_changed_is_downloaded_again(change, url, server, stub, cache_dir):
    right = sha256(server.answers["/module.tar.gz"])
    folder = resolve(url, sha256=right)
    asset = folder / "assets" / "vocab.txt"
    if change == "a file changed":
        asset.write_bytes(b"evil")
    elif change == "a file more":
        asset.with_name("more.txt").write_bytes(b"evil")
    elif change == "a file less":
        asset.unlink()
    else:
        asset.rename(asset.with_name("vocabulary.txt"))
    assert tree(resolve(url)) != tree(stub)  # without a checksum, the cache is not read
    for _ in range(2):
        assert tree(resolve(url, sha256=right)) == tree(stub)
    assert len(server.requests) == 2


def test_with_a_checksum_the_unpacked_content_of_a_local_archive_is_checked(stub, archive, cache_dir):
    right = sha256(archive.read_bytes())
    (resolve(archive) / "saved_model.pb").write_bytes(b"evil")
    assert tree(resolve(archive, sha256=right)) == tree(stub)


def test_a_planted_record_without_the_checksum_of_the_content_is_not_enough(url, server, stub, cache_dir):
    right = sha256(server.answers["/module.tar.gz"])
    folder = plant(cache_dir, url, right)
    assert resolve(url, sha256=right) == folder
    assert tree(folder) == tree(stub)
