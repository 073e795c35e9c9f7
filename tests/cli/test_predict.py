"""`keras-transfer predict` adds predictions to the rows of a table, which it reads in parts."""

import json
import shutil
import zipfile

import pytest

from keras_transfer.cli import predictions
from keras_transfer.cli.labelled_texts import Table, read_texts
from keras_transfer.core.lines import read_rows
from keras_transfer.tasks import TextClassifier
from keras_transfer_command import main
from tests.tasks.tiny import of_vectors


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.keras"
    of_vectors().save(path)
    return path


@pytest.fixture
def predict(tmp_path, monkeypatch, model_file, eagerly):
    """A function that runs `predict` with a model of its own in an empty folder, and returns the status."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(model_file, tmp_path / "model.keras")
    return lambda *arguments: main(["predict", "model.keras", "--data", *arguments])


def test_a_table_in_csv_keeps_its_columns_and_gets_two_more(predict, tmp_path, capfdbinary):
    (tmp_path / "a.csv").write_text('id,text\n1,"a ""good"", film"\n2,\n3,"two\nlines: ö"\n', "utf-8-sig")
    assert predict("a.csv") == 0
    output = capfdbinary.readouterr()
    lines = output.out.decode("utf-8").split("\n")
    assert lines[0] == "id,text,prediction,probability" and lines[1].startswith('1,"a ""good"", film",')
    assert lines[2].startswith("2,,") and lines[3] == '3,"two' and lines[4].startswith('lines: ö",')
    label, probability = lines[1].rsplit(",", 2)[1:]
    assert label in ("0", "1") and 0.5 <= float(probability) <= 1 and len(probability) <= len("0.123456")
    assert output.err.startswith(b"3 texts, ")


def test_a_table_in_another_form_is_written_in_its_form(predict, tmp_path):
    (tmp_path / "a.csv").write_bytes("1;bäd, bad\n2;good\n".encode("cp1252"))
    options = ["--encoding", "cp1252", "--no-header", "--text-column", "1"]
    assert predict("a.csv", "--output", "b.csv", *options) == 0
    rows = [line.split(";") for line in (tmp_path / "b.csv").read_text("utf-8").splitlines()]
    assert [row[:2] for row in rows] == [["1", "bäd, bad"], ["2", "good"]] and {len(row) for row in rows} == {4}
    (tmp_path / "a.json").write_text('[{"text": "good"}]')
    assert predict("a.json", "--output", "b.jsonl") == 0
    assert json.loads((tmp_path / "b.jsonl").read_text()).keys() == {"text", "prediction", "probability"}


def test_a_lone_carriage_return_is_quoted_because_it_would_end_the_row(predict, tmp_path):
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,"good\rbad"\n2,film\n')
    assert predict("a.csv", "--output", "b.csv") == 0
    assert b'1,"good\rbad",' in (tmp_path / "b.csv").read_bytes()
    assert [row[0] for _, row in read_rows(tmp_path / "b.csv")[1]] == ["1", "2"]


def test_json_lines_keep_their_values(predict, tmp_path):
    rows = [{"body": "a good film", "id": 1, "tags": ["x"]}, {"body": "bäd", "other": None}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert predict("a.jsonl", "--output", "b.jsonl", "--text-column", "body") == 0
    found = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text("utf-8").splitlines()]
    assert [{name: row[name] for name in old} for row, old in zip(found, rows)] == rows
    assert all(set(row) - set(old) == {"prediction", "probability"} for row, old in zip(found, rows, strict=True))


def test_a_later_row_that_has_a_prediction_is_an_error(predict, tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b", "prediction": "mine"}\n')
    assert predict("a.jsonl", "--output", "b.jsonl") == 1
    assert "a.jsonl, line 2: The columns of predictions must not exist. Received: ['prediction']" in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "b.jsonl").exists()


def test_a_table_is_read_and_written_in_parts_with_the_same_result(predict, tmp_path, monkeypatch):
    (tmp_path / "a.tsv").write_text("text\n" + "".join(f'good "{"bad " * (i % 5)}\n' for i in range(23)), "utf-8")
    assert predict("a.tsv", "--output", "whole.tsv") == 0
    sizes, original = [], TextClassifier.predict_proba
    monkeypatch.setattr(predictions, "ROWS", 10)
    monkeypatch.setattr(
        TextClassifier, "predict_proba", lambda model, texts: sizes.append(len(texts)) or original(model, texts)
    )
    assert predict("a.tsv", "--output", "parts.tsv") == 0
    assert sizes == [10, 10, 3]
    whole, parts = ((tmp_path / name).read_text("utf-8").splitlines() for name in ("whole.tsv", "parts.tsv"))
    rows, expected = ([line.split("\t") for line in lines] for lines in (parts, whole))
    assert len(parts) == 24 and [row[:2] for row in rows] == [row[:2] for row in expected]
    for row, other in zip(rows[1:], expected[1:], strict=True):
        assert float(row[2]) == pytest.approx(float(other[2]), abs=1e-5)


def test_labels_that_the_model_does_not_know_are_an_error(predict, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,label\na,0\nb,zero\n")
    assert main(["evaluate", "model.keras", "--data", "a.csv"]) == 1
    error = capsys.readouterr().err
    assert "['0', '1']. Received: 'zero' at position 1" in error and len(error.splitlines()) == 1


def test_a_table_tells_how_much_of_it_was_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\n" + "a long line of text\n" * 10_000)
    table = Table(path, ["text"])
    fractions = [table.fraction for _ in table]
    assert fractions == sorted(fractions) and fractions[0] < 0.1 and fractions[-1] == 1.0


def test_texts_may_be_longer_than_csv_allows_by_default(tmp_path):
    (tmp_path / "a.csv").write_text(f"text,label\n{'a' * 200_000},1\n")
    assert len(read_texts(tmp_path / "a.csv")[0][0]) == 200_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "text\na\nb,c\n",
            "a.csv, line 3: Expected 1 fields, ['text']. A text that contains the separator must be in quotes. ",
        ),
        (b"text\n\xff\n", "a.csv, line 2: Expected UTF-8. Pass `--encoding` if one of these is right: 'ÿ' (cp1252)"),
    ],
)
def test_a_damaged_row_is_an_error_that_leaves_nothing_behind(content, message, predict, tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert predict("a.csv", "--output", "b.csv") == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "model.keras"]


@pytest.mark.parametrize(
    ("name", "content", "arguments", "message"),
    [
        ("a.jsonl", '{"text": "a"\n', [], "a.jsonl, line 1: Expected complete JSON. The file may have been cut."),
        ("a.jsonl", "[1]\n", [], "a.jsonl, row 0: Expected a JSON object. Received: 1"),
        ("a.txt", "some\ntext\n", [], "Name the column with --text-column. For a file without a header, pass"),
        ("a.csv", "text\na\n", ["--separator", "::"], "`--separator` must be one character, such as ';' or a tab."),
        ("a.csv", "text,prediction\na,b\n", [], "must not exist. Received: a table with ['prediction']"),
        ("a.csv", "text\na\n", ["--output", "b.jsonl"], "The output must be a .csv file"),
        ("a.csv", "text\na\n", ["--output", "a.csv"], "The output exists. Choose another file, or pass --overwrite"),
        (
            "a.csv",
            "text\na\n",
            ["--output", "nowhere/b.csv"],
            "Expected a file in an existing folder. Received: --output=nowhere/b.csv",
        ),
    ],
)
def test_a_mistake_is_one_line_of_error(name, content, arguments, message, predict, tmp_path, monkeypatch, capsys):
    (tmp_path / name).write_text(content)
    assert predict(name, *arguments) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "model.keras"]


def test_a_model_that_does_not_exist_or_is_none_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text\na\n")
    (tmp_path / "empty").mkdir()
    for model, message in (
        ("nowhere", "The model does not exist. Received: nowhere"),
        ("a.csv", "The model must be a .keras file. Received: a.csv"),
        ("empty", "wrote, or an exported model. Received: empty, without model.keras"),
    ):
        assert main(["predict", model, "--data", "a.csv"]) == 1
        assert message in capsys.readouterr().err
    with zipfile.ZipFile(tmp_path / "other.keras", "w") as file:
        file.writestr("a.txt", "")
    with zipfile.ZipFile(tmp_path / "unknown.keras", "w") as file:
        name = "keras_hub>TextClassifier"
        unknown = {"module": "keras_hub", "class_name": "TextClassifier", "registered_name": name, "config": {}}
        file.writestr("metadata.json", "{}")
        file.writestr("config.json", json.dumps(unknown))
    for model in ("other.keras", "unknown.keras"):
        assert main(["predict", model, "--data", "a.csv"]) == 1
        error = capsys.readouterr().err
        assert f"The model cannot be loaded. Received: {model}, " in error
        assert len(error.splitlines()) == 1
