"""Fixtures: small modules of each kind, which are written once, a cache folder and a server.

They import TensorFlow, for which the process that hands out the tests has no use.
"""

import pytest


@pytest.fixture(scope="session")
def text_module(tmp_path_factory):
    """A module that takes strings; see `save_text_module`."""
    from tests.hub import saved_modules as modules

    return modules.save_text_module(tmp_path_factory.mktemp("text") / "module")


@pytest.fixture(scope="session")
def bert_module(tmp_path_factory):
    """A module that takes a dict of token ids; see `save_bert_module`."""
    from tests.hub import saved_modules as modules

    return modules.save_bert_module(tmp_path_factory.mktemp("bert") / "module")


@pytest.fixture(scope="session")
def linear_module(tmp_path_factory):
    """A module that takes numbers, with a signature; see `save_linear_module`."""
    from tests.hub import saved_modules as modules

    return modules.save_linear_module(tmp_path_factory.mktemp("linear") / "module")


@pytest.fixture(scope="session")
def norm_module(tmp_path_factory):
    """A module with batch normalization; see `save_norm_module`."""
    from tests.hub import saved_modules as modules

    return modules.save_norm_module(tmp_path_factory.mktemp("norm") / "module")


@pytest.fixture(scope="session")
def preprocessing_module(tmp_path_factory):
    """A module that converts strings to the inputs of `bert_module`; see `save_preprocessing_module`."""
    from tests.hub.preprocessing import save_preprocessing_module

    return save_preprocessing_module(tmp_path_factory.mktemp("preprocessing") / "module")


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
