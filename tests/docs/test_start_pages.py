"""The code of the home page and of the pages in `docs/start` runs."""

import pytest

from tests.pages import few_questions, run_page


@pytest.fixture
def folder(tmp_path, monkeypatch, small_minilm):
    """An empty folder for what a page writes, with a small encoder and few questions."""
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 4)
    return tmp_path


@pytest.mark.docs
def test_the_script_of_the_home_page_runs(folder, eagerly):
    assert run_page("index.md")["model"].num_classes == 6
    assert (folder / "served" / "saved_model.pb").exists()


@pytest.mark.slow
def test_the_script_of_the_first_classifier_runs(folder, eagerly):
    names = run_page("start/first_classifier.md")
    assert names["again"].predict_labels(names["questions"]) == names["model"].predict_labels(names["questions"])
    assert (folder / "report.html").exists() and names["answer"]["label"].shape == (1,)


@pytest.mark.slow
def test_the_script_of_all_of_keras_transfer_runs(folder, monkeypatch, six_small_blocks, eagerly, capsys):
    names = run_page("start/all_of_keras_transfer.md")
    assert names["groups"][0].name == "embeddings" and names["recipe"].epochs == 3
    assert "Did you mean 'block_4'?" in capsys.readouterr().out


@pytest.mark.slow
def test_the_script_of_which_method_runs(folder, eagerly):
    assert run_page("start/which_method.md")["data"].label_names[0] == "ABBR"
