"""The architecture: folders with one noun, imports through doors and up the floors, a core that knows no backend."""

import ast
import collections
import functools
import pathlib
import re
import sys

import pytest

import keras_transfer
from tests.errors import rule
from tests.processes import run

ROOT = pathlib.Path(keras_transfer.__file__).parent

# The rooms from the lowest floor to the highest. A file imports from the floors below its own, and from no other.
FLOORS = [
    ["core", "keras_internals", "version"],
    ["distribute", "layers", "losses", "metrics", "objectives", "text", "datasets"],
    ["data", "encoders", "generation"],
    ["checkpoints", "hub", "training", "callbacks", "optimizers"],
    ["tasks"],
    ["adaptation", "analysis", "experiments", "serving", "wrappers"],
    ["cli", "__main__"],
]
RANK = {room: rank for rank, floor in enumerate(FLOORS) for room in floor}
# Arrows within a floor.
WITHIN = {
    ("keras_internals", "core"),
    ("datasets", "metrics"),
    ("datasets", "text"),
    ("generation", "encoders"),
    ("serving", "adaptation"),
    ("wrappers", "adaptation"),
    ("experiments", "adaptation"),
    ("experiments", "analysis"),
    ("analysis", "adaptation"),
    ("callbacks", "training"),
    ("optimizers", "training"),
}
# Arrows back: (room, room that it imports) -> why.
EXCEPTIONS = {
    ("encoders", "checkpoints"): "`Encoder.from_pretrained` and `save_pretrained`, inside the functions",
    ("tasks", "serving"): "`Task.export`, inside the function",
    ("text", "data"): "users find batches of texts, and corpora, in `keras_transfer.text`",
}
# Rooms whose files are imported one by one, and what imports files past the door of a room -> why.
NO_DOOR = {"core", "cli"}
PAST_DOOR = {("data", "text"): "the door of `text` lists names of `data`"}
CORE = {"layers", "losses", "encoders", "generation", "tasks", "adaptation", "training", "experiments"}
# Files of the core that import TensorFlow -> why.
TENSORFLOW = {
    "generation/exported.py": "the loop of an exported model, a graph of TensorFlow, and XLA's part of it",
    "tasks/span_extractor.py": "finds answers in texts in the graph, of ragged rows and characters",
    "training/fused_adamw.py": "Adam's update as one operation, which only TensorFlow has",
    "training/gradients.py": "a training step with TensorFlow's tape and sparse gradients",
    "training/part_step.py": "a training step that is traced with the shapes of the data",
}
# What the library should not need: (what, file) -> why it is needed there.
PRIVATE = {
    (
        "a private module",
        "keras_internals/saving",
    ): "whether Keras is in safe mode or in a symbolic scope has no public name",
    ("a private module", "keras_internals/autocast"): "nothing public reads a variable in its own precision in a layer "
    "of mixed precision",
    ("a private module", "keras_internals/tapes"): "nothing public says whether a tape records, or stops all of "
    "them for a moment",
    ("a private module", "keras_internals/graph_passes"): "the public options of graph optimization are those of the "
    "whole process",
    ("an attribute set on another object", "keras_internals/optimizers"): "an optimizer has no public method that sets "
    "what it updates (needed on JAX and for moving averages) or another rate for a while",
    ("an attribute set on another object", "layers/adapters/copies"): "embedding norms, final norms and poolers are "
    "nodes of a functional graph, also of KerasHub's, which nothing public can put another layer in place of",
    ("an attribute set on another object", "core/expect"): "the signature of our own function, which Keras reads",
    ("an attribute set on another object", "data/batching"): "a copy of our own batches",
    ("an attribute set on another object", "keras_internals/trainer"): "where `fit` begins, and on JAX the state of a "
    "run, have no public setter",
    ("an attribute set on another object", "training/run_state"): "Keras's callbacks have no public state",
    ("pickle", "checkpoints/tensors"): "many checkpoints are torch pickles, of which torch reads tensors only, and "
    "fastai's vocabularies are pickles",
}
# Packages that a file may import at the top. Functions import all others.
TOP_LEVEL = {"keras", "numpy", "keras_transfer", *sys.stdlib_module_names}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
FOLDERS = sorted({path.parent for path in FILES})


def name_of(path):
    """The name of a file in the package, such as `layers/basic/dropout`."""
    return path.relative_to(ROOT).as_posix().removesuffix(".py")


def room_of(path):
    """The folder in the package around a file, or the name of a file that is in none."""
    return name_of(path).split("/")[0]


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
    """`(room, whether through its door, names)` for each import of another room of the package in a file."""
    for module, names, _ in imports(path):
        parts = module.split(".")
        if parts[0] == "keras_transfer":
            rooms = [parts[1]] if len(parts) > 1 else names
            names = names if len(parts) > 1 else None
            yield from ((room, len(parts) < 3, names) for room in rooms if room != room_of(path))


