"""`keras-transfer compare` reads tables, compares recipes on them, and checks its arguments before it starts."""

import pytest

from keras_transfer.cli import comparison
from keras_transfer.cli.labelled_texts import Table, read_parts, read_texts
from keras_transfer.datasets import load_demo_questions
from keras_transfer_command import main


def write(path, rows, head=("text", "label")):
    path.write_text("".join("\t".join(row) + "\n" for row in (head, *rows)), "utf-8")
    return str(path)


def test_the_command_compares_recipes_continues_and_writes_the_table(
    tmp_path, monkeypatch, small_minilm, eagerly, capsys
):
    monkeypatch.chdir(tmp_path)
    data = load_demo_questions()
    rows = [(text, data.label_names[label]) for text, label in zip(*data.train)]
    train = write(tmp_path / "train.tsv", rows[::12], ("question", "kind"))
    test = write(tmp_path / "test.tsv", rows[1::60], ("question", "kind"))
    line = [
        "compare",
        "--data",
        train,
        "--test-data",
        test,
        "--text-column",
        "question",
        "--label-column",
        "kind",
        "--epochs",
        "1",
    ]
    line += ["--batch-size", "64"]
    line += ["--methods", "feature_extraction", "bert", "--seeds", "1", "--markdown", "table.md"]
    assert main(line) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("38 texts for train, 10 texts for test, 10 texts for validation, ['ABBR', ")
    assert "\nRecipe 'bert' for minilm-l6: 1 epoch, learning rate by the encoder, batch size 64\n" in printed
    assert printed.count(", seed ") == 2 and "1 seed: no intervals" in printed
    assert (tmp_path / "table.md").read_text().startswith("| method | validation | test |")
    assert main(line) == 0
    again = capsys.readouterr().out
    assert ", seed " not in again and again.splitlines()[-5:] == printed.splitlines()[-5:]
    for wrong, message in (
        (["--markdown", "none/table.md"], "in an existing folder. Received: --markdown=none/table.md"),
        (["--plot", "."], "Expected a file in an existing folder. Received: --plot=."),
        (["--plot", "plot.xyz"], "'svg', 'svgz', "),
    ):
        assert main([*line, *wrong]) == 1
        assert message in capsys.readouterr().err


def test_each_recipe_chooses_its_epochs_unless_they_are_given(tmp_path, monkeypatch, capsys, caplog):
    found = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison.experiments, "compare", lambda make, data, methods, **options: found.update(methods))
    rows = [(f"a{number}", "xy"[number % 2]) for number in range(100)]
    line = ["compare", "--data", write(tmp_path / "a.tsv", rows), "--methods", "bert", "feature_extraction"]
    line += ["--validation-data", write(tmp_path / "b.tsv", rows[:2])]
    assert main(line) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [recipe.epochs for recipe in found.values()] == ["auto", "auto"] and not caplog.messages
    assert lines[1].startswith("Recipe 'bert' for minilm-l6: epochs and learning rate by the table and the encoder, ")
    assert lines[2].startswith("Recipe 'feature_extraction' for minilm-l6: ")
    assert main([*line, "--epochs", "2"]) == 0
    assert [recipe.epochs for recipe in found.values()] == [2, 2]
    assert [message[: message.index(", and")] for message in caplog.messages] == [
        "--epochs 2 makes 8 steps with 100 rows and the recipe 'bert'",
        "--epochs 2 makes 8 steps with 100 rows and the recipe 'feature_extraction'",
    ]


def test_tables_have_named_columns_and_quotes_only_in_csv(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text('label,id,text\ngood,1,"a ""fine"", long film"\nbad,2,a bore\n', "utf-8-sig")
    assert read_texts(path) == (['a "fine", long film', "a bore"], ["good", "bad"])
    table = write(tmp_path / "texts.tsv", [('"a fine', "1"), ("a bore", "0")], ("sentence", "label"))
    parts, names = read_parts(table, test=table, text="sentence")
    assert names == ["0", "1"] and list(parts) == ["train", "test"]
    assert parts["test"] == (['"a fine', "a bore"], ["1", "0"])


def test_whole_numbers_of_json_are_one_label_however_they_are_written(tmp_path):
    lines = ['{"text": "a", "label": 1}', '{"text": "b", "label": 1.0}', '{"text": "c", "label": 0.5}']
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    assert read_texts(tmp_path / "texts.jsonl")[1] == ["1", "1", "0.5"]


def test_blank_lines_are_empty_texts_in_one_column_skipped_in_csv_and_an_error_in_tsv(tmp_path):
    for content, expected in (("text\na\n\nb\n", ["a", "", "b"]), ("text,id\na,1\n\nb,2\n", ["a", "b"])):
        (tmp_path / "texts.csv").write_text(content)
        assert [row["text"] for _, row in Table(tmp_path / "texts.csv", ["text"])] == expected
    (tmp_path / "texts.tsv").write_text("text\na\n\nb\n")
    assert [row["text"] for _, row in Table(tmp_path / "texts.tsv", ["text"])] == ["a", "", "b"]
    (tmp_path / "texts.tsv").write_text("text\tid\na\t1\n\nb\t2\n")
    with pytest.raises(ValueError, match=r"line 3: Expected 2 fields, \['text', 'id'\]. Received: 1 fields"):
        list(Table(tmp_path / "texts.tsv", ["text"]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.tsv", None, "The table does not exist. Received: none.tsv"),
        (
            "texts.json",
            '[{"label": "b"}]',
            "texts.json, row 0: There is no column 'text'. Name the column with",
        ),
        (
            "texts.tsv",
            "sentence\tlabel\na\tb\n",
            "no column 'text'. Name the column with --text-column. For a file without a header, pass `--no-header`, "
            "and numbers from 0 as columns. Received: the columns ['sentence', 'label']",
        ),
        ("texts.tsv", "text\tlabel\na\tb\nc\t\n", "line 3: Expected a text and a label. Received: text='c' and "),
        ("texts.tsv", "text\tlabel\tlabel\na\tb\tc\n", "columns must be unique. Received: ['text', 'label', 'label']"),
        (
            "texts.jsonl",
            '{"text": "a", "label": NaN}\n',
            "line 1: Expected a text and a label. Received: text='a' and ",
        ),
        ("texts.tsv", "text\tlabel\n", "Expected at least one row"),
        ("texts.tsv", "text\tlabel\na\tb\nc\tb\n", "Expected at least two labels. Received: ['b']"),
    ],
)
def test_a_bad_table_is_one_line_of_error(name, content, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_text(content)
    assert main(["compare", "--data", name]) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
    assert not (tmp_path / "comparison.jsonl").exists()


def test_labels_that_the_training_data_lack_are_an_error(tmp_path):
    train = write(tmp_path / "train.tsv", [("a", "good"), ("b", "bad")])
    test = write(tmp_path / "test.tsv", [("a", "fair")])
    with pytest.raises(ValueError, match=r"test.tsv: Labels must occur.*\['bad', 'good'\]. Received: \['fair'\]"):
        read_parts(train, test=test)
