"""Redirects stay safe, secrets in URLs stay out of messages and records, and a full disk is reported as one."""

import email.message
import errno
import io
import os
import tempfile
import traceback
import urllib.request
import urllib.response

import pytest

from keras_transfer.hub import HubError, archives, resolve
from keras_transfer.hub.errors import one_line, shown
from tests.hub.fetching import assert_error, pack_folder, place, sha256, tree

SECRETS = ("hunter2", "s3cret")


def test_a_redirect_to_ftp_is_an_error(stub, server, cache_dir, monkeypatch):
    server.answers["/module.tar.gz"] = (302, {"Location": "ftp://host/module.tar.gz"}, b"")
    body = pack_folder(stub)
    monkeypatch.setattr(urllib.request.FTPHandler, "ftp_open", lambda self, request: io.BytesIO(body))
    assert_error(f"{server.url}/module.tar.gz", "HTTPError: .*Refused the redirect from http to ftp")
    assert list(cache_dir.iterdir()) == []


@pytest.fixture
def redirecting(monkeypatch):
    """A function that lets all https URLs redirect to another URL."""

    def redirect(location):
        def answer(self, request):
            headers = email.message.Message()
            headers["Location"] = location
            response = urllib.response.addinfourl(io.BytesIO(), headers, request.full_url, 302)
            response.msg = "Found"
            return response

        monkeypatch.setattr(urllib.request.HTTPSHandler, "https_open", answer)

    return redirect


def test_a_redirect_from_https_to_http_is_an_error(redirecting, url, server, cache_dir):
    redirecting(url)
    assert_error("https://host/module.tar.gz", "HTTPError: .*Refused the redirect from https to http")
    assert server.requests == []


@pytest.mark.parametrize("location", ["file:///etc/passwd?s3cret", "data:text/plain,x", "gopher://host/x?s3cret"])
def test_a_redirect_to_anything_else_is_an_error(location, redirecting, cache_dir):
    redirecting(location)
    assert_error("https://host/module.tar.gz", "^(?!.*s3cret)Cannot download https://host/module.tar.gz")


@pytest.mark.parametrize("scheme", ["HTTP", "Http"])
def test_the_scheme_of_a_url_may_be_in_capitals(scheme, url, stub, server, cache_dir):
    assert resolve(scheme + url.removeprefix("http")) == place(cache_dir, url) == resolve(url)
    assert len(server.requests) == 1
    assert resolve(f"FILE://{stub}") == stub


# Secrets


def printed(url, **options):
    """Returns the traceback of the error that a URL raises."""
    with pytest.raises(HubError) as error:
        resolve(url, **options)
    return "".join(traceback.format_exception(error.value))


def assert_hidden(text):
    assert not any(secret in text for secret in SECRETS), text


def test_a_password_in_a_url_is_an_error_that_does_not_show_it(cache_dir):
    for scheme in ("http", "https", "HTTPS"):
        for user in ("hunter2", "hunter2:s3cret", "hunter2:", ":s3cret@x"):
            text = printed(f"{scheme}://{user}@host/module.tar.gz")
            assert "A URL must not contain a user name, a password" in text
            assert_hidden(text)


@pytest.mark.parametrize("character", [" ", "\n", "\t", "\0", "\x7f"])
def test_a_space_or_control_character_in_a_url_is_an_error_that_shows_no_secret(character, cache_dir):
    text = printed(f"https://host/module.tar.gz?token=hunter2{character}s3cret")
    assert "A URL must not contain a user name, a password, spaces or control characters" in text
    assert_hidden(text)


def test_a_token_in_a_url_is_in_no_message_and_no_record(stub, server, cache_dir):
    path = "/module.tar.gz?token=hunter2"
    url = f"{server.url}{path}#s3cret"
    for answer, options in (
        ((404, {}, b""), {}),
        ((302, {"Location": path}, b""), {}),
        ((302, {"Location": "ftp://host/x?token=hunter2"}, b""), {}),
        (b"no archive", {}),
        (pack_folder(stub / "assets"), {}),
        (pack_folder(stub), {"sha256": "0" * 64}),
        (pack_folder(stub), {"cache_dir": stub / "saved_model.pb"}),
    ):
        server.answers[path] = answer
        text = printed(url, **options)
        assert f"{server.url}/module.tar.gz?..." in text
        assert_hidden(text)
    server.answers[path] = pack_folder(stub)
    folder = resolve(url)
    record = folder.with_suffix(".descriptor.txt").read_text()
    assert f"Module: {server.url}/module.tar.gz?...\nSHA256: {sha256(server.answers[path])}\n" in record
    assert_hidden(record)


@pytest.mark.parametrize(
    ("handle", "expected"),
    [
        ("https://host/path", "https://host/path"),
        ("https://user:password@host/path?a=b#c", "https://...@host/path?..."),
        ("s3://key:secret@bucket/module", "s3://...@bucket/module"),
        ("https://host?a\nb'c", "https://host?..."),
        ("a folder?with#odd@names", "a folder?with#odd@names"),
    ],
)
def test_messages_show_a_url_without_user_and_query(handle, expected):
    assert shown(handle) == expected


def test_messages_of_other_exceptions_are_shown_without_secrets_in_urls():
    error = ValueError("no 'https://user:hunter2@host/a?b=s3cret' and\n no ftp://host?s3cret here: 1?2")
    assert one_line(error) == "ValueError: no 'https://...@host/a?... and no ftp://host?... here: 1?2"


# A full disk


class FullDisk(io.RawIOBase):
    """A file on a full disk."""

    def writable(self):
        return True

    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


FULL = r"Cannot read the module .* or write the cache .*Received: OSError: .Errno 28. No space left on device"


def test_a_full_disk_is_not_reported_as_a_problem_of_the_network(url, cache_dir, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda dir: FullDisk())
    assert_error(url, f"^{FULL}")
    assert tree(cache_dir) == {}


def test_a_full_disk_is_not_reported_as_a_damaged_archive(archive, cache_dir, monkeypatch):
    monkeypatch.setattr(archives, "open", lambda path, mode: FullDisk(), raising=False)
    assert_error(archive, f"^{FULL}")
    assert tree(cache_dir) == {}
