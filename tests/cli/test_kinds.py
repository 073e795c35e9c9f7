"""`predict` and `evaluate` write and read several labels or a number for each text, as the model predicts."""

import gzip
import json
import re

import keras
import numpy as np
import pytest

from keras_transfer.cli.labelled_texts import as_numbers, read_parts, read_texts
from keras_transfer.datasets import read_table
from keras_transfer.tasks import TextClassifier, TextRegressor
from keras_transfer_command import main
from tests.tasks.tiny import of_words

NAMES = ["film", "fun", "sad"]
TEXTS = ["a", "b", "y", "z"]


@pytest.fixture
def folder(tmp_path, monkeypatch, eagerly):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"{text}\n" for text in TEXTS))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return tmp_path


@pytest.fixture
def tagger(folder):
    """A saved classifier that predicts each label for half of the texts."""
    keras.utils.set_random_seed(0)
    model = of_words(list("abyz"), label_names=NAMES, multi_label=True)
    model.thresholds = np.sort(model.predict_proba(TEXTS), axis=0)[1:3].mean(axis=0).tolist()
    model.save("tagger.keras")
    return model


def run(*line):
    return main(list(line))


def test_several_labels_are_lists_in_json_lines_and_have_a_separator_in_csv(tagger, folder):
    expected, likely = tagger.predict_labels(TEXTS), tagger.predict_proba(TEXTS)
    assert [sum(name in labels for labels in expected) for name in NAMES] == [2, 2, 2]
    for kind in ("csv", "jsonl"):
        assert run("predict", "tagger.keras", "--data", f"a.{kind}", "--output", f"b.{kind}") == 0
    rows = [json.loads(line) for line in (folder / "b.jsonl").read_text().splitlines()]
    assert [row["prediction"] for row in rows] == expected
    for row, values in zip(rows, likely, strict=True):
        wanted = [values[NAMES.index(name)] for name in row["prediction"]]
        assert row["probability"] == pytest.approx(wanted, abs=1e-6)
    assert read_table(folder / "b.csv", "text", label_column="prediction", label_separator="|").labels == expected
    assert read_texts(folder / "b.csv", label="prediction", kind="multi-label") == (TEXTS, expected)


def test_several_labels_are_evaluated_with_f1_slices_and_a_page(tagger, folder, capsys):
    run("predict", "tagger.keras", "--data", "a.csv", "--output", "b.csv")
    capsys.readouterr()
    line = ["evaluate", "tagger.keras", "--data", "b.csv", "--label-column", "prediction"]
    assert run(*line, "--slice-words", "y", "--report", "a.html") == 0
    output = capsys.readouterr()
    assert "with &#x27;y&#x27;" in (folder / "a.html").read_text("utf-8") and "with 'y'" in output.out
    assert output.out.startswith("4 rows, 3 labels, 4 have exactly the right labels\n")
    for name in ("micro F1", "macro F1", "subset accuracy"):
        assert re.search(rf"^{name} +1\.0000 ", output.out, re.MULTILINE)
    assert re.search(r"^fun +1\.000 +1\.000 +1\.000 .* 2$", output.out, re.MULTILINE)
    assert output.err.startswith("4 texts, ")


def test_a_name_that_contains_the_separator_is_an_error_in_csv_only(folder, capsys):
    of_words(list("abyz"), label_names=["a|b", "c"], multi_label=True).save("tagger.keras")
    assert run("predict", "tagger.keras", "--data", "a.csv", "--output", "b.csv") == 1
    assert "must not contain '|', which joins the labels of a text. Use a .jsonl file." in capsys.readouterr().err
    assert not (folder / "b.csv").exists()
    assert run("predict", "tagger.keras", "--data", "a.jsonl", "--output", "b.jsonl") == 0
    (folder / "c.csv").write_text("text,label\na,c\n")
    assert run("evaluate", "tagger.keras", "--data", "c.csv") == 1
    assert "must not contain '|', which joins the labels of a text. Use a .jsonl file." in capsys.readouterr().err
    (folder / "c.jsonl").write_text('{"text": "a", "label": ["a|b", "c"]}\n')
    assert run("evaluate", "tagger.keras", "--data", "c.jsonl") == 0


