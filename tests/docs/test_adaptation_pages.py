"""The code of the pages in `docs/adaptation` runs."""

import pytest

import keras_transfer as kt
from tests.pages import replaced, run_page


@pytest.mark.slow
def test_the_script_in_the_page_on_adaptation_runs(tmp_path, monkeypatch, six_small_blocks, eagerly):
    monkeypatch.chdir(tmp_path)
    whole = kt.datasets.load_demo_questions()
    train, test = (type(part)(part.texts[::6], part.labels[::6]) for part in whole.values())
    monkeypatch.setattr(kt.datasets, "load_demo_questions", lambda: replaced(whole, train=train, test=test))
    names = run_page("adaptation/methods.md")
    assert len(names["history"].history["val_accuracy"]) == 1
    assert all(weight.trainable for weight in names["model"].trainable_weights)
    assert names["optimizer"].penalty.strength == 10.0


def test_the_script_in_the_page_on_adapters_runs(tmp_path, monkeypatch, small_minilm):
    monkeypatch.chdir(tmp_path)
    names = run_page("adaptation/adapters.md")
    assert names["model"].encoder.active_adapters == ("both",)


@pytest.mark.slow
def test_the_script_in_the_page_on_comparing_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    whole = kt.datasets.load_demo_questions()
    train, test = (type(part)(part.texts[::8], part.labels[::8]) for part in whole.values())
    monkeypatch.setattr(kt.datasets, "load_demo_questions", lambda: replaced(whole, train=train, test=test))
    names = run_page("adaptation/compare.md")
    assert [row["seeds"] for row in names["comparison"].rows] == [2, 2]
    assert (tmp_path / "methods.jsonl").read_text().count("\n") == 1 + 2 * 3
