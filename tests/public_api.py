"""The public functions, classes and methods of the package, found in its syntax trees: nothing is imported."""

import ast
import dataclasses
import functools
import importlib.util
import pathlib

PACKAGE = "keras_transfer"
ROOT = pathlib.Path(importlib.util.find_spec(PACKAGE).submodule_search_locations[0])


@dataclasses.dataclass(frozen=True, eq=False)
class Definition:
    """A function or a class, and the module that defines it."""

    module: str
    node: ast.AST

    @property
    def name(self):
        return f"{self.module}.{self.node.name}"

    @property
    def docstring(self):
        return ast.get_docstring(self.node)


@functools.cache
def tree(module):
    """The syntax tree of a module of the package, or `None` if there is none."""
    path = ROOT.parent / module.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return ast.parse(file.read_text("utf-8"))
    return None


@functools.cache
def names_in(module):
    """Two dicts: the definitions of a module, and what it imports as `(module, name)`."""
    definitions, imports = {}, {}
    for node in tree(module).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            definitions[node.name] = Definition(module, node)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE):
            for alias in node.names:
                imports[alias.asname or alias.name] = (node.module, alias.name)
    return definitions, imports


def resolve(module, name):
    """The `Definition` of a name, followed through imports, or `None` for a constant, a module or another package."""
    if tree(module) is None:
        return None
    definitions, imports = names_in(module)
    if name in definitions:
        return definitions[name]
    source = imports.get(name, (module, name))  # A package imports its own subpackages from itself.
    return None if source == (module, name) else resolve(*source)


def public_list(module):
    """The `__all__` of a module."""
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return ast.literal_eval(node.value)
    return []


def public_definitions():
    """What the package and its public subpackages list, without constants."""
    modules = [PACKAGE, *(f"{PACKAGE}.{name}" for name in public_list(PACKAGE) if tree(f"{PACKAGE}.{name}"))]
    found = [resolve(module, name) for module in modules for name in public_list(module)]
    return list(dict.fromkeys(definition for definition in found if definition))


@functools.cache
def lineage(definition):
    """A class and its base classes in this package, the nearest first."""
    bases = [resolve(definition.module, base.id) for base in definition.node.bases if isinstance(base, ast.Name)]
    found = [definition]
    for base in filter(None, bases):
        found += lineage(base)
    return list(dict.fromkeys(found))


def foreign_bases(definition):
    """The last names of the base classes from other packages, such as `Layer`."""
    found = set()
    for owner in lineage(definition):
        for base in owner.node.bases:
            if not (isinstance(base, ast.Name) and resolve(owner.module, base.id)):
                found.add(base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", ""))
    return found


def decorators(node):
    """The last names of a definition's decorators."""
    found = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in node.decorator_list]
    return {getattr(name, "attr", None) or getattr(name, "id", None) for name in found}


def parameters(function):
    """The names of a function's parameters, without `self` and `cls`, with the stars of `*args` and `**kwargs`."""
    a = function.args
    names = [argument.arg for argument in [*a.posonlyargs, *a.args]]
    names += [f"*{a.vararg.arg}"] if a.vararg else []
    names += [argument.arg for argument in a.kwonlyargs]
    names += [f"**{a.kwarg.arg}"] if a.kwarg else []
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def fields(definition):
    """The fields of a dataclass or named tuple, or `None` for another class."""
    owners = [
        owner
        for owner in reversed(lineage(definition))
        if "dataclass" in decorators(owner.node) or "NamedTuple" in foreign_bases(owner)
    ]
    names = [
        node.target.id
        for owner in owners
        for node in owner.node.body
        if isinstance(node, ast.AnnAssign)
        and node.target.id != "_"
        and "ClassVar" not in ast.dump(node.annotation)
        and not _no_argument(node)
    ]
    return list(dict.fromkeys(names)) if owners else None


def _no_argument(field):
    """Whether a field is `dataclasses.field(init=False)`."""
    keywords = getattr(field.value, "keywords", [])
    return any(keyword.arg == "init" and keyword.value.value is False for keyword in keywords)


def constructor(definition):
    """The names of a constructor's parameters, or `None` if it is that of another package."""
    for owner in lineage(definition):
        for node in owner.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                return parameters(node)
        if (names := fields(owner)) is not None:
            return fields(definition) or names
    return None


def methods(definition):
    """The public methods that a class defines, without the setters of properties."""
    for node in definition.node.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and "setter" not in decorators(node):
            yield node


def own_nodes(function):
    """All nodes of a function that are not in a function or class within it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield node
            yield from own_nodes(node)


def returns_something(function):
    """Whether a function has a `return` with a value, or a `yield`."""
    for node in own_nodes(function):
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(node, ast.Return) and not (node.value is None or ast.unparse(node.value) == "None"):
            return True
    return False
