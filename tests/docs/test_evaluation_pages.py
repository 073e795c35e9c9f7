"""The code of the pages in `docs/evaluation` runs."""

import pytest

import keras_transfer as kt
from tests.pages import replaced, run_page


def test_the_script_in_the_page_on_metrics_runs(monkeypatch, small_minilm, eagerly):
    whole = kt.datasets.load_demo_questions()
    test = type(whole.test)(whole.test.texts[:8], whole.test.labels[:8])
    monkeypatch.setattr(kt.datasets, "load_demo_questions", lambda: replaced(whole, test=test))
    names = run_page("evaluation/metrics.md")
    assert set(names["scores"]) == {"loss", "accuracy", "f1", "matthews_correlation"}
    assert float(names["tags"].result()) == 1.0


@pytest.mark.slow
def test_the_script_in_the_page_on_reports_runs(tmp_path, monkeypatch, small_minilm):
    monkeypatch.chdir(tmp_path)
    names = run_page("evaluation/report.md")
    assert (tmp_path / "report.html").exists() and len(names["report"].labels) == 144
