"""The tutorials run on small settings, and their pages contain what their scripts say."""

import importlib

import pytest

from tests.pages import REPOSITORY, few_questions

PAGES, SOURCES = REPOSITORY / "docs" / "tutorials", REPOSITORY / "examples" / "tutorials"
NAMES = sorted(path.stem for path in SOURCES.glob("*.py"))


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "tools"))
    return importlib.import_module("render_tutorials")


@pytest.fixture
def run(tool, tmp_path, monkeypatch):
    """A function that runs a tutorial and returns its variables and what it has printed."""
    monkeypatch.chdir(tmp_path)

    def run(page):
        name = page.removeprefix("tutorials/")
        path, names = SOURCES / f"{name}.py", {"__name__": "__main__"}
        shown = [shown for _, shown in tool.run_cells(tool.read_cells(path), path, names) if shown]
        return names, "\n".join(part.printed for part in shown)

    return run


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_tutorial_contains_its_cells_in_order_and_says_what_is_next(name, tool):
    page, at = (PAGES / f"{name}.md").read_text("utf-8"), 0
    for cell in tool.read_cells(SOURCES / f"{name}.py"):
        text = f"```python\n{cell.text}\n```" if cell.is_code else cell.text
        assert text in page[at:], f"Run `python tools/render_tutorials.py {name}`. Not in the page: {text[:200]}"
        at = page.index(text, at) + len(text)
    assert page.startswith("# ") and "**You will learn**" in page and "\n## Next\n" in page
    assert f"({name}.md)" in (PAGES / "index.md").read_text("utf-8")


def test_each_picture_of_the_tutorials_is_small_and_on_a_page():
    pictures = list(PAGES.glob("*.png"))
    pages = "".join(path.read_text("utf-8") for path in PAGES.glob("*.md"))
    assert all(picture.stat().st_size < 60_000 and f"({picture.name})" in pages for picture in pictures)


def test_cells_share_variables_and_show_what_a_terminal_shows(tool, tmp_path):
    path = tmp_path / "tutorial.py"
    path.write_text(
        "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 2\nprint('one', end='\\rtwo\\n')\n\n# %%\nx + 1\n"
    )
    text, first, second = tool.run_cells(tool.read_cells(path), path)
    assert text[0].text == "# Title\n\nText." and text[1] is None
    assert first[1] == ("two", None) and second[1] == ("", 3)
    tool.render(path, tmp_path)
    page = (tmp_path / "tutorial.md").read_text()
    assert "# Title\n\nText.\n\n```python" in page and "```text\n3\n```" in page
    path.write_text(path.read_text().replace("Text", "New text"))
    tool.refresh(path, tmp_path)
    assert (tmp_path / "tutorial.md").read_text() == page.replace("Text", "New text")


@pytest.mark.slow
def test_the_tutorial_on_trec_runs(run, small_minilm, monkeypatch):
    few_questions(monkeypatch, 12)
    names, printed = run("tutorials/adapt_to_trec")
    assert len(names["history"].history["val_accuracy"]) == 4 and "random weights:" in printed
