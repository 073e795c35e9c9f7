"""Every name of this library in the pages for users of other libraries exists, with the arguments that they show."""

import ast
import functools
import inspect
import pathlib
import re

import keras_transfer as kt
from keras_transfer.core.names import elsewhere, tables_of_names
from tools import migration_names

PAGES = sorted((pathlib.Path(__file__).parents[1] / "docs" / "migration").glob("*.md"))


def text():
    """The pages without their code, as one text."""
    whole = "\n".join(page.read_text("utf-8") for page in PAGES)
    return re.sub(r"^```.*?^```$", "", whole, flags=re.MULTILINE | re.DOTALL)


def rows():
    """The cells of all tables of names, whose second column has the title "here", without the heads."""
    tables = re.findall(r"^\| [^\n|]+ \| here \|.*?(?=\n\n|\Z)", text(), re.MULTILINE | re.DOTALL)
    lines = [line for table in tables for line in table.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in re.split(r" \|(?: |$)", line[2:])] for line in lines]
    return [row for row in rows if row[0] != "---" and row[1] != "here"]


def names():
    """Snippets such as `kt.losses.MatryoshkaLoss(loss, dims=[384, 64])`."""
    return re.findall(r"`(kt\.[^`]+)`", text())


def test_every_name_exists_and_accepts_the_arguments():
    assert len(names()) > 80
    for name in names():
        [statement] = ast.parse(name).body
        call = statement.value if isinstance(statement.value, ast.Call) else None
        path = ast.unparse(call.func if call else statement.value).split(".")
        found = functools.reduce(getattr, path[1:], kt)
        assert path[2] in getattr(kt, path[1]).__all__, name
        if call:
            keywords = {keyword.arg: None for keyword in call.keywords}
            inspect.signature(found).bind(*call.args, **keywords)


def test_a_row_has_three_cells_and_a_name_of_another_library_is_in_one_row():
    for row in rows():
        assert len([cell for cell in row if cell != ""]) in (2, 3) and row[1], row
    others = [row[0] for row in rows()]
    assert len(others) == len(set(others))


def test_the_page_has_the_table_of_arguments():
    assert migration_names.PAGE.read_text("utf-8") == migration_names.written(), "Run python -m tools.migration_names"


def test_the_pages_and_the_errors_name_the_same_things():
    """Each name in the first column of the pages has a row in the table of the errors, with the same place."""
    explained = {name: own for own, names in tables_of_names()["names"].items() for name in names.split()}
    listed = {}
    for row in rows():
        for name in re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", row[0]))):
            listed[name] = f"{listed.get(name, '')} {row[1]}"
    for name, own in explained.items():
        path = re.search(r"kt[.\w]+", own)
        if own.startswith("kt."):
            assert path[0] in listed.get(name, ""), f"No row of a page has `{name}` and {path[0]}"
    same = {name for room in kt.__all__ for name in getattr(getattr(kt, room), "__all__", ())}
    leading = {name for row in rows() for name in re.findall(r"`([A-Z][a-z]\w+)[`(]", row[0]) if "`kt." in row[1]}
    missing = leading - {*explained, *same} - {"Dataset", "Tokenizer"}  # common words of several libraries
    assert not [name for name in missing if elsewhere(name) is None]
