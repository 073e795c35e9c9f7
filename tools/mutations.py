"""The changes of mutation testing: where a function can be changed, and a random choice of such places.

`mutants.py` runs them. A place is a node of the syntax tree, and a change replaces its text in the file; the rest of
the file stays as it is. Docstrings, annotations, decorators, and the messages of errors and logs are never changed.
"""

import ast
import dataclasses
import itertools
import pathlib
import random
import re

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
BOUNDARIES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)  # for these, the swapped comparison is not the negated one
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
}
KINDS = ("comparison", "statement", "constant", "arithmetic", "condition")
STATEMENTS = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue)
LOGGERS = ("log", "logger", "logging")
NO_BEHAVIOUR = ("annotation", "returns", "decorator_list", "type_params")  # fields of a function


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Args:
        file: Path of the file, relative to the repository.
        line: Line of the change, from 1.
        column: Column of the change in bytes, from 0.
        kind: One of `KINDS`.
        before: Source text at this position.
        after: Source text that replaces it.
    """

    file: str
    line: int
    column: int
    kind: str
    before: str
    after: str

    @property
    def room(self):
        """Name of the room, or an empty string for a file at the top of the package."""
        parts = pathlib.PurePosixPath(self.file).parts
        return parts[1] if len(parts) > 2 else ""

    def apply(self, source):
        """Returns the mutated source, or raises a `ValueError` if the source has changed since."""
        data, start = source.encode(), Source(source).offset(self.line, self.column)
        end = start + len(self.before.encode())
        if data[start:end] != self.before.encode():
            raise ValueError(f"{self.file}:{self.line} has changed. Expected {self.before!r} at column {self.column}")
        return (data[:start] + self.after.encode() + data[end:]).decode()

    def __str__(self):
        return (
            f"{self.file}:{self.line}:{self.column + 1}  {self.kind}  {one_line(self.before)} -> {one_line(self.after)}"
        )


def one_line(text, width=70):
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 3]}..."


class Source:
    """A file's text, read by the positions of its syntax tree: lines, and columns in bytes."""

    def __init__(self, text):
        self.data = text.encode()
        self.starts = [0, *(match.end() for match in re.finditer(b"\n", self.data))]

    def offset(self, line, column):
        return self.starts[line - 1] + column if line <= len(self.starts) else len(self.data)

    def text(self, node):
        return self.data[self.offset(node.lineno, node.col_offset) : self._end(node)].decode()

    def swap(self, node, left, right, old, new):
        """Returns the text of `node` with another operator between two operands, or None beside a comment."""
        start, end = self._end(left), self.offset(right.lineno, right.col_offset)
        first = self.offset(node.lineno, node.col_offset)
        gap = self.data[start:end].decode()
        if "#" in gap:
            return None
        gap = re.sub(r"\s+".join(map(re.escape, old.split())), new, gap, count=1)
        return (self.data[first:start] + gap.encode() + self.data[end : self._end(node)]).decode()

    def _end(self, node):
        return self.offset(node.end_lineno, node.end_col_offset)


def is_log(node):
    function = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    return isinstance(function, ast.Attribute) and getattr(function.value, "id", None) in LOGGERS


def is_silent(node):
    """Returns whether a node is a docstring, logging or the text of a message, which no test should notice."""
    if isinstance(node, ast.If):
        return all(map(is_log, node.body + node.orelse))
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", "")).endswith(("Error", "Exception", "Warning"))
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.JoinedStr) or is_log(node)


def walk(node, inside=False):
    """Yields the nodes inside functions, including default values, whose change a test could notice."""
    if is_silent(node):
        return
    if inside:
        yield node
    if isinstance(node, ast.Raise):
        return  # The statement can be dropped, but its message is not a place.
    inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    for field, value in ast.iter_fields(node):
        if field not in NO_BEHAVIOUR:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child, inside)


