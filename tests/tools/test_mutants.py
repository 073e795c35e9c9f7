"""Mutation testing on a toy package: where it changes functions, and how it reads the results of the tests."""

import json

import pytest

SOURCE = '''
"""A shop."""
import logging

pytestmark = pytest.mark.slow

log = logging.getLogger("toy")
LIMIT = 3


@cache(size=4)
def total(prices: list[3], discount=0.5) -> Literal[7]:
    """Returns 8."""
    rest = list(prices)
    rest = rest[1:] if not prices else rest
    if discount is None or not 0 <= discount < 1:
        raise ValueError(f"{discount + 9}" + str(10 == 11))
    if prices:
        log.info("%d prices", 12)
    while rest:
        rest.pop()
    name = "ä" + prices.name
    sold = True
    self.count += (
        sold * name
    )
    return [price / 2 for price in prices if valid(price)]
'''

EXPECTED = {
    "comparison": [
        ("discount is None", "discount is not None"),
        ("0 <= discount < 1", "0 < discount < 1"),
        ("0 <= discount < 1", "0 <= discount <= 1"),
    ],
    "statement": [
        ("rest = list(prices)", "pass"),
        ("rest = rest[1:] if not prices else rest", "pass"),
        ('raise ValueError(f"{discount + 9}" + str(10 == 11))', "pass"),
        ("rest.pop()", "pass"),
        ("self.count += (\n        sold * name\n    )", "pass"),
    ],
    "constant": [("0.5", "1.0"), ("1", "2"), ("0", "1"), ("1", "2"), ("True", "False"), ("2", "3")],
    "arithmetic": [
        ("self.count += (\n        sold * name\n    )", "self.count -= (\n        sold * name\n    )"),
        ("sold * name", "sold / name"),
        ("price / 2", "price * 2"),
    ],
    "condition": [
        ("discount is None or not 0 <= discount < 1", "not (discount is None or not 0 <= discount < 1)"),
        ("not prices", "prices"),
        ("valid(price)", "not (valid(price))"),
    ],
}

BASKET = '''
"""Baskets."""

def total(prices, discount):
    return sum(prices) - discount

def is_free(price):
    return price <= 0
'''
TESTS = """
import os
from toy.shop import basket

def test_a_discount_lowers_the_total():
    assert basket.total([1, 2], 1) == 2

def test_nothing_costs_nothing():
    assert basket.is_free(0) or "STRICT" not in os.environ
"""


@pytest.fixture
def mutants(tool, monkeypatch):
    """The module `mutants`, for a toy package with a test of each function."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return tool("mutants")


@pytest.fixture
def tree(tmp_path):
    return make_tree(tmp_path / "tree", TESTS)


def make_tree(tree, tests):
    files = {"toy/__init__.py": "", "toy/shop/__init__.py": "", "toy/shop/basket.py": BASKET, "pyproject.toml": ""}
    for file, text in {**files, "tests/shop/test_basket.py": tests}.items():
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / file).write_text(text)
    return tree


def run(mutants, tree, *arguments):
    mutants.main([*arguments, "--tree", str(tree), "--package", "toy", "--kinds", "comparison", "arithmetic"])


@pytest.mark.parametrize("kind", EXPECTED)
def test_each_kind_changes_functions_but_not_messages_annotations_docstrings_or_logs(mutants, kind):
    import mutations

    found = [mutant for mutant in mutations.find_mutants(SOURCE, "toy/shop.py") if mutant.kind == kind]
    assert sorted((mutant.before, mutant.after) for mutant in found) == sorted(EXPECTED[kind])
    for mutant in found:
        text = mutant.apply(SOURCE)
        compile(text, "shop.py", "exec")
        assert len(text) - len(SOURCE) == len(mutant.after) - len(mutant.before) and text != SOURCE


def test_a_seed_fixes_the_mutants_and_a_larger_count_starts_with_the_same(mutants, tree):
    (tree / "toy" / "shop" / "basket.py").write_text(SOURCE)
    six = mutants.choose(tree, "toy", 6, 0, mutants.KINDS)
    assert [mutant.kind for mutant in six] == [*mutants.KINDS, "comparison"]
    assert mutants.choose(tree, "toy", 6, 0, mutants.KINDS) == six
    assert mutants.choose(tree, "toy", 12, 0, mutants.KINDS)[:6] == six
    assert mutants.choose(tree, "toy", 6, 1, mutants.KINDS) != six


def test_each_mutant_runs_once_and_survivors_can_run_again_with_stricter_tests(mutants, tree, tmp_path, capsys):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    run(mutants, tree, "--results", str(first))
    output = capsys.readouterr().out
    killed = "sum(prices) - discount -> sum(prices) + discount  killed by tests/shop/test_basket.py::test_a_discount_l"
    assert killed in output and "price <= 0 -> price < 0  SURVIVED" in output
    assert "shop            1 of 2 killed (50%)" in output
    assert "Survivors: 1\n\ntoy/shop/basket.py:8\n" in output
    assert "-    return price <= 0\n+    return price < 0\n" in output
    assert (tree / "toy" / "shop" / "basket.py").read_text() == BASKET

    lines = first.read_text()
    run(mutants, tree, "--results", str(first))  # resumes: there is nothing left to do
    assert "2 of 2 mutants are in" in capsys.readouterr().out and first.read_text() == lines

    strict = ["--also", "STRICT=1:-k nothing", "--results", str(second)]
    run(mutants, tree, "--survivors-of", str(first), *strict)
    (result,) = map(json.loads, second.read_text().splitlines())
    assert result["outcome"] == "killed" and result["before"] == "price <= 0"
    assert result["by"] == "STRICT=1 -k nothing tests/shop/test_basket.py::test_nothing_costs_nothing"


@pytest.mark.parametrize(
    "code, output, expected",
    [
        (0, "2 passed", ("survived", "")),
        (5, "2 deselected", ("survived", "no tests")),
        (1, "FAILED tests/a.py::test_b[x - y] - assert [0]", ("killed", "tests/a.py::test_b[x - y]")),
        (2, "ERROR tests/a.py\n!!! stopping", ("killed", "tests/a.py")),
        (4, "ImportError while loading conftest 'c.py'", ("killed", "exit status 4")),
        (3, "INTERNALERROR> KeyError", ("broken", "an internal error of pytest")),
        (-11, "Fatal Python error", ("broken", "signal 11")),
    ],
)
def test_the_verdict_follows_from_the_exit_status_and_output_of_pytest(mutants, code, output, expected):
    assert mutants.verdict(code, output) == expected
