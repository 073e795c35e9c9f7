"""The tools, which are scripts and no package."""

import importlib
import pathlib

import pytest


@pytest.fixture
def tool(monkeypatch):
    """A function that returns the module of a tool."""
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parents[2] / "tools"))
    return importlib.import_module