def test_the_types_of_a_table_decide_about_names_with_the_separator(folder):
    of_words(list("abyz"), label_names=["a|b", "c"], multi_label=True).save("tagger.keras")
    row = {"text": "a", "label": ["a|b", "c"]}
    with gzip.open("d.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist([row]), "d.parquet")
    (folder / "d.ndjson").write_text(json.dumps(row) + "\n")
    for name in ("d.jsonl.gz", "d.parquet", "d.ndjson"):
        assert run("evaluate", "tagger.keras", "--data", name) == 0, name
    (folder / "d.csv").write_text("text,label\na,a|b;c\n")
    assert run("evaluate", "tagger.keras", "--data", "d.csv", "--label-separator", ";") == 0


def test_several_labels_are_strings_in_csv_and_lists_in_json_lines(tmp_path):
    def labels(name, content):
        (tmp_path / name).write_text(content)
        return read_texts(tmp_path / name, kind="multi-label")[1]

    assert labels("a.csv", "text,label\na,x | y\nb, \n") == [["x", "y"], []]
    assert labels("a.jsonl", '{"text": "a", "label": ["x|y", " z"]}\n') == [["x|y", " z"]]
    for label in ("x|y", "x", ""):
        with pytest.raises(ValueError, match="line 1: Expected a text and a list of labels. Received: "):
            labels("a.jsonl", json.dumps({"text": "a", "label": label}))


def test_numbers_are_those_that_read_table_reads_and_finite_in_float32(tmp_path):
    def labels(name, content):
        (tmp_path / name).write_text(content)
        return read_texts(tmp_path / name, kind="regression")[1]

    assert labels("a.csv", "text,label\na,-1\nb,.5\nc,3e38\n") == [-1.0, 0.5, 3e38]
    assert labels("a.jsonl", '{"text": "a", "label": 3}\n{"text": "b", "label": -0.5}\n') == [3.0, -0.5]
    for value in ("1_000", "007", " 1", "nan", "inf", "1e39", "-1e300", "1e400"):
        with pytest.raises(ValueError, match="line 2: Expected a text and a number. Received: "):
            labels("a.csv", f"text,label\na,{value}\n")
    for value in ("true", "null", "[1]", "1e39", "1" * 400, "NaN", '"1_000"'):
        with pytest.raises(ValueError, match="line 1: Expected a text and a number. Received: "):
            labels("a.jsonl", f'{{"text": "a", "label": {value}}}\n')


@pytest.fixture
def regressor(folder):
    keras.utils.set_random_seed(0)
    classifier = of_words(list("abyz"), num_classes=2)
    model = TextRegressor(classifier.encoder, preprocessor=classifier.preprocessor)
    model.save("regressor.keras")
    return model


def test_a_regressor_writes_one_column_of_numbers(regressor, folder):
    (folder / "c.csv").write_text("text,probability\na,mine\nb,\n")
    assert run("predict", "regressor.keras", "--data", "c.csv", "--output", "d.csv") == 0
    lines = [line.split(",") for line in (folder / "d.csv").read_text().splitlines()]
    assert lines[0] == ["text", "probability", "prediction"]
    assert [line[:2] for line in lines[1:]] == [["a", "mine"], ["b", ""]]
    expected = regressor.predict(["a", "b"], verbose=0)[:, 0]
    assert [float(line[2]) for line in lines[1:]] == pytest.approx(expected, abs=1e-6)


def test_a_regressor_is_evaluated_with_errors_and_correlations(regressor, folder, capsys):
    predicted = regressor.predict(TEXTS, verbose=0)[:, 0].astype(float)
    numbers = 2 * predicted + 1
    (folder / "b.csv").write_text("text,score\n" + "".join(f"{row[0]},{row[1]}\n" for row in zip(TEXTS, numbers)))
    assert run("evaluate", "regressor.keras", "--data", "b.csv", "--label-column", "score") == 0
    found = dict(re.findall(r"^(\w.*?) +(-?[\d.]+)$", capsys.readouterr().out, re.MULTILINE))
    assert found["pearson correlation"] == found["spearman correlation"] == "1.0000"
    assert float(found["mean squared error"]) == pytest.approx(((numbers - predicted) ** 2).mean(), abs=1e-4)
    assert float(found["mean absolute error"]) == pytest.approx(np.abs(numbers - predicted).mean(), abs=1e-4)


@pytest.mark.parametrize(
    ("model", "content", "arguments", "message"),
    [
        ("regressor", "text,label\na,good\n", [], "line 2: Expected a text and a number. Received: text='a' and"),
        ("regressor", "text,label\na,1\n", ["--slice-words", "a"], "Received: a model that predicts numbers"),
        ("tagger", "text,label\na,film|\n", [], "line 2: Expected a text and a list of labels."),
        ("two", "text,label\na,1\n", [], "that predicts one number. Received: two.keras, a `TextRegressor`"),
    ],
)
def test_what_does_not_match_the_model_is_an_error(
    model, content, arguments, message, tagger, regressor, folder, monkeypatch, capsys
):
    TextRegressor(regressor.encoder, num_targets=2, preprocessor=regressor.preprocessor).save("two.keras")
    (folder / "b.csv").write_text(content)
    assert run("evaluate", f"{model}.keras", "--data", "b.csv", *arguments) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["text"], ["words", "label"], "does not support taggers. Tag texts in Python with `serving.Predictor(folder"),
        (["text", "text_pair"], ["label"], "must have a single input `text`. Answer other requests in Python with"),
        (["text"], ["answer"], "The exported model must predict a label, several labels or a number for each text."),
    ],
)
def test_commands_for_texts_refuse_other_exports(inputs, outputs, message, folder, capsys):
    tf = pytest.importorskip("tensorflow")
    module = tf.Module()
    module.answer = tf.function(
        lambda **texts: dict.fromkeys(outputs, texts["text"]),
    ).get_concrete_function(**{name: tf.TensorSpec([None], tf.string, name=name) for name in inputs})
    tf.saved_model.save(module, "served", signatures={"serving_default": module.answer})
    for line in (["classify", "served", "a"], ["predict", "served", "--data", "a.csv", "--output", "b.csv"]):
        assert run(*line) == 1
        assert message in capsys.readouterr().err
    assert not (folder / "b.csv").exists()


