"""The benchmark of quality: its data and metrics, its page from made-up runs, and that no run is repeated."""

import json
import pathlib

import keras
import numpy as np
import pytest

from benchmarks import one_run
from benchmarks.fine_tuning import quality, quality_run, training
from keras_transfer.metrics import Squad

MACHINE = {"cores": 2, "processor": "x86_64", "versions": {"keras": "3.15.1"}}


def lines(dataset, contender, metric, values, wall, cpu=20.0, memory=900.0):
    """Returns a line for each value of a metric."""
    figures = {
        "training_wall": wall,
        "training_cpu": cpu,
        "memory": memory,
        "others": 0.0,
        "machine": MACHINE,
        "threads": 1,
        "epochs": quality.DATASETS[dataset].epochs[0],
    }
    return [
        {"dataset": dataset, "contender": contender, "seed": seed, "metrics": {metric: value}, **figures}
        for seed, value in enumerate(values)
    ]


def cells(page, title):
    """Returns the cells of the rows of a page that begin with a title."""
    return [
        [cell.strip() for cell in line.split("|")[2:-1]]
        for line in page.splitlines()
        if line.startswith(f"| {title} |")
    ]


def test_the_page_has_means_standard_errors_and_whether_the_difference_is_within_one():
    page = quality.report(
        [
            *lines("sst2", "keras_transfer", "accuracy", [0.88, 0.90, 0.92], 10.0),
            *lines("sst2", "transformers", "accuracy", [0.90, 0.91, 0.92], 20.0),
            *lines("cola", "keras_transfer", "matthews", [0.40, 0.40], 30.0),
            *lines("cola", "transformers", "matthews", [0.41, 0.43, 0.9], 20.0),  # Ours has no third seed.
            *lines("rte", "keras_transfer", "accuracy", [0.60], 1.0),
        ]
    )
    # The standard deviations are 2 and 1, so the errors 2 / sqrt(3) and 1 / sqrt(3), and that of the difference
    # sqrt(5 / 3).
    [figures, _] = cells(page, "SST-2, 10,000")
    assert figures == ["1", "3", "accuracy", "90.00 ± 1.15", "91.00 ± 0.58", "-1.00 ± 1.29", "yes"]
    [figures, _] = cells(page, "CoLA")
    assert figures == ["2", "2", "Matthews", "40.00 ± 0.00", "42.00 ± 1.00", "-2.00 ± 1.00", "no"]
    assert cells(page, "RTE") == []
    missing = ["RTE (epochs: 3)", "STS-B (epochs: 2)"]
    missing += [f"STS-B, embeddings{order} (epochs: 2)" for order in (", own order", ", same order")] + [
        "EWT, tags (epochs: 1)"
    ]
    missing += [
        f"SQuAD 1.1{order} (epochs: {epochs})" for order in (", own order", ", same order") for epochs in (1, 3)
    ]
    assert f"Not run yet: {'; '.join(missing)}." in page
    assert "12 runs, each on 1 of 2 cores (x86_64)" in page and "keras 3.15.1" in page


def test_the_page_has_training_times_and_the_ratio_of_their_sums():
    page = quality.report(
        [
            *lines("sst2", "keras_transfer", "accuracy", [0.5, 0.5], wall=10.0, cpu=30.0, memory=450.0),
            *lines("sst2", "transformers", "accuracy", [0.5, 0.5], wall=20.0, cpu=40.0),
            *lines("sts_b_embeddings", "keras_transfer", "spearman", [0.8], wall=30.0, cpu=50.0),
            *lines("sts_b_embeddings", "sentence_transformers", "spearman", [0.8], wall=30.0, cpu=60.0),
        ]
    )
    assert cells(page, "SST-2, 10,000")[1] == ["transformers", "10.0", "20.0", "0.50", "30.0", "40.0", "0.75", "0.50"]
    assert cells(page, "sum") == [["", "40.0", "50.0", "0.80", "80.0", "100.0", "0.80", ""]]


def test_contenders_take_turns_and_an_interrupted_series_goes_on(monkeypatch, tmp_path, capsys):
    done = []

    def measure(run, script, args):
        done.append((run["seed"], run["contender"]))
        [figures] = lines(run["dataset"], run["contender"], "accuracy", [0.5], 1.0)
        return {**figures, **run}

    monkeypatch.setattr(quality.runs, "measure", measure)
    results, table = tmp_path / "quality.jsonl", tmp_path / "quality.md"
    command = ["--data-dir", "data", "--datasets", "ewt", "--results", str(results), "--table", str(table)]
    quality.main([*command, "--seeds", "0", "1"])
    ours, theirs = "keras_transfer", "transformers"
    assert done == [(0, ours), (0, theirs), (1, theirs), (1, ours)]
    results.write_text(results.read_text()[:-9])  # The process was killed.
    done.clear()
    quality.main([*command, "--seeds", "0", "1", "2", "--seconds", "0"])
    assert done == [] and "\n3 runs, each on all of 2 cores" in table.read_text()
    quality.main([*command, "--seeds", "0", "1", "2"])
    assert done == [(1, ours), (2, ours), (2, theirs)]
    assert [json.loads(line)["seed"] for line in results.read_text().splitlines()] == [0, 0, 1, 1, 2, 2]
    assert table.read_text() in capsys.readouterr().out


