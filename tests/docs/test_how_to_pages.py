"""The scripts of the short pages in `docs/how_to` run."""

import pytest

import keras_transfer as kt
from tests.pages import few_questions, run_page

# What each page leaves in its variables.
PAGES = {
    "how_to/continue_training": lambda names: names["model"].optimizer.iterations == 4,  # two epochs of two batches
    "how_to/dataframe": lambda names: set(names["frame"]["predicted"]) <= set(names["model"].label_names),
    "how_to/freeze_lower_half": lambda names: all(  # The page ends with `unfreeze`.
        group.trainable_parameters == group.parameters for group in kt.adaptation.layer_groups(names["model"])
    ),
    "how_to/imbalanced_classes": lambda names: len(names["report"].classes) == 6,
    "how_to/noisy_labels": lambda names: len(names["wrong"]) == 30,
    "how_to/pairs_of_texts": lambda names: names["model"].fitted_on == "pairs",
    "how_to/pandas_and_datasets": lambda names: len(names["train"].texts) > len(names["validation"].texts) > 0,
    "how_to/rate_for_the_head": lambda names: names["optimizer"].rates["head"] == 10.0,
    "how_to/serve_with_curl": lambda names: "text" in names["answer"].structured_input_signature[1],
}
STEPS = {"how_to/continue_training": 3, "how_to/imbalanced_classes": 4}  # need more questions


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_script_of_a_how_to_page_runs(page, tmp_path, monkeypatch, eagerly, request):
    request.getfixturevalue("six_small_blocks" if page.endswith("lower_half") else "small_minilm")
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, STEPS.get(page, 8))
    assert PAGES[page](run_page(f"{page}.md"))


@pytest.mark.slow
def test_the_script_on_long_texts_reads_windows(tmp_path, monkeypatch, small_minilm, eagerly):
    assert run_page("how_to/long_texts.md")["model"].reader.preprocessor.overlap == 126 // 4


@pytest.mark.docs
def test_the_script_on_working_offline_loads_a_folder(tmp_path, monkeypatch, small_minilm):
    monkeypatch.chdir(tmp_path)
    assert run_page("how_to/run_offline.md")["model"].num_classes == 6
    assert (tmp_path / "encoders" / "minilm" / "config.json").exists()


@pytest.mark.docs
def test_the_script_on_errors_shows_five_of_them(small_minilm, eagerly, capsys):
    run_page("how_to/read_an_error.md")
    shown = capsys.readouterr().out
    assert shown.count("Error: ") == 5 and shown.count("Received: ") == 5