@functools.cache
def door_of(room):
    """The names that the `__init__` of a room imports."""
    nodes = [node for node in tree_of(ROOT / room / "__init__.py").body if isinstance(node, ast.ImportFrom)]
    return {name.asname or name.name for node in nodes for name in node.names} - {"open_door"}


@rule
def test_a_file_imports_only_from_lower_floors():
    for path in FILES:
        own = room_of(path)
        for other, _, _ in own_imports(path):
            if RANK[other] >= RANK[own] and (own, other) not in WITHIN | set(EXCEPTIONS):
                yield f"{name_of(path)} imports {other}"


@rule
def test_a_file_imports_from_another_room_only_what_its_door_lists():
    for path in FILES:
        own = room_of(path)
        for other, through_door, names in own_imports(path):
            if other in NO_DOOR or not (ROOT / other).is_dir() or (own, other) in PAST_DOOR:
                continue
            if not through_door:
                yield f"{name_of(path)} imports {names} past the door of {other}"
            elif missing := set(names or ()) - door_of(other):
                yield f"the door of {other} does not list {missing}, which {name_of(path)} imports"


@rule
def test_a_door_lists_only_what_is_public_or_what_another_room_imports():
    imported = collections.defaultdict(set)
    for path in FILES:
        for other, _, names in own_imports(path):
            imported[other] |= set(names or ())
    for room in sorted(set(RANK) - NO_DOOR - {"version", "__main__", "cli"}):
        public = set(getattr(getattr(keras_transfer, room, None), "__all__", ()))
        if unused := door_of(room) - public - imported[room]:
            yield f"no other room imports {unused} from {room}"


@rule
def test_an_inner_folder_has_no_door():
    for folder in FOLDERS:
        code = [node for node in tree_of(folder / "__init__.py").body if isinstance(node, ast.ImportFrom)]
        if folder.parent not in (ROOT, ROOT.parent) and code:
            yield f"{folder} lists {len(code)} files"


@rule
def test_each_exception_is_still_one():
    found = {(room_of(path), other) for path in FILES for other, _, _ in own_imports(path)}
    yield from {*EXCEPTIONS, *WITHIN, *PAST_DOOR} - found
    for name in TENSORFLOW:
        if not any(module == "keras_transfer.core.lazy" for module, _, _ in imports(ROOT / name)):
            yield name


@rule
def test_a_file_imports_nothing_heavy_at_the_top_and_no_private_module():
    for path in FILES:
        own = room_of(path)
        for module, _, top in imports(path):
            package = module.split(".")[0]
            of_the_command = own in ("__main__", "cli") and package == "keras_transfer_command"
            if top and package not in TOP_LEVEL and not of_the_command:
                yield f"{module} at the top of {name_of(path)}"
            is_tensorflow = package == "tensorflow" or module == "keras_transfer.core.lazy"
            if own in CORE and f"{name_of(path)}.py" not in TENSORFLOW and is_tensorflow:
                yield f"{name_of(path)} imports {module}: the core uses keras.ops only"
            if own != "keras_internals" and module.startswith(("keras.src", "tensorflow.python")):
                yield f"{name_of(path)} imports {module}"


@rule
def test_no_function_or_class_shares_its_name_with_its_module():
    for path in (path for path in FILES if room_of(path) not in NO_DOOR):
        if path.stem in {node.name for node in tree_of(path).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}:
            yield name_of(path)


@rule
def test_every_room_has_a_floor_and_every_file_says_what_lives_there():
    yield from {room_of(path) for path in FILES} ^ set(RANK)
    yield from (name_of(path) for path in FILES if not ast.get_docstring(tree_of(path)))


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
        if isinstance(node, ast.Attribute) and re.match("_(?!_)", node.attr) and room_of(path) != "keras_internals":
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


def test_every_public_name_exists_and_has_a_docstring():
    for name in keras_transfer.__all__:
        module = getattr(keras_transfer, name)
        for public in getattr(module, "__all__", ()):
            value = getattr(module, public)
            assert not callable(value) or value.__doc__, f"{name}.{public}"


def test_imports_load_no_other_package_than_keras_does_and_only_the_rooms_that_they_need():
    script = (
        "import json, sys, keras; keras.ops.ones(1); known = set(sys.modules)\n"
        "def new(): return sorted({tuple(name.split('.')[:2]) for name in set(sys.modules) - known if '.' in name})\n"
        "import keras_transfer; first = new()\n"
        "import keras_transfer.tasks; print(json.dumps([first, new()]))"
    )
    first, then = ({(package, part) for package, part in found} for found in run("-c", script))
    lowest = {room for floor in FLOORS[:3] for room in floor} - {"datasets", "encoders", "generation", "losses"}
    assert {package for package, _ in then} - sys.stdlib_module_names <= {"keras_transfer", "tensorflow"}
    assert {room for package, room in first if package == "keras_transfer"} <= lowest
    upper = {room for floor in FLOORS[5:] for room in floor} | {"callbacks", "datasets", "hub", "optimizers"}
    assert not upper & {room for package, room in then if package == "keras_transfer"}


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
