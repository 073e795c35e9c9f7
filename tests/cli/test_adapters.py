"""`info` names the adapters of a model and of its export, and `classify`, `predict` and `evaluate` choose one."""

import csv
import json
import shlex
import shutil

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import add_adapters
from keras_transfer.serving import export
from keras_transfer.serving.formats.savedmodel import FACTS_FILE
from keras_transfer.tasks import TextClassifier
from keras_transfer_command import main
from tests.samples import REFERENCES
from tests.tasks.tiny import encoder, preprocessor

OLD = REFERENCES / "saved" / "0.2" / "served.zip"
BIASES = {"acme": [3.0, 0.0], "globex": [0.0, 3.0]}  # What the head of each adapter prefers.
EXPECTED = {"acme": "no", "globex": "yes"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with `model.keras`, which has two adapters, its export `served`, and an `earlier` one without facts."""
    folder = tmp_path_factory.mktemp("adapters")
    keras.utils.set_random_seed(0)
    model = TextClassifier(encoder(), preprocessor(), label_names=["no", "yes"])
    for name, bias in BIASES.items():
        add_adapters(model, "lora:r=2", name=name)
        model.get_layer("logits").bias.assign(np.array(bias))
    model.save(folder / "model.keras")
    export(model, folder / "served", adapters=[*BIASES], verbose=0)
    shutil.copytree(folder / "served", folder / "earlier")
    (folder / "earlier" / FACTS_FILE).unlink()
    return folder


@pytest.fixture
def run(models, monkeypatch, capsys):
    """A function that runs the command in the folder of the models, and returns its status, output and errors."""
    monkeypatch.chdir(models)

    def run(*arguments):
        status = main([*arguments])
        return status, *capsys.readouterr()

    return run


def rows_of(printed):
    return {name: value.strip() for name, value in (line.strip().split("  ", 1) for line in printed.splitlines()[1:])}


def test_info_names_adapters_and_signatures_and_the_command_in_it_works(run):
    status, printed, _ = run("info", "served")
    rows = rows_of(printed)
    assert rows["signature serving_default"] == "adapter, text -> label, label_id, probabilities"
    assert rows["signature embed"] == "adapter, text -> embedding"
    assert (rows["task"], rows["adapters"]) == ("TextClassifier", "['acme', 'globex']")
    _, line, _ = rows["kind"].split("`")
    assert line == 'keras-transfer classify served --adapter acme "TEXT"'
    status, printed, _ = run(*shlex.split(line)[1:])
    assert status == 0 and printed.split()[0] == "no"


def test_info_names_the_adapters_of_a_model_file(run):
    _, printed, _ = run("info", "model.keras")
    assert rows_of(printed)["adapters"] == "['acme', 'globex'], of which ['globex'] is active"


@pytest.mark.parametrize("model", ["served", "earlier", "model.keras"])
def test_the_named_adapter_answers(model, run, tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na good,no\nbad,no\n")
    for name, label in EXPECTED.items():
        assert run("classify", model, "bad", "--adapter", name)[1].split()[0] == label
    name, label = "acme", "no"
    line = ["predict", model, "--data", str(tmp_path / "a.csv"), "--adapter", name]
    assert run(*line, "--output", str(tmp_path / "b.csv"))[0] == 0
    with open(tmp_path / "b.csv", newline="") as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == [label] * 2


def test_a_model_file_answers_with_its_active_adapters_by_default(run):
    assert run("classify", "model.keras", "bad")[1].split()[0] == EXPECTED["globex"]


def test_an_export_is_evaluated_with_the_named_adapter(run, tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na good,yes\nbad,yes\n")
    status, printed, _ = run("evaluate", "served", "--data", str(tmp_path / "a.csv"), "--adapter", "globex")
    assert status == 0 and "2 predictions are right" in printed


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (
            "served",
            [],
            "The model has several adapters. Pass `--adapter` with the name of one of them, ['acme', 'globex']. "
            "Received: served",
        ),
        (
            "served",
            ["--adapter", "glob"],
            "`--adapter` must be one of ('acme', 'globex'). Did you mean 'globex'? Received: adapter='glob'",
        ),
        (
            "model.keras",
            ["--adapter", "acm"],
            "Unknown adapters. Expected some of ['acme', 'globex']. Did you mean 'acme'? Received: name='acm'",
        ),
    ],
)
def test_a_wrong_name_is_one_line_that_lists_the_names(model, arguments, message, run):
    status, printed, error = run("classify", model, "a", *arguments)
    assert (status, printed, len(error.splitlines())) == (1, "", 1) and message in error


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_other_commands_need_the_name_of_an_adapter_too(command, run, models):
    (models / "a.csv").write_text("text,label\na,no\n")
    status, printed, error = run(command, "served", "--data", "a.csv")
    assert (status, printed) == (1, "") and "The model has several adapters." in error


def test_an_export_that_does_not_list_its_adapters_needs_a_name_too(run):
    assert "The model has several adapters. Pass `--adapter`" in run("classify", "earlier", "a")[2]


def test_an_export_of_an_earlier_version_is_described_and_asked(run, tmp_path):
    shutil.unpack_archive(OLD, tmp_path)
    rows = rows_of(run("info", str(tmp_path))[1])
    assert rows["labels"] == "['x', 'y']" and "adapters" not in rows
    _, line, _ = rows["kind"].split("`")
    status, printed, _ = run(*shlex.split(line)[1:])
    assert status == 0 and printed.split()[0] in ("x", "y")
    assert "has no adapters to choose from" in run("classify", str(tmp_path), "a", "--adapter", "acme")[2]


def test_the_command_exports_several_adapters_and_prints_how_to_ask_them(run, tmp_path):
    line = ["export", "model.keras", "--output"]
    status, printed, _ = run(*line, str(tmp_path / "active"))
    assert status == 0 and "adapters ['globex'], the active ones of ['acme', 'globex']. With `--adapters`" in printed
    status, printed, _ = run(*line, str(tmp_path / "both"), "--adapters", "globex", "acme")
    assert status == 0 and "\n  serving_default: adapter, text\n" in printed and "the active ones" not in printed
    line = shlex.split(printed.splitlines()[-1])
    assert line[-3:] == ["--adapter", "globex", "TEXT"]
    assert run(*line[1:])[1].split()[0] == EXPECTED["globex"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["acme"], "`--adapters` must be a list of at least two names. Received: adapters=['acme']"),
        (["acme", "glob"], "Expected some of ['acme', 'globex']. Did you mean 'globex'? Received: name='glob'"),
    ],
)
def test_adapters_that_cannot_be_exported_are_an_error(arguments, message, run, models, monkeypatch):
    status, printed, error = run("export", "model.keras", "--output", "new", "--adapters", *arguments)
    assert (status, printed, len(error.splitlines())) == (1, "", 1) and message in error
    assert not (models / "new").exists()


def describe(folder, inputs, outputs):
    """Writes a folder with the facts of an export, whose names map to shapes."""
    file = folder / FACTS_FILE
    file.parent.mkdir(exist_ok=True)
    (folder / "saved_model.pb").touch()
    signatures = {"serving_default": {"inputs": inputs, "outputs": outputs}}
    file.write_text(json.dumps({"task": "A", "adapters": [], "signatures": signatures}))


@pytest.mark.parametrize(
    ("inputs", "outputs", "hint"),
    [
        ({"text": [None]}, {"values": [None, 1]}, 'keras-transfer classify . "TEXT"'),
        ({"text": [None]}, {"values": [None, 2]}, "keras_transfer.serving.Predictor('.')"),
        ({"text": [None]}, {"words": [None, None]}, "keras_transfer.serving.Predictor('.')"),
        (
            {"text": [None], "text_pair": [None]},
            {"chosen": [None, 2], "probabilities": [None, 2]},
            "keras_transfer.serving.Predictor('.', {'text': 'text', 'text_pair': 'text_pair'})",
        ),
        ({"choices": [None, None], "context": [None]}, {"choice": [None]}, "tf.saved_model.load('.')"),
    ],
)
def test_the_hint_is_what_the_signature_accepts(inputs, outputs, hint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    describe(tmp_path, inputs, outputs)
    assert main(["info", "."]) == 0
    assert f"`{hint}`" in rows_of(capsys.readouterr().out)["kind"]


def test_damaged_facts_of_an_export_are_an_error_of_one_line(tmp_path, capsys):
    describe(tmp_path, {}, {})
    for content in ("no JSON", "[]", "{}"):
        (tmp_path / FACTS_FILE).write_text(content)
        for line in (["info", str(tmp_path)], ["classify", str(tmp_path), "a"]):
            assert main(line) == 1
            [error] = capsys.readouterr().err.splitlines()
            assert "export.json is damaged. Export the model again." in error
