"""The code of the pages in `docs/models` runs."""

import shutil

import pytest

import keras_transfer as kt
from tests.hub import saved_modules as modules
from tests.hub import tf1_modules
from tests.hub.saved_modules import save_preprocessing_module
from tests.pages import few_questions, run_page

# What is certain about the variables of a page after its script has run.
PAGES = {
    "models/loading": lambda names: names["other"].label_names == ["easy", "hard"] != names["again"].label_names,
    "models/saving": lambda names: names["loaded"].optimizer.iterations == 12,  # two epochs of six batches
    "models/keras_hub": lambda names: logits(names["loaded"]) == pytest.approx(logits(names["model"]), abs=1e-5),
    "models/own_encoder": lambda names: len(kt.adaptation.layer_groups(names["mixed"])) == 1 + 3 + 1,
    "models/own_task": lambda names: (
        names["loaded"].dropout == 0.1 and [len(part) for part in names["answers"].values()] == [1, 1]
    ),
    "development/adding_a_task": lambda names: (
        len(names["found"]["label"]) == 2 and [len(scores) for scores in names["scores"]] == [2, 3]
    ),
}


def logits(model):
    return model.predict(["Who wrote Hamlet?"], verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_script_in_a_page_on_models_runs(page, tmp_path, monkeypatch, small_minilm):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 3)
    assert PAGES[page](run_page(f"{page}.md"))


@pytest.mark.docs
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


@pytest.mark.docs
def test_the_script_in_the_page_on_tokenizers_runs(tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(tmp_path)
    names = run_page("models/tokenizers.md")
    assert names["preprocessor"].detokenize(names["inputs"]["token_ids"]).numpy().tolist() == [b"Who wrote Hamlet?"]