def squad(value):
    """Returns runs with the order of Transformers, and those of Transformers."""
    contenders = ("keras_transfer_same_order", "transformers")
    found = [line for contender in contenders for line in lines("squad", contender, "exact_match", [value] * 2, 1.0)]
    return [{**line, "metrics": {**line["metrics"], "f1": 0.6}} for line in found]


def test_in_the_same_order_both_train_on_the_same_rows():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import keras_transfer as kt

    lengths = np.random.default_rng(0).integers(1, 9, 300)
    texts, rows = [" ".join(["a"] * length) for length in lengths], np.arange(300)
    preprocessor = kt.text.BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], sequence_length=16)
    data = quality_run.real_texts.Data((texts, rows), (), [], 16, 1e-4, False)
    seen = {"ours": [], "theirs": []}

    class Model:
        """Records the rows of all batches, which are their labels."""

        def compile(self, *args, **kwargs):
            pass

        def fit(self, train, **kwargs):
            seen["ours"] += [labels.tolist() for _, labels in (train[index] for index in range(len(train)))]

    weight = torch.nn.Linear(1, 1)

    def loss_of(batch):
        seen["theirs"].append(list(batch))
        return weight(torch.ones(1, 1)).sum()

    class Clock(one_run.Clock):
        def end_step(self):
            pass

    training.fit(
        Model(),
        lambda: kt.text.batches(texts, rows, preprocessor=preprocessor, seed=3),
        data,
        2,
        Clock(),
        make_epochs=lambda train: training.length_grouped(train.real.tolist(), 3),
    )
    training.train_torch(weight, lambda: (loss_of, (lengths + 2).tolist()), data, 2, 3, Clock())
    assert seen["ours"] == seen["theirs"] and len(seen["ours"]) == 2 * 10
    assert seen["ours"][:10] != seen["ours"][10:]  # Each epoch has its own order.
    assert all(sorted(np.concatenate(epoch)) == rows.tolist() for epoch in (seen["ours"][:10], seen["ours"][10:]))


def test_metrics_are_fractions_of_one(monkeypatch):
    # The script runs the file of the metric, which registers another class.
    monkeypatch.setitem(keras.saving.get_custom_objects(), "keras_transfer>Squad", Squad)
    logits = [np.array(row) for row in ([2.0, 1.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0])]  # 0, 1, 1, 0
    assert quality_run.scores("sst2", [0, 1, 0, 0], logits) == {"accuracy": 0.75}
    assert quality_run.scores("cola", [0, 1, 0, 0], logits)["matthews"] == pytest.approx(1 / np.sqrt(3))
    scores = quality_run.scores("sts_b", [1.0, 2.0, 4.0], np.array([[0.0], [1.0], [3.0]]))
    assert scores == {"pearson": pytest.approx(1.0), "spearman": pytest.approx(1.0)}
    answers = [[("the Nile", 4), ("Nile", 8)], [("in 1999", 0)]]
    assert quality_run.scores("squad", answers, ["Nile", "1999"]) == {"exact_match": 0.5, "f1": pytest.approx(5 / 6)}


def test_words_without_a_prediction_count_as_wrong():
    sentence = np.eye(3)[[2, 0]]  # The third word was truncated.
    assert quality_run.scores("ewt", [[2, 0, 1], [1]], [sentence, np.eye(3)[[1]]]) == {"accuracy": 0.75}


def test_no_article_of_squad_is_in_both_parts(tmp_path):
    (tmp_path / "squad1.1").mkdir()
    question = {"question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}]}
    articles = [{"paragraphs": [{"context": f"Ann ran {i} times.", "qas": [question] * 2}]} for i in range(12)]
    (tmp_path / "squad1.1" / "dev-v1.1.json").write_text(json.dumps({"data": articles}))
    data = quality_run.real_texts.read("squad", tmp_path)
    (_, train), _ = data.train
    (questions, test), answers = data.test
    assert len(train) == 4 and len(test) == 20 and not set(train) & set(test)
    assert (questions[0], answers[0]) == ("Who?", [("Ann", 0)])


def test_the_page_begins_with_the_introduction_that_the_script_writes():
    page = (pathlib.Path(quality.__file__).parents[2] / "docs" / "benchmarks" / "quality.md").read_text("utf-8")
    assert page.startswith(quality.INTRODUCTION) and quality.TIMES_INTRODUCTION in page
