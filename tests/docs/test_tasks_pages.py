"""The code of the pages in `docs/tasks` runs."""

import pytest

from tests.pages import few_questions, run_page


@pytest.mark.slow
def test_the_script_in_the_guide_to_translation_learns_to_translate():
    pytest.importorskip("sacrebleu", reason="computes chrF: pip install sacrebleu")
    assert run_page("tasks/translation.md")["right"] > 0.9


@pytest.mark.slow
def test_the_script_in_the_guide_to_summarization_learns_to_summarize(traced):
    pytest.importorskip("rouge_score", reason="computes ROUGE: pip install rouge-score")
    assert run_page("tasks/summarization.md")["right"] > 0.9


@pytest.mark.slow
def test_the_script_in_the_guide_to_text_to_text_learns_both_tasks(traced):
    names = run_page("tasks/text_to_text.md")
    assert names["scores"]["classify"]["exact_match"] > 40 and names["scores"]["question"]["exact_match"] > 90


@pytest.mark.docs
def test_the_script_in_the_page_on_classification_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("tasks/classification.md")
    assert len(names["history"].history["accuracy"]) == 4 and names["again"].label_names == names["model"].label_names


@pytest.mark.slow
def test_the_script_in_the_page_on_several_tasks_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 8)
    names = run_page("tasks/several_tasks.md")
    assert [*names["model"].encoder.adapters] == ["topic", "masked"]


@pytest.mark.slow
def test_the_script_in_the_page_on_several_labels_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 8, "train")
    names = run_page("tasks/multi_label.md")
    assert names["model"].label_names == ["ABBR", "ENTY", "HUM", "LOC", "NAME", "NUM"]


@pytest.mark.slow
def test_the_script_in_the_page_on_regression_and_pairs_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 8)
    names = run_page("tasks/regression_and_pairs.md")
    assert names["model"].fitted_on == "pairs" and names["found"].shape == (3,)


@pytest.mark.slow
def test_the_script_in_the_page_on_tagging_finds_names(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    names = run_page("tasks/tagging.md")
    assert set(names["report"]) >= {"PER", "LOC", "micro"}
    sentence = ["Grace Hopper flew to Paris."]
    assert names["loaded"].predict_words(sentence) == names["tagger"].predict_words(sentence)
    assert (tmp_path / "served" / "saved_model.pb").exists()


@pytest.mark.slow
def test_the_script_in_the_page_on_embeddings_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("tasks/embeddings.md")
    assert len(names["vectors"]) == len(names["corpus"]) == 72
    assert (tmp_path / "served" / "1" / "saved_model.pb").exists()


@pytest.mark.slow
def test_the_script_in_the_page_on_few_labels_runs(monkeypatch, small_minilm, eagerly):
    few_questions(monkeypatch, 6, "test")
    names = run_page("tasks/few_labels.md")
    assert len(names["texts"]) == 48 and names["nearest"].shape == (24, 1)


@pytest.mark.slow
def test_the_script_in_the_page_on_questions_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    names = run_page("tasks/questions.md")
    assert names["scores"]["total"] == 100
    assert (tmp_path / "served" / "questions" / "saved_model.pb").exists()


@pytest.mark.slow
def test_the_script_in_the_page_on_multiple_choice_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("tasks/multiple_choice.md")
    assert [len(row) for row in names["train"][0][1]] == [4] * 36


@pytest.mark.slow
def test_the_script_in_the_page_on_dialogue_learns_to_find_replies(traced):
    names = run_page("tasks/dialogue.md")
    assert names["model"].evaluate(names["test"], verbose=0, return_dict=True)["hits_at_1"] > 0.5


@pytest.mark.slow
def test_the_script_in_the_page_on_generation_runs(monkeypatch, eagerly):
    few_questions(monkeypatch, 12)
    names = run_page("tasks/generation.md")
    assert names["scores"].perplexity_per_word > 1 and set(names["found"]) <= set(names["kinds"])


@pytest.mark.slow
def test_the_script_in_the_page_on_encoder_decoders_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    names = run_page("tasks/sequence_to_sequence.md")
    assert len(names["history"].history["val_exact_match"]) == 2 and (tmp_path / "best.weights.h5").is_file()
