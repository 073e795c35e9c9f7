"""The architecture: folders with one noun, imports through doors and up the floors, a core that knows no backend."""

import ast
import collections
import functools
import pathlib
import re
import sys

import pytest

import keras_transfer
from tests.processes import run

ROOT = pathlib.Path(keras_transfer.__file__).parent

# The folders from the lowest to the highest. A file may import from folders before its own, and from no other. A room
# with folders in it comes after them: it only lists their public names.
FLOORS = [
    [
        "files",
        "folder_lock",
        "integers",
        "lines",
        "names",
        "door",
        "version",
        "arrays",
        "arrow_files",
        "tables",
        "documents",
        "plots",
        "precision",
    ],  # single files
    ["keras_internals", "distribute"],
    ["layers/basic", "layers/attention", "layers/adapters", "layers/blocks", "layers/embeddings", "layers/heads"],
    ["layers", "losses"],
    ["metrics/base", "metrics/classification", "metrics/regression", "metrics/ranking", "metrics/words"],
    ["metrics/texts", "metrics/benchmarks", "metrics"],
    ["objectives/base", "objectives/masking", "objectives/sequences", "objectives"],
    ["text/folders", "text/base", "text/strings", "text/sentencepiece", "text/tokenizers", "text/tokenizer_files"],
    ["text/preprocessors", "text"],
    ["datasets/base", "datasets/texts", "datasets/tagging", "datasets/answers", "datasets/suites", "datasets/corpora"],
    ["datasets/parallel", "datasets"],
    ["label_names", "batches", "corpora"],
    ["encoders/base", "encoders/bidirectional", "encoders/autoregressive", "encoders/recurrent", "encoders/static"],
    ["encoders/sequence_to_sequence", "encoders/keras_hub", "encoders"],
    ["generation/decoding", "generation/samplers", "generation/loops", "generation"],
    ["groups"],
    ["checkpoints/base", "checkpoints/formats", "checkpoints/architectures/bidirectional"],
    ["checkpoints/architectures/autoregressive", "checkpoints/architectures/recurrent"],
    ["checkpoints/architectures/sequence_to_sequence", "checkpoints/architectures"],
    ["checkpoints/cards", "checkpoints/sources", "checkpoints/word_vectors", "checkpoints"],
    ["hub/transport", "hub/modules", "hub/tf1", "hub/layers", "hub"],
    ["training/optimizers", "training/runs", "training/resume", "training"],
    ["tasks/inputs", "tasks/labels", "tasks/base", "tasks/heads", "tasks/classification", "tasks/tagging"],
    ["tasks/questions", "tasks/embedding", "tasks/continuations", "tasks/language", "tasks/masked"],
    ["tasks/dialogue", "tasks/sequence_to_sequence", "tasks"],
    ["adaptation/features", "adaptation/adapters/base", "adaptation/adapters/kinds", "adaptation/adapters/files"],
    ["adaptation/adapters", "adaptation/fisher", "adaptation/auxiliary_losses", "adaptation/compression"],
    ["adaptation/recipes", "adaptation"],
    [
        "analysis/output",
        "analysis/reports",
        "analysis/attention",
        "analysis",
        "experiments",
        "serving/portable",
        "serving",
        "wrappers",
    ],
    ["cli/files", "cli/arguments", "cli/actions", "cli/pretraining", "cli", "__main__"],
]
RANK = {folder: rank for rank, folder in enumerate(folder for floor in FLOORS for folder in floor)}
# Arrows back: (folder, folder that it imports) -> why.
EXCEPTIONS = {
    ("encoders/base", "checkpoints/sources"): "`Encoder.from_pretrained` and `save_pretrained`, inside the functions",
    ("encoders/sequence_to_sequence", "checkpoints/sources"): "`EncoderDecoder.from_encoders`, inside the function",
    ("tasks/base", "serving"): "`Task.export`, inside the function",
    ("text", "batches"): "users find batches of texts in `keras_transfer.text`, where they have always been",
    ("text", "corpora"): "users find what reads texts in `keras_transfer.text`",
}
CORE = {"layers", "losses", "encoders", "generation", "groups", "tasks", "adaptation", "training", "experiments"}
# Files of the core that import TensorFlow -> why.
TENSORFLOW = {
    "generation/loops/exported.py": "the loop of an exported model, a graph of TensorFlow, and XLA's part of it",
    "tasks/inputs/batch_checks.py": "checks the batches of a `tf.data.Dataset` as they are read",
    "tasks/inputs/loaders.py": "makes a `tf.data.Dataset` of a loader",
    "tasks/inputs/streams.py": "makes a `tf.data.Dataset` of texts, and of the targets of an objective",
    "tasks/questions/span_search.py": "finds answers in texts in the graph, of ragged rows and characters",
    "training/optimizers/fused_adamw.py": "Adam's update as one operation, which only TensorFlow has",
    "training/optimizers/gradients.py": "a training step with TensorFlow's tape and sparse gradients",
}
# What the library should not need: (what, file) -> why it is needed there.
PRIVATE = {
    (
        "a private module",
        "keras_internals/saving",
    ): "whether Keras is in safe mode or in a symbolic scope has no public name",
    ("a private module", "keras_internals/autocast"): "nothing public reads a variable in its own precision in a layer "
    "of mixed precision",
    ("a private module", "keras_internals/tapes"): "nothing public stops the recording of all tapes for a moment",
    ("an attribute set on another object", "keras_internals/optimizers"): "an optimizer has no public method that sets "
    "what it updates (needed on JAX and for moving averages) or another rate for a while",
    ("an attribute set on another object", "layers/adapters/copies"): "embedding norms, final norms and poolers are "
    "nodes of a functional graph, also of KerasHub's, which nothing public can put another layer in place of",
    ("an attribute set on another object", "door"): "the signature of our own function, which Keras reads",
    ("an attribute set on another object", "batches/batching"): "a copy of our own batches",
    ("an attribute set on another object", "encoders/base/encoder"): "our own encoder; Keras must not track the dict",
    ("an attribute set on another object", "keras_internals/trainer"): "where `fit` begins, and on JAX the state of a "
    "run, have no public setter",
    ("an attribute set on another object", "training/resume/states"): "Keras's callbacks have no public state",
    ("an attribute set on another object", "training/runs/improvement"): "the state of a callback of Keras, as above",
    (
        "pickle",
        "checkpoints/formats/torch_files",
    ): "many checkpoints are torch pickles, of which torch reads tensors only, and fastai's vocabularies are pickles",
}
# Packages that a file may import at the top. Functions import all others.
TOP_LEVEL = {"keras", "numpy", "keras_transfer", *sys.stdlib_module_names}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
FOLDERS = sorted({path.parent for path in FILES})
ROOMS = {path for path in FOLDERS if path != ROOT and any(other.parent == path for other in FOLDERS)} - {ROOT / "cli"}


