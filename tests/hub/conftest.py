"""Fixtures for modules: small ones of each kind, written once; and for what is fetched, where from, and where to."""

import pytest

from tests.hub import modules
from tests.hub.fetching import serving, write_stub
from tests.hub.preprocessing import save_preprocessing_module


@pytest.fixture(scope="session")
def text_module(tmp_path_factory):
    """A module that takes strings; see `save_text_module`."""
    return modules.save_text_module(tmp_path_factory.mktemp("text") / "module")


@pytest.fixture(scope="session")
def bert_module(tmp_path_factory):
    """A module that takes a dict of token ids; see `save_bert_module`."""
    return modules.save_bert_module(tmp_path_factory.mktemp("bert") / "module")


@pytest.fixture(scope="session")
def linear_module(tmp_path_factory):
    """A module that takes numbers, with a signature; see `save_linear_module`."""
    return modules.save_linear_module(tmp_path_factory.mktemp("linear") / "module")


@pytest.fixture(scope="session")
def norm_module(tmp_path_factory):
    """A module with batch normalisation; see `save_norm_module`."""
    return modules.save_norm_module(tmp_path_factory.mktemp("norm") / "module")


@pytest.fixture(scope="session")
def preprocessing_module(tmp_path_factory):
    """A module that makes the inputs of `bert_module` from strings; see `save_preprocessing_module`."""
    return save_preprocessing_module(tmp_path_factory.mktemp("preprocessing") / "module")


@pytest.fixture
def stub(tmp_path):
    """A folder that has the form of a module."""
    return write_stub(tmp_path / "stub")


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """The cache's folder, not made yet."""
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server(monkeypatch):
    """A server on loopback; see `Server`."""
    with serving(monkeypatch) as running:
        yield running
