"""Every public function, class and method documents all its arguments, what it returns, and its shapes."""

import ast
import re

from tests.public_api import (
    PACKAGE,
    constructor,
    decorators,
    foreign_bases,
    lineage,
    methods,
    parameters,
    public_definitions,
    returns_something,
)

# What Keras calls and documents. What users call themselves, such as `fit`, is documented where it is overridden.
OF_KERAS = {
    *("add_loss", "add_metric", "add_variable", "add_weight", "apply", "apply_gradients", "assign", "build"),
    *("build_from_config", "call", "compute_loss", "compute_mask", "compute_metrics", "compute_output_shape"),
    *("compute_output_spec", "count_params", "from_config", "get_build_config", "get_compile_config", "get_config"),
    *("load_own_variables", "make_predict_function", "make_test_function", "make_train_function"),
    *("on_epoch_begin", "on_epoch_end", "on_predict_begin", "on_predict_end", "on_test_begin"),
    *("on_test_end", "on_train_begin", "on_train_end", "on_train_batch_begin", "on_train_batch_end", "predict_step"),
    *("on_predict_batch_begin", "on_predict_batch_end", "on_test_batch_begin", "on_test_batch_end", "quantize"),
    *("quantized_build", "quantized_call", "rematerialized_call", "reset_state", "result", "save_own_variables"),
    *("set_model", "set_params", "symbolic_call", "test_step", "train_step", "update_state", "update_step"),
}
CONFIG = {"get_config", "from_config"}  # of classes that Keras serializes
SECTION = re.compile(r"^([A-Z][A-Za-z ]*):(.*)$")
ENTRY = re.compile(r"^    (?:- )?`?([*\w][\w*., ]*)`?:(?: (.*))?$")
SHAPE = re.compile(r"`\[[^\]]*[a-z][^\]]*\]`|`\[\]`|shape `\(")
BARE_REFERENCE = re.compile(r"^(See|As (in|of|for)|The same as) ", re.ASCII)
RETURNED = re.compile(r"which `[\w.]+` returns")  # Users do not call the constructor of such a class.
OPTIONAL = ("training", "mask")  # Keras documents these arguments of `call`.
WITH_SHAPES = ("layers", "losses", "metrics")


def sections(docstring):
    """A dict of a docstring's sections: the lines under each title, `""` for what comes before them."""
    found, title = {"": []}, ""
    for line in docstring.splitlines():
        match = SECTION.match(line)
        if match and (not match[2] or match[1] in ("Args", "Returns", "Raises", "Inputs", "Outputs")):
            title = match[1]
            found[title] = [f"    {match[2].strip()}"] if match[2] else []
        elif line and not line.startswith(" ") and title:
            title = ""
        else:
            found[title].append(line)
    return found


def entries(lines):
    """`(name, description)` for each entry of a section such as `Args`."""
    found = []
    for line in lines:
        match = ENTRY.match(line)
        if match:
            found.append([match[1], match[2] or ""])
        elif found:
            found[-1][1] += " " + line.strip()
    return [(name, description.strip()) for name, description in found]


def faults_of_entries(title, found, expected):
    """What is wrong with the entries of a section, for parameters in the order of the signature (`None` for any)."""
    names = [name for name, _ in found]
    if expected is not None and names != expected:
        yield f"`{title}` must list {expected}. Received: {names}"
    for name, description in found:
        if not description or BARE_REFERENCE.match(description) or "," in name:
            yield f"`{name}` must be described. Received: {description!r}"


def faults_of_arguments(docstring, expected):
    parts = sections(docstring)
    yield from faults_of_entries("Args", entries(parts.get("Args", parts.get("Attributes", []))), expected)
    for name, description in entries(parts.get("Raises", [])):
        if not description.startswith("If "):
            yield f"An entry of `Raises` must begin with `If`. Received: {name}: {description!r}"


