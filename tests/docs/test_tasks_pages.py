"""The code of the pages in `docs/tasks` runs."""

import pytest

from tests.pages import run_page


@pytest.mark.slow
def test_the_script_in_the_guide_to_translation_learns_to_translate(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="draws cross-attention: pip install 'keras_transfer[plots]'")
    pytest.importorskip("sacrebleu", reason="computes chrF: pip install sacrebleu")
    monkeypatch.chdir(tmp_path)
    names = run_page("tasks/translation.md")
    assert names["right"] > 0.9 and (tmp_path / "cross_attention.png").exists()


@pytest.mark.slow
def test_the_script_in_the_guide_to_summarization_learns_to_summarize():
    pytest.importorskip("rouge_score", reason="computes ROUGE: pip install rouge-score")
    assert run_page("tasks/summarization.md")["right"] > 0.9


@pytest.mark.slow
def test_the_script_in_the_guide_to_text_to_text_learns_both_tasks():
    names = run_page("tasks/text_to_text.md")
    assert names["scores"]["classify"]["exact_match"] > 40 and names["scores"]["question"]["exact_match"] > 90


def test_the_script_in_the_page_on_classification_runs(small_minilm, eagerly):
    names = run_page("tasks/classification.md")
    assert names["tagged"].label_names == ["film", "fun"] and names["found"].temperature > 0


@pytest.mark.slow
def test_the_script_in_the_page_on_embeddings_runs(tmp_path, monkeypatch, two_blocks, eagerly):
    monkeypatch.chdir(tmp_path)
    names = run_page("tasks/embeddings.md")
    assert names["corpus"][0].startswith("A man") and names["vectors"].shape == (3, 384)
    assert (tmp_path / "served" / "1" / "saved_model.pb").exists()


@pytest.mark.slow
def test_the_script_in_the_page_on_questions_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    run_page("tasks/questions.md")
    assert (tmp_path / "served" / "questions" / "saved_model.pb").exists()


@pytest.mark.slow
def test_the_script_in_the_page_on_tagging_runs(tmp_path, monkeypatch, two_blocks, eagerly):
    monkeypatch.chdir(tmp_path)
    names = run_page("tasks/tagging.md")
    assert names["report"]["micro"]["f1"] == 1.0
    assert (tmp_path / "served" / "saved_model.pb").exists()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["tasks/multiple_choice", "tasks/dialogue", "scale/tpu", "scale/many_machines"])
def test_the_script_in_the_page_on_a_task_runs(page, tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    assert run_page(f"{page}.md")["model"].compiled


@pytest.mark.slow
def test_the_script_in_the_page_on_generation_runs(tmp_path, monkeypatch, capsys, eagerly):
    monkeypatch.chdir(tmp_path)
    names = run_page("tasks/generation.md")
    assert names["scores"].perplexity_per_word > 1
    assert set(capsys.readouterr().out.split()) <= set(names["words"])
    assert len(names["history"].history["val_chrf"]) == 2 and (tmp_path / "best.weights.h5").is_file()
