"""The architecture: imports between rooms go one way, the core knows no backend, and files import nothing heavy."""

import ast
import pathlib
import sys

import pytest

import keras_transfer
from tests.processes import run

ROOT = pathlib.Path(keras_transfer.__file__).parent

# A room may import those before it. `text`, `losses`, `metrics` and `objectives` know no model, `training` and
# `distribute` any Keras model. `generation` knows encoders only by their cache and their steps.
ORDER = [
    {"files", "names", "version"},
    {"layers", "losses", "text", "datasets", "metrics", "objectives", "training"},
    {"encoders", "distribute", "generation"},
    {"tasks"},
    {"adaptation", "analysis", "checkpoints", "hub"},
    {"serving", "wrappers"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
CORE = {"layers", "losses", "encoders", "generation", "tasks", "adaptation", "training"}
# Packages that a file may import at the top. Functions import all others.
TOP_LEVEL = {"keras", "numpy", "keras_transfer", *sys.stdlib_module_names}


def imports(path):
    """`(module, at the top level of the file)` for each import in a file."""
    tree = ast.parse(path.read_text("utf-8"))
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((name.name, id(node) in top) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            if node.module == "keras_transfer":
                yield from ((f"keras_transfer.{name.name}", id(node) in top) for name in node.names)
            else:
                yield node.module, id(node) in top


def room(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_lower_rooms_and_nothing_heavy_at_the_top(path):
    own = room(path)
    for module, top in imports(path):
        parts = module.split(".")
        if parts[0] == "keras_transfer":
            other = parts[1]
            assert other == own or RANK[other] < RANK[own], f"{own} imports {other}"
        if top:
            assert parts[0] in TOP_LEVEL, f"{module} at the top of {path}"
        if own in CORE:
            assert parts[0] != "tensorflow", f"{own} imports {module}: the core uses keras.ops only"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_or_class_shares_its_name_with_its_module(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert path.stem not in {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_every_room_has_a_rank_and_says_what_belongs_there():
    rooms = {room(path) for path in FILES}
    assert rooms == set(RANK)
    for name in rooms - {"files", "names", "version"}:
        assert ast.get_docstring(ast.parse((ROOT / name / "__init__.py").read_text()))


def test_every_file_says_what_lives_there_and_is_short():
    for path in FILES:
        text = path.read_text("utf-8")
        assert ast.get_docstring(ast.parse(text)), path
        assert text.count("\n") <= 450, path


def test_every_public_name_exists_and_has_a_docstring():
    for name in keras_transfer.__all__:
        module = getattr(keras_transfer, name)
        for public in getattr(module, "__all__", ()):
            value = getattr(module, public)
            assert not callable(value) or value.__doc__, f"{name}.{public}"


def test_on_jax_the_import_and_a_refused_module_do_not_import_tensorflow():
    pytest.importorskip("jax", reason="needs JAX: pip install keras_transfer[jax]")
    script = (
        "import json, sys, keras_transfer, keras; assert keras.backend.backend() == 'jax'\n"
        "try: keras_transfer.hub.HubLayer('module')\n"
        "except RuntimeError: refused = True\n"
        "heavy = {'tensorflow', 'tensorflow_hub', 'tensorflow_text', 'keras_hub', 'torch', 'transformers'}\n"
        "print(json.dumps([refused, sorted(heavy & set(sys.modules))]))"
    )
    assert run("-c", script, KERAS_BACKEND="jax") == [True, []]
