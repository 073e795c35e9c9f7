"""Fixtures: small modules of each kind, which are written once, a cache folder and a server.

They import TensorFlow, for which the process that hands out the tests has no use.
"""

import pytest


def saved(kind):
    """A fixture: the folder of the module that `save_KIND_module` in `saved_modules` writes, once for all tests."""

    @pytest.fixture(scope="session", name=f"{kind}_module")
    def module(tmp_path_factory):
        from tests.hub import saved_modules

        return getattr(saved_modules, f"save_{kind}_module")(tmp_path_factory.mktemp(kind) / "module")

    return module


# Modules of strings, of a dict of token ids, of numbers, with batch normalization, and from strings to token ids.
text, bert, linear, norm, preprocessing = map(saved, ("text", "bert", "linear", "norm", "preprocessing"))


@pytest.fixture
def stub(tmp_path):
    """A folder with the files of a module."""
    from tests.hub.fetching import write_stub

    return write_stub(tmp_path / "stub")


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """The path of the cache, which does not exist yet."""
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server(monkeypatch):
    """A server on loopback; see `Server`."""
    from tests.hub.fetching import serving

    with serving(monkeypatch) as running:
        yield running


@pytest.fixture
def url(stub, server):
    """The URL of an archive of `stub`."""
    from tests.hub.fetching import pack_folder

    server.answers["/module.tar.gz"] = pack_folder(stub)
    return f"{server.url}/module.tar.gz"


@pytest.fixture
def archive(stub, tmp_path):
    """The path of an archive of `stub`."""
    from tests.hub.fetching import pack_folder

    path = tmp_path / "module.tar.gz"
    path.write_bytes(pack_folder(stub))
    return path
