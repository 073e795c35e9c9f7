"""`keras-transfer train` writes a model and its report, and continues after Ctrl-C; `evaluate` asks the model."""

import json
import pathlib
import re
import signal
import zipfile

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import get_recipe
from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.cli import training
from keras_transfer.cli.info import weight_sizes
from keras_transfer.cli.labelled_texts import read_parts, with_validation
from keras_transfer.cli.run_folder import check_run, finish, running
from keras_transfer.cli.scores import describe_recipe, warn_of_few_steps
from keras_transfer.core import precision
from keras_transfer.core.precision import Precision
from keras_transfer.tasks import TextClassifier
from keras_transfer_command import main
from tests.tasks.tiny import of_words

TEXTS = ["a a", "z z", "a a a", "z z z", "a b a", "z y z"] * 4
LABELS = ["first", "last"] * 12


def write(path, texts=TEXTS, labels=LABELS, names=("review", "kind")):
    """Writes a table of texts and labels in the format of its name, and returns the path as a string."""
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(names, row))) for row in zip(texts, labels)]
    else:
        lines = [",".join(row) for row in (names, *zip(texts, labels))]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


@pytest.fixture
def train(tmp_path, monkeypatch, small_minilm, eagerly):
    """A function that runs `train` with further arguments in a folder with a table, and returns the status."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "reviews.csv")
    line = [
        "train",
        "--task",
        "classification",
        "--data",
        "reviews.csv",
        "--text-column",
        "review",
        "--label-column",
        "kind",
    ]
    line += ["--encoder", small_minilm, "--epochs", "2", "--batch-size", "8", "--learning-rate", "0.01"]
    return lambda *arguments: main([*line, *arguments])


def from_vectors(source, sequence_length, head, **arguments):
    """A classifier over word vectors, whose steps are short."""
    return of_words(list("abyz"), **arguments)


class Interrupted(TrainingCheckpoint):
    """A checkpoint during whose run the user presses Ctrl-C."""

    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_begin(batch, logs)
        if self.progress.count == 4:
            signal.raise_signal(signal.SIGINT)


def weights_of(path):
    return keras.saving.load_model(path, compile=False).get_weights()


def test_a_run_writes_a_model_and_a_report_that_evaluate_confirms(train, tmp_path, capsys):
    assert train("--validation-data", "reviews.csv") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "24 texts for train, 24 texts for validation, ['first', 'last']\n"
        "Recipe 'bert' for minilm-l6: 2 epochs, learning rate 0.01, batch size 8\n"
    )
    assert "Epoch 2/2" in printed and "Validation data: 24 rows, 2 classes, " in printed
    assert "\nkeras-transfer predict classifier --data FILE.csv --text-column review\n" in printed
    assert printed.endswith(
        '\nkeras-transfer classify classifier "TEXT"\nkeras-transfer export classifier --output served/1\n'
    )
    folder = tmp_path / "classifier"
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "model.keras", "report.html", "run.json"]
    accuracy = re.search(r"^accuracy .*", printed, re.MULTILINE)[0]
    card = (folder / "README.md").read_text("utf-8")
    for part in (
        "keras.models.load_model('classifier/model.keras')",
        "| train | 24 rows |",
        "| recipe | bert |",
        "| epochs | 2 |",
        "| learning rate | 0.01 |",
        "| seed | 0 |",
        "Measured on the validation data.",
        "| accuracy | ",
    ):
        assert part in card, part

    data = write(tmp_path / "test.jsonl")
    columns = ["--text-column", "review", "--label-column", "kind"]
    assert main(["evaluate", "classifier", "--data", data, *columns, "--slice-words", "y", "--report", "a.html"]) == 0
    output = capsys.readouterr()
    assert accuracy in output.out and re.search(r"^with 'y' +4 ", output.out, re.MULTILINE)
    assert output.err.startswith("24 texts, ")
    assert "<svg" in (tmp_path / "a.html").read_text("utf-8")

    assert train("--validation-data", "reviews.csv") == 1
    assert "contains a finished run. Choose another one, or pass --overwrite" in capsys.readouterr().err


def test_the_line_about_a_recipe_says_what_is_chosen_and_few_steps_are_a_warning(caplog):
    line = describe_recipe(get_recipe("bert"), "bert", "minilm-l6")
    assert line.endswith(": epochs and learning rate by the table and the encoder, batch size 32")
    assert describe_recipe(get_recipe("bert", epochs=2, learning_rate=1e-4), "bert", "minilm-l6").endswith(
        ": 2 epochs, learning rate 0.0001, batch size 32"
    )
    for recipe in (get_recipe("bert"), get_recipe("bert", epochs=34), get_recipe("bert", steps=3), get_recipe("tapt")):
        warn_of_few_steps(recipe, 72)
    assert not caplog.messages
    warn_of_few_steps(get_recipe("bert", epochs=4), 72)
    warn_of_few_steps(get_recipe("bert", epochs=4, gradient_accumulation_steps=2), 72)
    messages = caplog.messages
    assert messages[0].startswith("--epochs 4 makes 12 steps with 72 rows, ")
    assert [message[message.index("or pass") :] for message in messages] == [
        "or pass --epochs 34.",
        "or pass --epochs 67.",
    ]


def test_after_ctrl_c_the_same_command_continues_as_if_nothing_had_happened(train, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(TextClassifier, "from_pretrained", from_vectors)
    assert train("--output", "whole") == 0
    with monkeypatch.context() as patched:
        patched.setattr(training, "TrainingCheckpoint", Interrupted)
        assert train() == 130
    assert "The run was stopped. The same command continues it" in capsys.readouterr().out
    folder = tmp_path / "classifier"
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "run.json"]
    assert main(["predict", "classifier", "--data", "reviews.csv"]) == 1
    error = capsys.readouterr().err
    assert "The run is not finished. `keras-transfer train` with the same settings continues it. Received" in error
    assert train("--seed", "1") == 1
    assert capsys.readouterr().err.endswith("Received: classifier, where --seed was 0 instead of 1\n")

    state = json.loads((folder / "run.json").read_text())
    for name in ("gradient_accumulation_steps", "rematerialize", "precision"):  # as an older version has written it
        del state["settings"][name]
    (folder / "run.json").write_text(json.dumps(state))
    assert train("--overwrite") == 0  # There is nothing to overwrite, because the settings are the same.
    printed = capsys.readouterr().out
    assert "Epoch 1/2" not in printed and "Epoch 2/2" in printed
    for weight, expected in zip(weights_of(folder / "model.keras"), weights_of("whole/model.keras"), strict=True):
        np.testing.assert_array_equal(weight, expected)
    assert not (folder / "checkpoints").exists()

    before = (folder / "model.keras").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(training, "TrainingCheckpoint", Interrupted)
        assert train("--seed", "1", "--overwrite") == 130
    assert (folder / "model.keras").read_bytes() == before
    assert main(["predict", "classifier", "--data", "reviews.csv"]) == 1
    error = capsys.readouterr().err
    assert "The run is not finished." in error and "earlier run, pass classifier/model.keras. Received" in error


def test_the_model_of_a_run_has_no_optimizer_and_trains_after_compile(train, monkeypatch):
    monkeypatch.setattr(TextClassifier, "from_pretrained", from_vectors)
    assert train() == 0
    weights, optimizer = weight_sizes("classifier/model.keras")
    model = keras.saving.load_model("classifier/model.keras")
    assert optimizer == 0 and weights == 4 * model.count_params()
    assert model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)["accuracy"] > 0.5
    with pytest.raises(ValueError, match=r"`fit` requires an optimizer. Call `model.compile\(\)`"):
        model.fit(TEXTS, LABELS)
    model.compile()
    model.fit(TEXTS, LABELS, verbose=0)


def test_a_model_that_cannot_be_written_has_no_card(train, tmp_path, monkeypatch, capsys):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TextClassifier, "from_pretrained", from_vectors)
    monkeypatch.setattr(TextClassifier, "save", full)
    assert train() == 1
    assert "No space left" in capsys.readouterr().err
    assert not (tmp_path / "classifier" / "README.md").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--text-column", "reviews"],
            "There is no column 'reviews'. Did you mean 'review'? Name the column with --text-column. Received: the "
            "columns ['review', 'kind']",
        ),
        (["--label-column", "sort"], "There is no column 'sort'. Name the column with --label-column."),
        (["--label-column", "review"], "Received: --text-column 'review' and --label-column 'review'"),
        (
            ["--output", "../data"],
            "`--output` must be a new folder, or the folder of a run of the same command. Received: ../",
        ),
        (["--output", "reviews.csv"], "`--output` must be a folder, not a file. Received: reviews.csv"),
    ],
)
def test_a_mistake_is_one_line_of_error(arguments, message, tmp_path, monkeypatch, capsys):
    tmp_path = tmp_path / "data"
    tmp_path.mkdir()
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "reviews.csv")
    line = ["train", "--data", "reviews.csv", "--text-column", "review", "--label-column", "kind", *arguments]
    assert main(line) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.csv"]


def test_accumulation_rematerialization_and_precision_are_those_of_the_recipe(train, tmp_path, capsys):
    options = ["--gradient-accumulation-steps", "2", "--rematerialize", "--precision", "mixed_bfloat16"]
    assert train(*options, "--epochs", "1") == 0
    printed = capsys.readouterr().out
    assert ", gradient_accumulation_steps=2, rematerialize=True, precision='mixed_bfloat16'\n" in printed
    folder = tmp_path / "classifier"
    assert json.loads((folder / "run.json").read_text())["settings"]["precision"] == "mixed_bfloat16"
    assert keras.saving.load_model(folder / "model.keras").dtype_policy.name == "mixed_bfloat16"


def test_automatic_precision_is_that_of_the_machine_on_which_the_run_began(train, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(training, "_model", lambda *arguments: of_words(list("abyz"), num_classes=2))
    monkeypatch.setattr(training, "_train", lambda *arguments: calls.append(arguments[-2:]) or 0)
    monkeypatch.setattr(precision, "recommended_precision", lambda: Precision("mixed_bfloat16", "why"))
    assert train("--precision", "auto") == 0
    [(folder, given)] = calls
    assert given.precision == "mixed_bfloat16"
    assert capsys.readouterr().out == "mixed_bfloat16: why\n"
    (folder / "checkpoints").mkdir()
    monkeypatch.setattr(precision, "recommended_precision", lambda: Precision("float32", "why"))
    assert train("--precision", "auto") == 1
    assert "where --precision was 'mixed_bfloat16' instead of 'float32'\n" in capsys.readouterr().err
    assert train("--precision", "mixed_bfloat16") == 0 and len(calls) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--encoder", "minilm-l7"], "Did you mean 'minilm-l6'? Received: 'minilm-l7'"),
        (["--sequence-length", "100000"], "sequence"),
    ],
)
def test_a_run_that_cannot_begin_writes_nothing(arguments, message, train, tmp_path, capsys):
    assert train(*arguments) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.csv"]


def test_a_run_prints_one_line_for_each_epoch_into_a_file_and_no_bar(train, monkeypatch, capsys):
    monkeypatch.setattr(training.tasks.TextClassifier, "from_pretrained", from_vectors)
    assert train() == 0
    printed = capsys.readouterr().out
    assert "Epoch 2/2" in printed and not set("\r\b\x1b\u2501") & set(printed)


def test_errors_and_warnings_about_labels_show_ten_of_them_at_most(tmp_path, capsys):
    numbers = [f"number {i:03}" for i in range(150)]
    training_data = write(tmp_path / "a.csv", numbers, numbers)
    wrong = write(tmp_path / "b.csv", numbers, [name.upper() for name in numbers])
    with pytest.raises(ValueError, match="'number 009', ... and 140 more") as caught:
        read_parts(training_data, wrong, text="review", label="kind")
    assert len(str(caught.value)) < 600
    assert "has 150 different labels in 150 rows. Is 'kind' the column of the labels?" in capsys.readouterr().err


def test_labels_that_differ_only_in_spaces_are_an_error(tmp_path):
    path = write(tmp_path / "a.csv", TEXTS, ["first", "last "] * 11 + ["first", "last"])
    with pytest.raises(ValueError, match="must not differ only in the spaces around them.*'last' and 'last '"):
        read_parts(path, text="review", label="kind")
    with pytest.raises(ValueError, match="line 2: Expected a text and a label"):
        read_parts(write(tmp_path / "b.csv", TEXTS, [" ", *LABELS[1:]]), text="review", label="kind")


def test_a_folder_with_nothing_but_the_lock_of_a_killed_run_is_new(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").touch()
    assert check_run(tmp_path / "run", {"seed": 0}) is False
    (tmp_path / "run" / "notes.txt").touch()
    with pytest.raises(FileExistsError, match="`--output` must be a new folder"):
        check_run(tmp_path / "run", {"seed": 0})


def test_a_run_that_another_process_has_finished_keeps_its_state(tmp_path):
    with running(tmp_path / "run", {"seed": 0}) as folder:
        (folder / "checkpoints").mkdir()
        (folder / "model.keras").touch()
        finish(folder)
    with pytest.raises(FileExistsError, match="contains a finished run"), running(tmp_path / "run", {"seed": 0}):
        pass
    with pytest.raises(FileExistsError, match="contains a finished run"):
        check_run(tmp_path / "run", {"seed": 0})


def test_labels_without_texts_for_training_are_logged(caplog):
    names = list("ABCDEFGHIJ")
    parts = with_validation({"train": (list("abcdefghij"), names)}, names)
    held_out = parts["validation"][1]
    assert len(held_out) == 2 and f"labels {held_out} are held" in caplog.text
    assert with_validation(parts, names) is parts
    caplog.clear()
    with_validation({"train": (list("abcdefghij"), [[name] for name in names])}, names)
    assert f"labels {held_out} are held" in caplog.text


def test_a_missing_column_of_json_lines_names_the_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("a.jsonl").write_text('{"text": "a", "label": 1}\n\n{"text": "b", "labels": 0}\n')
    assert main(["train", "--data", "a.jsonl"]) == 1
    assert "a.jsonl, line 3: There is no column 'label'. Did you mean 'labels'?" in capsys.readouterr().err


def test_a_trained_model_continues_to_train_with_its_head_or_with_a_new_one(train, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training.tasks.TextClassifier, "from_pretrained", from_vectors)
    assert train() == 0
    before = weights_of(tmp_path / "classifier" / "model.keras")
    assert train("--encoder", "classifier", "--output", "more", "--learning-rate", "1e-9") == 0
    assert "The training continues from classifier/model.keras, with its head" in capsys.readouterr().out
    after = weights_of(tmp_path / "more" / "model.keras")
    assert all(np.allclose(*pair, atol=1e-6) for pair in zip(before, after))
    write(tmp_path / "reviews.csv", TEXTS, [label.upper() for label in LABELS])
    assert train("--encoder", "classifier/model.keras", "--output", "other") == 0
    assert "the encoder of classifier/model.keras, with a new head" in capsys.readouterr().out
    assert keras.saving.load_model(tmp_path / "other" / "model.keras").label_names == ["FIRST", "LAST"]


def test_what_a_trained_model_cannot_have_is_an_error(train, tmp_path, monkeypatch, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps({"settings": {}, "finished": False}))
    assert train("--encoder", "run") == 1 and "The run is not finished." in capsys.readouterr().err
    (tmp_path / "run" / "run.json").write_text(json.dumps({"settings": {}, "finished": True}))
    with zipfile.ZipFile(tmp_path / "run" / "model.keras", "w"):
        pass
    assert train("--encoder", "run", "--sequence-length", "8") == 1
    assert "A trained model keeps its sequence length. Leave out" in capsys.readouterr().err
    assert train("--encoder", "run", "--output", "run") == 1 and "a different folder" in capsys.readouterr().err
