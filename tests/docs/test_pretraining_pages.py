"""The code of the pages in `docs/pretraining` runs."""

from tests.pages import run_page


def test_the_script_in_the_page_on_pretraining_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    assert run_page("pretraining/objectives.md")["classifier"].compiled


def test_the_script_in_the_page_on_pretraining_from_scratch_runs(tmp_path, monkeypatch, eagerly):
    monkeypatch.chdir(tmp_path)
    assert run_page("pretraining/from_scratch.md")["classifier"].encoder.num_layers == 2


def test_the_script_in_the_page_on_ulmfit_runs(tmp_path, monkeypatch, eagerly):
    monkeypatch.chdir(tmp_path)
    assert run_page("pretraining/ulmfit.md")["both"].shape == (12, 6)
