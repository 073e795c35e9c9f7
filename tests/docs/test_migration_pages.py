"""The scripts in `docs/migration` run: what a user of another library writes here."""

import pytest

from tests.pages import few_questions, run_page


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    ["migration/transformers", "migration/keras_hub", "migration/fastai", "migration/allennlp", "migration/peft"],
)
def test_the_script_for_users_of_another_library_trains_a_classifier(page, tmp_path, monkeypatch, eagerly, request):
    request.getfixturevalue("six_small_blocks" if page.endswith(("fastai", "allennlp")) else "small_minilm")
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page(f"{page}.md")
    assert names["model"].predict_labels(["Who wrote Hamlet?"])[0] in names["data"].label_names
    assert page.split("/")[1] not in ("transformers", "peft") or list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_script_for_users_of_sentence_transformers_searches(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    names = run_page("migration/sentence_transformers.md")
    assert names["vectors"].shape == (144, 8) and len(names["rows"][0]) == 3


@pytest.mark.docs
def test_the_script_for_users_of_tensorflow_hub_trains_a_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 4)
    assert len(run_page("migration/hub.md")["layer"].trainable_variables) == 1
