"""`keras-transfer export --format`, and the other commands with what it writes."""

import csv

import keras
import pytest

from keras_transfer_command import main
from tests.tasks.tiny import classifier, of_vectors

pytest.importorskip("tensorflow_text")
pytest.importorskip("ai_edge_litert")
pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="converts TensorFlow's graphs")

ROWS = "id,text,label\n1,a good,0\n2,bad b,1\n3,c d e,1\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table and a model of texts."""
    folder = tmp_path_factory.mktemp("exports")
    classifier().save(folder / "model.keras")
    (folder / "a.csv").write_text(ROWS)
    return folder


def export(folder, output, *options):
    return main(["export", str(folder / "model.keras"), "--output", str(folder / output), *options])


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_portable_folder_answers_as_the_run(folder, capsys):
    limits = ["--data", str(folder / "a.csv"), "--max-difference", "0.1", "--min-equal-labels", "1"]
    assert export(folder, "small", "--format", "litert", "--quantization", "int8_dynamic", *limits) == 0
    printed = capsys.readouterr().out
    assert "compared with the model on 3 texts" in printed and "small/predict.py answers without TensorFlow" in printed
    tables = []
    for model in ("model.keras", "small"):
        output = folder / f"{model}.csv"
        assert main(["predict", str(folder / model), "--data", str(folder / "a.csv"), "--output", str(output)]) == 0
        tables.append(rows_of(output))
        capsys.readouterr()
        assert main(["evaluate", str(folder / model), "--data", str(folder / "a.csv")]) == 0
        assert main(["classify", str(folder / model), "a good", "b"]) == 0
        assert main(["info", str(folder / model)]) == 0
        printed = capsys.readouterr().out
        assert "accuracy" in printed and f"  {tables[-1][0]['prediction']}  " in printed and "kind" in printed
    expected, rows = tables
    assert [[*row.values()][:4] for row in rows] == [[*row.values()][:4] for row in expected]
    assert list(rows[0]) == list(expected[0]) == ["id", "text", "label", "prediction", "probability"]
    for row, other in zip(rows, expected, strict=True):
        assert float(row["probability"]) == pytest.approx(float(other["probability"]), abs=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--quantization", "float16"], "The format 'savedmodel' has no ['quantization']."),
        (["--format", "onnx", "--quantization", "float16"], "`--quantization` must be one of (None, 'int8_dynamic')"),
        (["--format", "litert", "--pairs", "--data", "a.csv"], "`--data` has one text in a row"),
    ],
)
def test_a_mistake_in_the_options_is_one_error(options, message, folder, capsys):
    assert export(folder, "other", *options) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert not (folder / "other").exists()


def test_a_model_that_the_format_lacks_is_an_error(tmp_path, capsys):
    of_vectors().save(tmp_path / "model.keras")
    assert export(tmp_path, "small", "--format", "litert") == 1
    assert "Received: preprocessor='WordPreprocessor'" in capsys.readouterr().err and not (tmp_path / "small").exists()
