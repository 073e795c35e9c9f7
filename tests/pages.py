"""What the tests of pages and examples share: the blocks of code in a page, and running them."""

import pathlib

import keras_transfer as kt
from tools.page_outputs import blocks

__all__ = ["DOCS", "REPOSITORY", "blocks", "few_questions", "replaced", "run_page"]
REPOSITORY = pathlib.Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"


def replaced(data, **splits):
    """The dataset with other splits of the given names."""
    return kt.datasets.Splits({**data, **splits}, data.label_names)


def run_page(name):
    """The variables of the script in a page of `docs`, such as `"tasks/tagging.md"`."""
    code, names = "\n".join(blocks((DOCS / name).read_text("utf-8"))), {}
    exec(compile(code, f"docs/{name}", "exec"), names)
    return names


def few_questions(monkeypatch, step, *splits):
    """Makes `load_demo_questions` return every `step`th question of the named splits, or of all of them."""
    whole = kt.datasets.load_demo_questions()
    few = {
        name: type(part)(part.texts[::step], part.labels[::step])
        for name, part in whole.items()
        if name in (splits or whole)
    }
    monkeypatch.setattr(kt.datasets, "load_demo_questions", lambda: replaced(whole, **few))
    return whole
