"""The code of the pages in `docs/pretraining` runs."""

import json

import pytest

from tests.pages import few_questions, run_page

# What is certain about the variables of a page after its script has run.
PAGES = {
    "pretraining/domain": lambda names: names["classifier"].history.epoch == [0, 1, 2],
    "pretraining/masked": lambda names: 0 <= names["model"].score_pairs((["a"], ["b"]))[0] <= 1,
    "pretraining/replaced_tokens": lambda names: names["classifier"].encoder.num_layers == 2,
    "pretraining/other_objectives": lambda names: names["mask"].ndim == 3,
    "pretraining/from_scratch": lambda names: names["classifier"].encoder.num_layers == 2,
    "pretraining/ulmfit": lambda names: len(names["both"].members) == 2,
    "pretraining/recurrent": lambda names: names["losses"].shape == (2, 6),
}
STEPS = {"pretraining/from_scratch": 24, "pretraining/recurrent": 24, "pretraining/ulmfit": 12}  # have many batches


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_script_in_a_page_runs(page, tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, STEPS.get(page, 8))
    assert PAGES[page](run_page(f"{page}.md"))


@pytest.mark.docs
def test_the_script_in_the_page_on_corpora_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("pretraining/corpora.md")
    assert len(names["train"]) == len(names["corpus"].blocks(64, batch_size=16))


@pytest.mark.docs
def test_the_script_in_the_page_on_encoder_decoders_runs(tmp_path, monkeypatch, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("pretraining/encoder_decoders.md")
    assert names["model"].optimizer.iterations == 4 * 3  # four epochs of three batches
    assert json.loads((tmp_path / "my_t5" / "config.json").read_text("utf-8"))["model_type"] == "t5"


@pytest.mark.slow
def test_the_script_in_the_page_on_word_vectors_runs(tmp_path, monkeypatch, eagerly, minilm):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 2)
    names = run_page("pretraining/word_vectors.md")
    assert "movie" in [word for word, _ in names["everything"].nearest("film", k=5)]


@pytest.mark.slow
def test_the_script_in_the_page_on_elmo_runs(tmp_path, monkeypatch, eagerly):
    pytest.importorskip("h5py", reason="ELMo's files are HDF5")
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 24)
    assert len(run_page("pretraining/elmo.md")["classifier"].scalar_mix.mix) == 3