def only_bindings(tree):
    """Returns the ids of assignments that cannot be dropped without a `NameError` wherever their line runs."""
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            nodes = list(ast.walk(function))
            again = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
            names = [node.arg for node in nodes if isinstance(node, ast.arg)]
            names += [node.id for node in nodes if is_stored(node) and id(node) not in again]
            for node in nodes:
                if isinstance(node, ast.Assign):
                    bound = [name.id for target in node.targets for name in ast.walk(target) if is_stored(name)]
                    if any(names.count(name) == 1 for name in bound):
                        found.add(id(node))
    return found


def is_stored(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def joins_text(node):
    """Returns whether an operand is text or a list, for which another operator would raise a `TypeError`."""
    if isinstance(node, ast.BinOp):
        return joins_text(node.left) or joins_text(node.right)
    collection = isinstance(node, (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple))
    return collection or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))


def other_constant(value):
    """Returns another value for a number or boolean, or None for other constants."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 2 or 1.0
    return None


def changes(node, source):
    """Yields `(kind, after)` for each way to mutate a node."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:]):
            yield "comparison", source.swap(node, left, right, *COMPARISONS[type(operator)])
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not joins_text(node):
        yield "arithmetic", source.swap(node, node.left, node.right, *ARITHMETIC[type(node.op)])
    elif isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC and not joins_text(node.value):
        yield "arithmetic", source.swap(node, node.target, node.value, *ARITHMETIC[type(node.op)])
    elif isinstance(node, ast.Constant) and other_constant(node.value) is not None:
        yield "constant", repr(other_constant(node.value))
    if isinstance(node, STATEMENTS) or (isinstance(node, ast.Return) and node.value is None):
        yield "statement", "pass"


def negated(test, source):
    """Returns the negated text of a condition, or None if swapping its comparison does the same."""
    text = source.text(test)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and not isinstance(test.ops[0], BOUNDARIES):
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return text.removeprefix("not").lstrip()
    return f"not ({text})"


def find_mutants(text, file):
    """Returns every mutant of a file's text, in the order of the text."""
    source, tree, mutants = Source(text), ast.parse(text), []
    needed = only_bindings(tree)

    def add(node, kind, after):
        before = source.text(node)
        if after is not None and after != before:
            mutants.append(Mutant(file, node.lineno, node.col_offset, kind, before, after))

    for node in walk(tree):
        for kind, after in changes(node, source):
            if kind != "statement" or id(node) not in needed:
                add(node, kind, after)
        # The conditions of `while` are left out, because negating one usually means an endless loop.
        tests = [node.test] if isinstance(node, (ast.If, ast.IfExp)) else getattr(node, "ifs", [])
        for test in tests:
            add(test, "condition", negated(test, source))
    return mutants


def choose(tree, package, count, seed, kinds, rooms=None):
    """Returns `count` random mutants of a package, equally many of each kind and uniform over its places.

    A larger `count` starts with the same mutants.
    """
    texts = {path.relative_to(tree).as_posix(): path for path in sorted((tree / package).rglob("*.py"))}
    texts = {file: path.read_bytes().decode() for file, path in texts.items()}
    mutants = [mutant for file, text in texts.items() for mutant in find_mutants(text, file)]
    known = {mutant.room for mutant in mutants}
    if unknown := set(rooms or ()) - known:
        raise SystemExit(f"Invalid value for --only. Expected some of {sorted(known)}. Received: {sorted(unknown)}")
    queues = []
    for kind in kinds:
        queue = [mutant for mutant in mutants if mutant.kind == kind and (not rooms or mutant.room in rooms)]
        random.Random(f"{seed} {kind}").shuffle(queue)
        queues.append(mutant for mutant in queue if compiles(mutant.apply(texts[mutant.file])))
    turns = itertools.chain.from_iterable(itertools.zip_longest(*queues))
    return list(itertools.islice((mutant for mutant in turns if mutant), count))


def compiles(text):
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True