def test_a_label_that_the_model_does_not_know_is_an_error(tagger, folder, capsys):
    (folder / "b.csv").write_text("text,label\na,film|fund\n")
    assert run("evaluate", "tagger.keras", "--data", "b.csv") == 1
    assert "Did you mean 'fun'? Received: 'fund' at position 0" in capsys.readouterr().err


def test_the_correlations_of_constant_predictions_are_not_a_number(regressor, folder, capsys):
    head = regressor.get_layer("logits")
    head.set_weights([np.zeros_like(weight) for weight in head.get_weights()])
    regressor.save("regressor.keras")
    (folder / "b.csv").write_text("text,label\na,1\nb,3\n")
    assert run("evaluate", "regressor.keras", "--data", "b.csv") == 0
    printed = capsys.readouterr().out
    for name, value in (
        ("mean squared error", "5.0000"),
        ("pearson correlation", "nan"),
        ("spearman correlation", "nan"),
    ):
        assert re.search(rf"^{name} +{value}$", printed, re.MULTILINE)


def test_train_makes_a_classifier_with_several_labels(folder, monkeypatch, capsys):
    def from_vectors(source, sequence_length, head, scalar_mix, **options):
        return of_words(list("abyz"), **options)

    monkeypatch.setattr(TextClassifier, "from_pretrained", from_vectors)
    labels = {"a": ["film"], "b": ["film", "fun"], "y": [], "z": ["sad"]}
    rows = [
        {"text": f"{one} {other}", "label": sorted({*labels[one], *labels[other]})} for one in TEXTS for other in TEXTS
    ]
    (folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "b.csv").write_text("text,label\n" + "".join(f"{row['text']},{'|'.join(row['label'])}\n" for row in rows))
    line = ["train", "--task", "multi-label", "--epochs", "12", "--batch-size", "8", "--learning-rate", "0.5"]
    assert read_parts("b.jsonl", task="multi-label") == read_parts("b.csv", task="multi-label")
    assert run(*line, "--data", "b.csv", "--validation-data", "b.csv", "--output", "csv") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("16 texts for train, 16 texts for validation, ['film', 'fun', 'sad']\n")
    assert "Validation data: 16 rows, 3 labels, 16 have exactly the right labels\n" in printed
    assert sorted(path.name for path in (folder / "csv").iterdir()) == [
        "README.md",
        "model.keras",
        "report.html",
        "run.json",
    ]
    assert run("predict", "csv", "--data", "a.csv") == 0
    lines = [line.split(",")[:2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [["text", "prediction"], ["a", "film"], ["b", "film|fun"], ["y", ""], ["z", "sad"]]


def test_several_labels_must_occur_in_the_training_data(folder, capsys):
    (folder / "b.csv").write_text("text,label\na,film\nb,\n")
    (folder / "c.csv").write_text("text,label\na,film|fun\nb,\nc,fun\n")
    (folder / "d.csv").write_text("text,label\na,film|sad\n")
    line = ["train", "--task", "multi-label", "--data"]
    assert run(*line, "b.csv") == 1
    assert "b.csv: Expected at least two labels. Received: ['film']" in capsys.readouterr().err
    assert run(*line, "c.csv", "--validation-data", "d.csv") == 1
    assert "Expected some of ['film', 'fun']. Received: ['sad']" in capsys.readouterr().err
    parts, names = read_parts("c.csv", task="multi-label")
    assert parts == {"train": (["a", "b", "c"], [["film", "fun"], [], ["fun"]])} and names == ["film", "fun"]
    assert as_numbers(parts["train"][1], names) == [[1, 1], [0, 0], [0, 1]]


@pytest.fixture
def train_regressor(folder, monkeypatch):
    """A function that runs `train --task regression` with further arguments, and returns the status."""

    def from_vectors(source, **options):
        assert options.pop("sequence_length") is None and options.pop("head") == "new"
        keras.utils.set_random_seed(0)
        classifier = of_words(list("abyz"), num_classes=2)
        return TextRegressor(classifier.encoder, preprocessor=classifier.preprocessor, **options)

    monkeypatch.setattr(TextRegressor, "from_pretrained", from_vectors)
    rows = [{"text": text, "stars": number} for number, text in enumerate(TEXTS * 4)]
    (folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = ["train", "--task", "regression", "--data", "b.jsonl", "--label-column", "stars", "--epochs", "1"]
    return lambda *arguments: run(*line, *arguments)


def test_train_makes_a_regressor_from_a_numeric_column(train_regressor, folder, capsys):
    assert train_regressor() == 0
    printed = capsys.readouterr().out
    assert printed.startswith("13 texts for train, 3 texts for validation, one number for each text\n")
    assert "Validation data: 3 rows\n" in printed and "pearson correlation" in printed
    assert sorted(path.name for path in (folder / "regressor").iterdir()) == ["README.md", "model.keras", "run.json"]
    assert run("predict", "regressor", "--data", "a.csv") == 0
    assert capsys.readouterr().out.startswith("text,prediction\na,")


def test_a_regressor_leaves_no_report_of_the_classifier_that_it_replaces(train_regressor, folder):
    old = folder / "old"
    old.mkdir()
    (old / "run.json").write_text('{"settings": {"task": "classification"}, "finished": true}')
    (old / "report.html").write_text("a page")
    assert train_regressor("--output", "old", "--overwrite") == 0
    assert sorted(path.name for path in old.iterdir()) == ["README.md", "model.keras", "run.json"]
    assert json.loads((old / "run.json").read_text())["settings"]["task"] == "regression"


def test_labels_of_a_table_are_positions_of_names_even_if_these_are_numbers():
    names = ["0", "1", "10", "2"]  # sorted as strings: position 2 is not the name "2"
    assert as_numbers(["10", "2"], names) == [2, 3] and as_numbers([0.5], None) == [0.5]
