"""The command `keras-transfer` does the main task, and checks its arguments before it starts."""

import contextlib
import importlib
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys
import types

import pytest

from keras_transfer.adaptation.recipe import RECIPES
from keras_transfer.cli import predictions
from keras_transfer.cli.quickstart import QUESTIONS
from keras_transfer.datasets import load_demo_questions, load_trec6
from keras_transfer.version import __version__
from keras_transfer_command import import_backend, main

LABELS = ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]
ROOT = pathlib.Path(__file__).parents[2]


def run(*arguments, stderr=subprocess.PIPE):
    """Runs the console script without a log level for TensorFlow in the environment."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    line = [sys.executable, "-m", "keras_transfer_command", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)


@pytest.mark.slow
def test_quickstart_trains_reports_and_exports_and_classify_asks_the_model(tmp_path, minilm, capsys):
    options = ("--output", tmp_path / "model", "--epochs", 3, "--seed", 1, "--batch-size", 48)
    first = run("quickstart", *options, stderr=subprocess.STDOUT)
    assert first.returncode == 0, first.stdout
    assert first.stdout.startswith("576 questions for training, 144 held out, ")
    assert not [line for line in first.stdout.splitlines() if "absl" in line or "oneDNN" in line or "cuda" in line]
    assert "Epoch 3/3" in first.stdout and "12/12" in first.stdout
    accuracy = float(re.search(r"^accuracy +([\d.]+) ", first.stdout, re.MULTILINE)[1])
    assert accuracy > 0.8
    assert "<svg" in (tmp_path / "model" / "report.html").read_text("utf-8")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "README.md",
        "model.keras",
        "report.html",
        "served",
    ]
    for label in LABELS:
        assert f"\n{label} " in first.stdout
    for question in QUESTIONS:
        assert question in first.stdout

    questions = ["Who wrote Faust?", "Where is Timbuktu?"]
    second = run("classify", tmp_path / "model", *questions, stderr=subprocess.STDOUT)
    assert second.returncode == 0, second.stdout
    assert main(["classify", str(tmp_path / "model" / "served"), *questions]) == 0
    for printed in (second.stdout, capsys.readouterr().out):
        assert [line.split()[0] for line in printed.splitlines()] == ["HUM", "LOC"]


@pytest.mark.slow
def test_quickstart_uses_the_given_recipe_reports_exports_and_asks_the_model(tmp_path, small_minilm, capsys):
    model = str(tmp_path / "model")
    options = ["--recipe", "scalar_mix", "--epochs", "1", "--batch-size", "64", "--output", model]
    assert main(["quickstart", *options]) == 0
    printed = capsys.readouterr().out
    expected = "1 epoch, learning rate 0.01, batch size 64, weight_decay=0, frozen='pretrained', scalar_mix=True\n"
    assert f"\nRecipe 'scalar_mix' for minilm-l6: {expected}" in printed
    assert "9/9" in printed and "Held-out questions: 144 rows, 6 classes, " in printed
    page = pathlib.Path(model, "report.html")
    assert f"The report is in {page}, and the model in {model}" in printed and page.exists()
    for name in [*(f"\n{label} " for label in LABELS), *QUESTIONS]:
        assert name in printed
    assert main(["classify", model, "Who wrote Faust?", "Where is Timbuktu?"]) == 0
    answers = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [answer[2:] for answer in answers] == [["Who", "wrote", "Faust?"], ["Where", "is", "Timbuktu?"]]
    assert {answer[0] for answer in answers} <= set(LABELS)


UNLABELED = {"dapt", "tapt", "ulmfit_lm", "electra", "gpt", "roberta"}  # for tasks without labels


@pytest.mark.report(
    "The help of a command takes seconds, because it imports everything.",
    "transformers#16863",
    "transformers#44273",
    "transformers#45599",
    "Annif#514",
    "tensorflow#47833",
)
def test_help_imports_nothing_slow_and_lists_the_recipes():
    script = (
        "import json, sys, keras_transfer_command\n"
        "sys.argv[1:] = ['quickstart', '--help']\n"
        "try: keras_transfer_command.main()\n"
        "finally: print(json.dumps(sorted({'keras', 'tensorflow', 'numpy'} & set(sys.modules))))"
    )
    child = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    assert "usage: keras-transfer quickstart" in child.stdout and set(RECIPES) - UNLABELED <= set(child.stdout.split())
    assert json.loads(child.stdout.splitlines()[-1]) == []


def test_output_during_the_import_of_tensorflow_is_shown_only_if_the_import_fails(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    monkeypatch.syspath_prepend(tmp_path)
    for ending, shown in (("", ""), ("raise ImportError", "why")):
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
        (tmp_path / "tensorflow.py").write_text(f"import os\nos.write(2, b'why')\n{ending}")
        importlib.invalidate_caches()
        with pytest.raises(ImportError) if ending else contextlib.nullcontext():
            import_backend()
        assert capfd.readouterr().err == shown


def test_output_is_not_redirected_if_tensorflow_is_already_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    monkeypatch.setattr(os, "dup", None)
    import_backend()


def test_no_dataset_contains_the_five_questions(data_dir):
    assert len(QUESTIONS) == 5
    for data in (load_demo_questions(), load_trec6(data_dir("trec6"))):
        known = {text.lower().replace(" ", "") for part in (data.train, data.test) for text in part.texts}
        assert not {text.lower().replace(" ", "") for text in QUESTIONS} & known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quickstart", "--output", "."], "The folder exists. Choose another one or pass `--overwrite`"),
        (["quickstart", "--output", "new", "--dataset", "trec6"], "requires `--data-dir`"),
        (["quickstart", "--output", "new", "--data-dir", "."], "only with `--dataset trec6`"),
        (["quickstart", "--output", "/dev/null/new"], "The parents of a folder must be folders"),
        (["quickstart", "--output", "gs://bucket/new"], "must be local"),
        (["quickstart", "--output", "..", "--overwrite"], "must have a name. Pass its path"),
        (
            ["quickstart", "--output", "new", "--dataset", "trec6", "--data-dir", "nowhere"],
            "Received: nowhere with no such folder",
        ),
        (["classify", "nowhere", "Who?"], "The model does not exist. Received: nowhere"),
        (["classify", ".", "Who?"], "or an exported model. Received: ., without model.keras"),
        (["export", ".", "--output", "new"], "`keras-transfer quickstart` wrote. Received: ., without model.keras"),
    ],
)
def test_a_mistake_prints_one_line_and_writes_no_files(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian", "--data", "a.csv"], "Did you mean 'train'?"),
        (["train", "--data", "a.csv", "--task", "classify"], "Did you mean 'classification'?"),
        (["train", "--data", "a.csv", "--validation", "b.csv"], "Did you mean '--validation-data'?"),
        (["train", "--data", "a.csv", "--recipe", "birt"], "Did you mean 'bert'?"),
        (["train", "--data", "a.csv", "--text_column", "a"], "--text_column a. Did you mean '--text-column'?"),
        (["train", "--data", "a.csv", "--epoch", "3"], "--epoch 3. Did you mean '--epochs'?"),
        (["train", "--data", "a.csv", "--lr", "3"], "--lr 3. Did you mean '--learning-rate'?"),
        (["train", "--data", "a.csv", "--epochs", "0"], "--epochs: must be an integer of at least 1. Received: 0"),
        (["train", "--data", "a.csv", "--learning-rate", "nan"], "must be positive and finite. Received: nan"),
        (["pretrain", "--corpus", "a", "--vocabulary-size", "9"], "must be an integer of at least 300. Received: 9"),
        (["pretrain", "--corpus", "a", "--epochs", "1", "--steps", "1"], "not allowed with argument --epochs"),
        (["pretrain", "--corpus", "a", "--size", "tiny", "--encoder", "b"], "not allowed with argument --size"),
    ],
)
def test_a_mistake_in_the_options_is_an_error_that_suggests_the_right_one(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--data", "a.csv", "--markdown", "none/a.md"], "existing folder. Received: --markdown=none/a.md"),
        (["compare", "--data", "a.csv", "--results", "a.csv/runs"], "existing folder. Received: --results=a.csv/runs"),
        (["compare", "--data", "a.csv", "--encoder", "bert-base-uncased"], "Did you mean 'hf://bert-base-uncased'?"),
        (["evaluate", "a.keras", "--data", "a.csv", "--report", "a.csv/a.html"], "Received: --report=a.csv/a.html"),
        (["info", "none"], "There is no such folder. Did you mean 'hf://none'?"),
    ],
)
def test_what_cannot_be_read_or_written_is_an_error(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text,label\n" + "a,b\nc,d\n" * 5)
    assert main(arguments) == 1
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_the_package_as_a_module_is_the_same_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["keras_transfer", "--version"])
    with pytest.raises(SystemExit, match="^0$"):
        runpy.run_module("keras_transfer", run_name="__main__")  # `python -m keras_transfer`, in this process
    assert capsys.readouterr().out == run("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize("unexpected", [False, True])
def test_an_error_keeps_its_lines_names_options_and_is_no_traceback(unexpected, monkeypatch, capsys):
    def fail(*arguments):
        raise (RuntimeError if unexpected else ValueError)("`slice_words` and `other_words`:\n  a\n  b")

    monkeypatch.setattr(predictions, "open_model", fail)
    line = ["evaluate", "model.keras", "--data", "a.csv"]
    assert main(line) == 1
    before, after = ("RuntimeError: ", "\nTo see where it occurred, pass --traceback.") if unexpected else ("", "")
    message = f"{before}`--slice-words` and `other_words`:\n  a\n  b{after}"
    assert capsys.readouterr().err == f"keras-transfer evaluate: error: {message}\n"
    with pytest.raises((RuntimeError, ValueError)):
        main([*line, "--traceback"])
