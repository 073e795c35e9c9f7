"""The code of the pages in `docs/pretraining` runs."""

import numpy as np
import pytest

import keras_transfer as kt
from tests.pages import few_questions, run_page


def test_the_script_in_the_page_on_pretraining_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    assert run_page("pretraining/objectives.md")["classifier"].compiled


def test_the_script_in_the_page_on_pretraining_from_scratch_runs(tmp_path, monkeypatch, eagerly):
    monkeypatch.chdir(tmp_path)
    assert run_page("pretraining/from_scratch.md")["classifier"].encoder.num_layers == 2


def test_the_script_in_the_page_on_ulmfit_runs(tmp_path, monkeypatch, eagerly):
    monkeypatch.chdir(tmp_path)
    assert run_page("pretraining/ulmfit.md")["both"].shape == (12, 6)


@pytest.mark.slow
def test_the_script_in_the_page_on_word_vectors_runs(tmp_path, monkeypatch, eagerly):
    monkeypatch.chdir(tmp_path)
    whole = few_questions(monkeypatch, 2)
    words = {word for row in kt.text.WordPreprocessor().words(whole.train.texts) for word in row}
    words = sorted(words | {"film", "man", "king", "woman"})
    kt.checkpoints.WordVectors(words, np.random.default_rng(0).normal(size=(len(words), 8))).save("vectors.txt")
    assert run_page("pretraining/word_vectors.md")["vectors"].coverage.missing == []


@pytest.mark.slow
def test_the_script_in_the_page_on_elmo_runs(tmp_path, monkeypatch, eagerly):
    pytest.importorskip("h5py", reason="ELMo's files are HDF5")
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 2)
    sizes = {"embedding_dim": 4, "filters": [(1, 4), (2, 8)], "projection_dim": 8, "units": 16}
    kt.encoders.ElmoEncoder(**sizes).save_pretrained(tmp_path / "elmo")
    assert run_page("pretraining/elmo.md")["model"].compiled is False


@pytest.mark.slow
def test_the_script_in_the_page_on_recurrent_layers_runs(tmp_path, monkeypatch, eagerly):
    monkeypatch.chdir(tmp_path)
    assert run_page("pretraining/recurrent.md")["losses"].shape == (2, 6)