def name_of(path):
    """The name of a file or folder in the package, such as `layers/basic`."""
    return path.relative_to(ROOT).as_posix().removesuffix(".py")


def folder_of(path):
    """The name of a file's folder, or of a file that is in none."""
    return name_of(path if path.parent == ROOT else path.parent)


def tree_of(path):
    return ast.parse(path.read_text("utf-8"))


@functools.cache
def imports(path):
    """`(module, names or None, at the top level of the file)` for each import in a file."""
    tree, found = tree_of(path), []
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(name.name, None, id(node) in top) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.append((node.module, [name.name for name in node.names], id(node) in top))
    return found


def own_imports(path):
    """`(folder, file or None, names)` for each import of the package in a file."""
    for module, names, _ in imports(path):
        if module == "keras_transfer":
            yield from ((name, None, None) for name in names)
        elif module.startswith("keras_transfer."):
            target = ROOT.joinpath(*module.split(".")[1:])
            if target.is_dir():
                yield name_of(target), None, names
            else:
                yield folder_of(target.with_suffix(".py")), target.name, names


def is_list_of(path, folder):
    """Whether a file is the `__init__` of a room around a folder, which lists the public names in its files."""
    return path.name == "__init__.py" and path.parent in ROOMS and path.parent in (ROOT / folder).parents


