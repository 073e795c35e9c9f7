"""What the tests of pages and examples share: the blocks of code in a page, and running them."""

import pathlib
import re
import textwrap

import keras_transfer as kt

REPOSITORY = pathlib.Path(__file__).parents[1]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def blocks(text):
    return [textwrap.dedent(match[2]) for match in BLOCK.finditer(text or "")]


def replaced(data, **splits):
    """The dataset with other splits of the given names."""
    return kt.datasets.Splits({**data, **splits}, data.label_names)


def run_page(name):
    """The variables of the script in a page of `docs`."""
    code, names = "\n".join(blocks((REPOSITORY / "docs" / name).read_text("utf-8"))), {}
    exec(compile(code, f"docs/{name}", "exec"), names)
    return names
