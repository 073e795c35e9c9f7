"""The code of the pages in `docs/evaluation` runs."""

import pytest

from tests.pages import few_questions, run_page


@pytest.mark.docs
def test_the_script_in_the_page_on_metrics_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 12)
    names = run_page("evaluation/metrics.md")
    assert set(names["scores"]) == {"loss", "accuracy", "f1", "matthews_correlation"}
    assert float(names["tags"].result()) == 1.0


@pytest.mark.slow
def test_the_script_in_the_page_on_reports_runs(tmp_path, monkeypatch, small_minilm):
    monkeypatch.chdir(tmp_path)
    names = run_page("evaluation/report.md")
    assert (tmp_path / "report.html").exists() and len(names["report"].labels) == 144
    assert (tmp_path / "inspection.html").exists() and len(names["inspection"].sections["layers"].results) == 2


@pytest.mark.slow
def test_the_script_in_the_page_on_calibration_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 8, "train")
    names = run_page("evaluation/calibration.md")
    assert (names["before"].predicted == names["after"].predicted).all() and names["found"].temperature > 0


@pytest.mark.slow
def test_the_script_in_the_page_on_attention_draws_a_picture(tmp_path, monkeypatch, small_minilm, traced):
    pytest.importorskip("matplotlib", reason="draws cross-attention: pip install 'keras_transfer[plots]'")
    monkeypatch.chdir(tmp_path)
    names = run_page("evaluation/attention.md")
    assert names["history"].history["loss"][-1] < 0.1 and (tmp_path / "cross_attention.png").exists()
    assert names["best"]["previous"]["previous"] > 0 and "layer 0" in (tmp_path / "heads.html").read_text("utf-8")


@pytest.mark.slow
def test_the_script_in_the_page_on_scores_of_words_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 12)
    monkeypatch.chdir(tmp_path)
    names = run_page("evaluation/why.md")
    assert (tmp_path / "why.html").exists() and names["rows"][0]["word"] == "Who" and len(names["curve"].rows) == 6
    assert len(names["which"]) > 0 and "Neuron" in (tmp_path / "neuron.html").read_text("utf-8")


@pytest.mark.slow
def test_the_script_in_the_page_on_reproducible_runs_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 12)
    names = run_page("evaluation/reproducibility.md")
    differences = [names["largest_difference"](names["first"], names[other]) for other in ("second", "other")]
    assert differences[0] < 1e-4 < differences[1]


@pytest.mark.slow
def test_the_script_in_the_page_on_where_a_model_breaks_runs(monkeypatch, small_minilm):
    few_questions(monkeypatch, 8)
    names = run_page("evaluation/where_it_breaks.md")
    assert [row["accuracy"] for row in names["scores"].rows][:2] == [1.0, 0.0]
    assert len(names["curve"].rows) == 7


@pytest.mark.slow
def test_the_script_in_the_page_on_similar_layers_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 12)
    names = run_page("evaluation/similarity.md")
    assert names["moved"].left_out == [] and names["found"].matrix.shape[0] == len(names["found"].rows)


@pytest.mark.slow
def test_the_script_in_the_page_on_words_and_bias_runs(tmp_path, monkeypatch, minilm):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("evaluation/words_and_bias.md")
    assert names["test"].effect > 0.5 and len(names["found"].rows) == 7


@pytest.mark.slow
def test_the_script_in_the_page_on_what_a_model_knows_runs(monkeypatch, small_minilm, eagerly):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 10)
    few_questions(monkeypatch, 8)
    names = run_page("evaluation/what_it_knows.md")
    assert names["probe"].kind == "sentence" and "gain" not in names["after"].rows[0]
    assert [row["layer"] for row in names["after"].compare_with(names["before"]).rows] == names["after"].layers
