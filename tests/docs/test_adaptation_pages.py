"""The code of the pages in `docs/adaptation` runs."""

import numpy as np
import pytest

import keras_transfer as kt
from tests.pages import few_questions, run_page

# What is certain about the variables of a page after its script has run.
PAGES = {
    "adaptation/index": lambda names: len(names["history"].epoch) == 34,  # 100 updates, of which an epoch has 3
    "adaptation/recipes": lambda names: names["chosen"].epochs == 34,
    "adaptation/freezing": lambda names: kt.adaptation.layer_groups(names["model"])[0].trainable_parameters == 0,
    "adaptation/unfreezing": lambda names: [step for step, _ in names["unfreezing"].schedule] == [0, 2, 4, 6],
    "adaptation/learning_rates": lambda names: names["optimizer"].rates["head"] == 10.0,
    "adaptation/regularization": lambda names: names["second"].optimizer.penalty.strength == 1e5,
    "adaptation/cached_features": lambda names: len(names["cached"]) == len(names["vectors"]) == 3,
    "adaptation/distillation": lambda names: len(names["history"].epoch) == 20,
    "adaptation/static_embeddings": lambda names: names["trained"].encoder.hidden_dim == 128,
    "adaptation/slices": lambda names: names["model"].slices == ["how", "no question word"],
    "adaptation/resuming": lambda names: names["model"].history.epoch == [2],
    "adaptation/ensembles": lambda names: names["adapted"].encoder.adapters["combined"][0].rank == 8,
    "adaptation/several_adapters": lambda names: list(names["topics"].encoder.adapters) == ["topics", "persons"],
}
SIX_BLOCKS = {
    "adaptation/freezing",
    "adaptation/unfreezing",
    "adaptation/cached_features",
    "adaptation/distillation",
}  # name upper blocks
WIDE = {"adaptation/static_embeddings"}  # Its vectors are wider than those of the small encoder.


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_script_in_a_page_runs(page, tmp_path, monkeypatch, request, eagerly):
    small = "six_small_blocks" if page in SIX_BLOCKS else "two_blocks" if page in WIDE else "small_minilm"
    request.getfixturevalue(small)
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    assert PAGES[page](run_page(f"{page}.md"))


@pytest.mark.slow
def test_the_script_in_the_page_on_pruning_runs(tmp_path, monkeypatch, six_small_blocks, eagerly):
    def shorter(
        sparsity, begin_step=0, end_step=1, frequency=10
    ):  # An eighth of the questions has a sixth of the steps.
        return pruning(sparsity, begin_step // 6, max(end_step // 6, 1), frequency)

    pruning = kt.adaptation.WeightPruning
    monkeypatch.setattr(kt.adaptation, "WeightPruning", shorter)
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("adaptation/pruning.md")
    assert names["small"].encoder.head_dim == names["every_second"].encoder.hidden_dim // 2  # It had two heads.


@pytest.mark.slow
def test_the_script_in_the_page_on_unlabeled_text_runs(monkeypatch, small_minilm, eagerly):
    def of_all(probabilities, threshold, balanced):
        return np.arange(len(probabilities)), probabilities.argmax(axis=1)  # The small model is never sure.

    monkeypatch.setattr(kt.adaptation.self_training, "confident", of_all)
    few_questions(monkeypatch, 8)
    names = run_page("adaptation/unlabeled_text.md")
    assert len(names["accuracies"]) == 2 and "unlabeled_loss" in names["history"].history


@pytest.mark.docs
def test_the_script_in_the_page_on_adapters_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("adaptation/adapters.md")
    assert [kind.rank for kind in names["writer"].encoder.adapters["default"]] == [4]


@pytest.mark.slow
def test_the_script_in_the_page_on_comparing_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("adaptation/compare.md")
    assert [row["seeds"] for row in names["comparison"].rows] == [3, 3, 3]
    assert (tmp_path / "methods.jsonl").read_text().count("\n") == 1 + 4 + 3 + 3


@pytest.mark.slow
def test_the_script_in_the_page_on_transfer_between_tasks_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    names = run_page("adaptation/transfer_between_tasks.md")
    assert [pair[:2] for pair in names["matrix"].pairs] == [("kind", "who"), ("who", "kind")]
    assert [row["method"] for row in names["found"].rows] == names["methods"]
    assert names["found"].rows[-1]["forgetting"] == 0


@pytest.mark.slow
def test_the_script_in_the_page_on_searching_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    pytest.importorskip("keras_tuner", reason="needs KerasTuner: pip install keras-tuner")
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 8)
    assert len(run_page("adaptation/search.md")["tuner"].oracle.trials) == 2