def faults_of_function(function, docstring):
    if docstring is None:
        yield "There is no docstring"
        return
    is_property = decorators(function) & {"property", "cached_property"}
    yield from faults_of_arguments(docstring, None if is_property else parameters(function))
    if returns_something(function) and not is_property and not sections(docstring).keys() & {"Returns", "Yields"}:
        yield "There is no `Returns`"


def arguments_elsewhere(definition):
    """Whether a class has the constructor of a base, and its docstring says that the arguments are described there."""
    own = {method.name for method in definition.node.body if isinstance(method, ast.FunctionDef)}
    places = [f"The arguments are those of `{base.node.name}`." for base in lineage(definition)[1:]]
    return "__init__" not in own and any(place in definition.docstring for place in places)


def faults_of_class(definition):
    docstring = definition.docstring
    if docstring is None:
        yield "There is no docstring"
        return
    expected = [] if arguments_elsewhere(definition) else constructor(definition)
    is_returned = RETURNED.search(docstring.partition("\n")[0]) and "Args" not in sections(docstring)
    yield from faults_of_arguments(docstring, None if is_returned else expected)
    room = definition.module.split(".")[1]
    if room in WITH_SHAPES and foreign_bases(definition) and not SHAPE.search(docstring):
        yield "There are no shapes, such as `[batch, length, dim]`"
    call = next((method for method in methods(definition) if method.name == "call"), None)
    if room == "layers" and call:
        parts = sections(docstring)
        expected = [name for name in parameters(call) if name not in OPTIONAL]
        found = [entry for entry in entries(parts.get("Call arguments", [])) if entry[0] not in OPTIONAL]
        if len(expected) > 1 or "Inputs" not in parts:
            yield from faults_of_entries("Call arguments", found, expected)


def inherited_docstring(owner, function):
    """A method's docstring, or that of the method with the same parameters that it overrides."""
    for base in lineage(owner):
        for method in methods(base):
            same = method.name == function.name and parameters(method) == parameters(function)
            if same and (docstring := ast.get_docstring(method)):
                return docstring
    return None


def all_faults():
    """A dict from qualified names, without the package's, to what is wrong with their docstrings."""
    faults, classes, of_keras = {}, [], set()
    for definition in public_definitions():
        if isinstance(definition.node, ast.ClassDef):
            faults[definition.name] = list(faults_of_class(definition))
            classes += lineage(definition)
            of_keras |= set(lineage(definition)) if foreign_bases(definition) else set()
        else:
            faults[definition.name] = list(faults_of_function(definition.node, definition.docstring))
    for owner in dict.fromkeys(classes):
        for method in methods(owner):
            if method.name not in (OF_KERAS if owner in of_keras else CONFIG):
                name = f"{owner.name}.{method.name}"
                faults[name] = list(faults_of_function(method, inherited_docstring(owner, method)))
    return {name.removeprefix(f"{PACKAGE}."): found for name, found in faults.items()}


def test_every_public_name_is_documented():
    faults = all_faults()
    assert len(faults) > 700  # The syntax trees were found.
    listed = ["\n    ".join([name, *found]) for name, found in faults.items() if found]
    assert not listed, "\n".join(listed)


def test_a_docstring_is_compared_with_the_signature():
    function = ast.parse("def f(x, *, k=1, **options): return x").body[0]
    complete = "Does it.\n\nArgs:\n    x: A.\n    k: B\n        or C.\n    **options: D.\n\nReturns:\n    E."
    assert list(faults_of_function(function, complete)) == []
    for fault, docstring in [
        ("`Args` must list", complete.replace("    k: B\n        or C.\n", "")),
        ("`Args` must list", complete.replace("    x: A.\n    k: B\n        or C.\n", "    x, k: A.\n")),
        ("`x` must be described", complete.replace("A.", "See `other`.")),
        ("no `Returns`", complete.replace("Returns:\n    E.", "")),
        ("must begin with `If`", complete + "\n\nRaises:\n    ValueError: When it fails."),
    ]:
        assert fault in " ".join(faults_of_function(function, docstring)), docstring