@functools.cache
def door_of(folder):
    """The names that a folder's `__init__` imports or defines."""
    names = set()
    for node in tree_of(ROOT / folder / "__init__.py").body:
        if isinstance(node, ast.ImportFrom):
            names |= {name.asname or name.name for name in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_only_from_lower_folders(path):
    own = folder_of(path)
    for other, _, _ in own_imports(path):
        assert other == own or RANK[other] < RANK[own] or (own, other) in EXCEPTIONS, f"{own} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_from_another_folder_only_what_its_door_lists(path):
    own = folder_of(path)
    for other, file, names in own_imports(path):
        if other == own or not (ROOT / other).is_dir() or is_list_of(path, other):
            continue
        assert file is None, f"{own} imports {names} from the file {file} of {other}, past its `__init__`"
        assert set(names or ()) <= door_of(other), f"{other} lists no {names}"
        is_list = ROOT / own in ROOMS or own.split("/")[0] == "cli"  # The command uses the package as users do.
        excepted = is_list or (own, other) in EXCEPTIONS
        assert excepted or ROOT / other not in ROOMS, f"{own} imports {names} from the list {other}"


def test_a_door_lists_only_what_another_folder_imports():
    imported = collections.defaultdict(set)
    for path in FILES:
        for other, _, names in own_imports(path):
            imported[other] |= set(names or ()) if other != folder_of(path) else set()
    imported["tasks/labels"].add("NamedLabels")  # Users import it for a task of their own with several heads.
    for folder in FOLDERS:
        if folder.parent in ROOMS and folder not in ROOMS:
            assert door_of(name_of(folder)) <= imported[name_of(folder)], folder


def test_each_exception_is_still_one():
    found = {(folder_of(path), other) for path in FILES for other, _, _ in own_imports(path)}
    assert set(EXCEPTIONS) <= found
    assert all(any(module == "tensorflow" for module, _, _ in imports(ROOT / name)) for name in TENSORFLOW)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_imports_nothing_heavy_at_the_top_and_no_private_module(path):
    own = folder_of(path)
    for module, _, top in imports(path):
        package = module.split(".")[0]
        if top:
            assert package in TOP_LEVEL, f"{module} at the top of {path}"
        if own.split("/")[0] in CORE and path.relative_to(ROOT).as_posix() not in TENSORFLOW:
            assert package != "tensorflow", f"{own} imports {module}: the core uses keras.ops only"
        if own != "keras_internals":
            assert not module.startswith(("keras.src", "tensorflow.python")), f"{own} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_function_or_class_shares_its_name_with_its_module(path):
    names = {node.name for node in tree_of(path).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert path.stem not in names


def test_every_folder_has_a_floor_and_says_what_lives_there():
    assert {folder_of(path) for path in FILES} == set(RANK)
    for folder in FOLDERS:
        assert ast.get_docstring(tree_of(folder / "__init__.py")), folder


@functools.cache
def own_names():
    """The names of the package's functions, classes and attributes."""
    nodes = [node for path in FILES for node in ast.walk(tree_of(path))]
    names = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}


def private_things(path):
    """Yields what a file does that the public API of Keras, TensorFlow and Python does not provide for."""
    for module, _, _ in imports(path):
        if module.startswith(("keras.src", "tensorflow.python")):
            yield "a private module"
        if module.split(".")[0] in {"pickle", "dill", "cloudpickle", "shelve", "marshal"}:
            yield "pickle"
    for node in ast.walk(tree_of(path)):
        function = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        changes = function in ("setattr", "delattr")
        owner = ast.unparse(node.args[0]) if (changes or function == "object.__setattr__") and node.args else ""
        if function == "object.__setattr__" or (match := re.fullmatch(r"vars\((.*)\)\.update", function)):
            owner = owner if function == "object.__setattr__" else match[1]
            if owner != "self":
                yield "an attribute set on another object"
        keywords = getattr(node, "keywords", ())
        if function == "torch.load" or "allow_pickle=True" in map(ast.unparse, keywords):
            yield "pickle"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            owner, changes = ast.unparse(node.value), True
            if node.attr.startswith("_") and owner not in ("self", "cls"):
                yield "an attribute set on another object"
        if changes and re.match(r"(keras|ops|tf|tensorflow|jax|torch)\b", owner):
            yield "an attribute of a class or module of Keras or TensorFlow"
        if isinstance(node, ast.Attribute) and re.match("_(?!_)", node.attr) and folder_of(path) != "keras_internals":
            documented = node.attr == "_replace" or ast.unparse(node) == "os._exit"
            if not documented and node.attr not in own_names() and ast.unparse(node.value) not in ("self", "cls"):
                yield "a private name of another package"
        name = getattr(node, "attr", getattr(node, "id", None))
        if name in {"_getframe", "walk_stack", "currentframe", "settrace", "setprofile"}:
            yield "stack frames"


def test_private_things_are_only_where_a_reason_is_given():
    found = collections.Counter((what, name_of(path)) for path in FILES for what in private_things(path))
    print(f"\n{found.total()} places in {len(found)} files do what the public API does not provide for:")
    print(*(f"  {count} in {key[1]}: {key[0]} ({PRIVATE.get(key)})" for key, count in found.items()), sep="\n")
    assert set(found) == set(PRIVATE)


def test_every_file_says_what_lives_there():
    for path in FILES:
        assert ast.get_docstring(tree_of(path)), path


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
        "keras_transfer.recommended_precision()\n"
        "try: keras_transfer.hub.HubLayer('module')\n"
        "except RuntimeError: refused = True\n"
        "heavy = {'tensorflow', 'tensorflow_hub', 'tensorflow_text', 'keras_hub', 'torch', 'transformers'}\n"
        "print(json.dumps([refused, sorted(heavy & set(sys.modules))]))"
    )
    assert run("-c", script, KERAS_BACKEND="jax") == [True, []]
