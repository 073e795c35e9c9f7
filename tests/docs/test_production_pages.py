"""The code of the pages in `docs/production` runs."""

import pytest

import keras_transfer as kt
from tests.pages import few_questions, run_page


@pytest.mark.slow
def test_the_script_in_the_page_on_serving_runs(tmp_path, monkeypatch, small_minilm):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 12)
    names = run_page("production/serving.md")
    assert (tmp_path / "served" / "questions" / "1" / "saved_model.pb").exists()
    assert set(names["table"]["label"]) <= set(names["data"].label_names) and len(names["table"]["id"]) == 2


@pytest.mark.slow
def test_the_script_in_the_page_on_scikit_learn_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install scikit-learn")
    whole = few_questions(monkeypatch, 12, "train")
    names = run_page("production/scikit_learn.md")
    assert names["search"].best_estimator_.model_.label_names == whole.label_names


def test_the_script_in_the_page_on_commands_writes_two_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page("production/commands.md")
    for name, count in {"questions.csv": 576, "test.csv": 144}.items():
        table = kt.datasets.read_table(name, "question", label_column="kind")
        assert len(table.texts) == count and set(table.labels) == {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}
