"""The code of the pages in `docs/data` runs."""

import pytest

from tests.pages import few_questions, run_page


@pytest.mark.docs
def test_the_script_in_the_page_on_datasets_runs(tmp_path, monkeypatch, capsys, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    names = run_page("data/datasets.md")
    assert (len(names["train"].texts), len(names["held_out"].texts)) == (12, 4) and names["scores"].labels[:2] == [5, 1]
    assert "Get aclImdb_v1.tar.gz" in capsys.readouterr().out


@pytest.mark.docs
def test_the_script_in_the_page_on_data_sources_runs(monkeypatch, small_minilm, eagerly):
    pytest.importorskip("datasets", reason="needs the package datasets")
    whole = few_questions(monkeypatch, 16)
    names = run_page("data/sources.md")
    assert names["model"].label_names == whole.label_names


@pytest.mark.slow
def test_the_script_in_the_page_on_weak_supervision_finds_the_right_classes(small_minilm, eagerly):
    names = run_page("data/weak_supervision.md")
    assert names["right"].mean() > 0.9


@pytest.mark.slow
def test_the_script_in_the_page_on_batches_runs(small_minilm):
    names = run_page("data/batches.md")
    assert names["fixed"][0][0]["token_ids"].shape == (32, 32)
    assert names["again"].seed == names["batches"].seed and names["of_rows"].shape == (4,)
