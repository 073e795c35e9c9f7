"""The code of the pages in `docs/models` runs."""

import shutil

import pytest

from tests.hub import saved_modules as modules
from tests.hub.saved_modules import save_preprocessing_module
from tests.hub.tf1 import tf1_modules
from tests.pages import few_questions, run_page


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["models/loading", "models/saving", "models/keras_hub", "models/own_encoder", "models/own_task"]
)
def test_the_script_in_a_page_on_models_runs(page, tmp_path, monkeypatch, small_minilm):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 3)
    model = run_page(f"{page}.md")["model"]
    assert model.predict(["Who wrote Hamlet?"], verbose=0) is not None


def test_the_script_in_the_page_on_model_cards_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 12)
    run_page("models/cards.md")
    assert "| accuracy | " in (tmp_path / "questions" / "README.md").read_text("utf-8")


@pytest.mark.slow
def test_the_script_in_the_page_on_modules_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text_module = modules.save_text_module(tmp_path / "sentence_encoder")
    shutil.copytree(text_module, tmp_path / "elsewhere" / "sentence_encoder")
    modules.save_bert_module(tmp_path / "bert")
    save_preprocessing_module(tmp_path / "bert_preprocess")
    (tmp_path / "elmo").symlink_to(tf1_modules.folder("elmo"))
    few_questions(monkeypatch, 12)
    names = run_page("models/hub.md")
    assert [group.name for group in names["groups"]] == ["lower", "upper"]
    assert [weight.trainable for group in names["groups"] for weight in group.variables] == [False] * 3 + [True] * 2
    assert (tmp_path / "served" / "saved_model.pb").exists()


def test_the_script_in_the_page_on_tokenizers_runs(tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(tmp_path)
    names = run_page("models/tokenizers.md")
    assert names["preprocessor"].detokenize(names["inputs"]["token_ids"]).numpy().tolist() == [b"Who wrote Hamlet?"]
