"""Examples whose comments show values: of `1 + 1  # 2`, the value is computed and compared with the comment."""

import ast
import re

import numpy as np

__all__ = ["run", "shows"]


def run(code, names, compared=True):
    """Runs an example with the variables `names`, and checks each comment that is a value and not words."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        value = None
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), "example", "eval"), names)
        else:
            exec(compile(ast.Module([statement], []), "example", "exec"), names)
        expected = literal(comment(lines[statement.end_lineno - 1 : statement.end_lineno + 1]))
        if isinstance(statement, ast.Assign):
            value = eval(ast.unparse(statement.targets[0]), names)
        if compared and expected is not None and not ast.unparse(statement).startswith("print("):
            assert shows(value, expected), f"{ast.unparse(statement)} is {value!r}. The comment shows {expected!r}."


def comment(lines):
    """The comment at the end of the first line, or else in the second line if it has nothing else."""
    [line, *below] = lines
    if "  # " in line:
        return line.rsplit("  # ", 1)[1]
    return below[0][2:] if below and below[0].startswith("# ") else ""


def literal(text):
    """The value that a comment shows, as 1.25 of "log(3.5) = 1.25...", or None if it shows none."""
    try:
        return ast.literal_eval(re.sub(r"(\.\d+)\.\.\.", r"\1", text.rsplit(" = ")[-1]))
    except (SyntaxError, ValueError):
        return None


def shows(value, expected):
    """Whether the comment's value is that of the example, its rounded or truncated value, or the shape of its array."""
    if expected is ...:
        return True
    if isinstance(expected, dict):
        return set(value) == set(expected) and all(shows(value[key], expected[key]) for key in expected)
    if value is None or isinstance(value, (str, bytes, bool)):
        return value == expected or (isinstance(value, bytes) and value.decode() == expected)
    if isinstance(expected, (list, tuple)) and not isinstance(value, (list, tuple)):
        array = value if hasattr(value, "to_list") else np.array(value)
        if tuple(array.shape) == tuple(expected):
            return True
        value = array.to_list() if hasattr(array, "to_list") else array.tolist()
    if isinstance(expected, (list, tuple)):
        if expected and expected[-1] is ...:
            value, expected = value[: len(expected) - 1], expected[:-1]
        return len(value) == len(expected) and all(map(shows, value, expected))
    decimals = len(str(expected).partition(".")[2]) if isinstance(expected, float) else 5
    return not isinstance(expected, str) and abs(np.array(value).item() - expected) <= 0.1**decimals
