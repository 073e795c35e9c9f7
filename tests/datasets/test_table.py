"""Tables of any kind become texts and labels, by the names of their columns."""

import csv
import gzip
import json

import numpy as np
import pytest

from keras_transfer.cli.labelled_texts import read_texts
from keras_transfer.datasets import read_table

CSV = 'id,text,label\n1,"What a film, ""really""!",good\n2,"Two\nlines.",bad\n'


class HuggingFaceDataset:
    """The part of a Hugging Face `Dataset` that a reader needs."""

    def __init__(self, columns, class_names=None):
        self.columns_by_name = columns
        self.column_names = list(columns)
        self.features = {name: type("Feature", (), {})() for name in columns}
        if class_names:
            self.features["label"].names = class_names

    def __getitem__(self, name):
        return self.columns_by_name[name]


def write(tmp_path, text, name="data.csv"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / name


@pytest.mark.parametrize(
    "name, text",
    [
        ("data.csv", CSV),
        ("DATA.CSV", "\ufeff" + CSV.replace("\n1", "\r\n1").replace("\n2", "\r\n2")),
        ("data.csv.gz", CSV),
        ("DATA.CSV.GZ", CSV),
        (
            "data.jsonl",
            '{"text": "What a film, \\"really\\"!", "label": "good"}\n\n'
            '{"text": "Two\\nlines.", "label": "bad", "x": 1}',
        ),
    ],
)
def test_csv_and_json_lines_are_read_also_compressed(tmp_path, name, text):
    content = gzip.compress(text.encode()) if name.lower().endswith(".gz") else text
    split = read_table(write(tmp_path, content, name), "text", label_column="label")
    assert split.texts == ['What a film, "really"!', "Two\nlines."] and split.labels == ["good", "bad"]


def test_several_labels_of_a_text_have_a_separator_in_a_csv_file(tmp_path):
    path = write(tmp_path, "text,topics\na,film | fun\nb, \nc,fun\n")
    split = read_table(path, "text", label_column="topics", label_separator="|")
    assert split.labels == [["film", "fun"], [], ["fun"]]
    with pytest.raises(ValueError, match="line 2: Expected a label. Remove the row, or add a label. Received: ''"):
        read_table(write(tmp_path, "text,topics\na,film|\n"), "text", label_column="topics", label_separator="|")


def test_a_separator_of_labels_requires_a_string_labels_and_files_without_types(tmp_path):
    path = write(tmp_path, "text,topics\na,film|fun\n")
    rows = [{"text": "a", "topics": "film|fun"}]
    write(tmp_path, json.dumps(rows[0]), "dev.jsonl")
    for source, column, separator, message in [
        (path, "topics", "", "must be a string. Received: label_separator=''"),
        (path, None, 5, "must be a string. Received: label_separator=5"),
        (path, None, "|", r"requires one `label_column`. Received: label_separator='\|'"),
        (rows, "topics", "|", "In other tables, labels are lists. .* and the table list"),
        ({"train": path, "dev": tmp_path / "dev.jsonl"}, "topics", "|", "requires CSV or TSV files. .*dev.jsonl"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_table(source, "text", label_column=column, label_separator=separator)


def test_lists_of_labels_become_lists_of_names_that_a_task_takes(tmp_path):
    names = ["film", "fun"]
    path = write(tmp_path, "text,topics\na,film|fun\nb,fun|film\n")
    split = read_table(path, "text", label_column="topics", label_names=names, label_separator="|")
    assert split.labels == [["film", "fun"], ["fun", "film"]]  # Positions would be taken as zeros and ones.
    positions = [{"text": "a", "topics": [1, 0]}, {"text": "b", "topics": [1]}, {"text": "c", "topics": []}]
    assert read_table(positions, "text", label_column="topics", label_names=names).labels == [
        ["fun", "film"],
        ["fun"],
        [],
    ]
    hot = [{"text": "a", "topics": [1, 0]}, {"text": "b", "topics": [0, 0]}]
    assert read_table(hot, "text", label_column="topics", label_names=names).labels == [[1, 0], [0, 0]]
    with pytest.raises(ValueError, match=r"row 1: The labels of all rows must be lists, .* 'fun' after \['film'\]"):
        read_table([{"t": "a", "y": ["film"]}, {"t": "b", "y": "fun"}], "t", label_column="y", label_names=names)


@pytest.mark.parametrize("name", ["data.tsv", "DATA.TSV"])
def test_quotes_in_a_tsv_file_are_a_part_of_the_text(tmp_path, name):
    path = write(tmp_path, 'a\tb\n"yes" she said\t"no\n', name)
    assert read_table(str(path), "a", pair_column="b") == ((['"yes" she said'], ['"no']), None)


def test_a_text_may_be_longer_than_the_limit_of_the_csv_module(tmp_path):
    limit = csv.field_size_limit()
    csv.field_size_limit(1000)
    try:
        assert read_table(write(tmp_path, f"t,y\n{'a' * 200_000},b\n"), "t", label_column="y").texts == ["a" * 200_000]
        assert csv.field_size_limit() == 1000
    finally:
        csv.field_size_limit(limit)


@pytest.mark.parametrize(
    "values, expected",
    [
        (["3", "-1"], [3, -1]),
        (["3", "0.5"], [3.0, 0.5]),
        (["1e3", "2"], [1000.0, 2.0]),
        ([".5", "-.7"], [0.5, -0.7]),
        (["+1", "-1"], [1, -1]),
        (["1.", "2"], [1.0, 2.0]),
        (["1e400", "x"], ["1e400", "x"]),
        (["10", "007"], ["10", "007"]),
        (["a1", "B"], ["a1", "B"]),
    ],
)
def test_labels_of_a_csv_file_are_numbers_if_all_of_them_are(tmp_path, values, expected):
    labels = read_table(
        write(tmp_path, "t,y\n" + "".join(f"x,{value}\n" for value in values)), "t", label_column="y"
    ).labels
    assert labels == expected and [type(label) for label in labels] == [type(label) for label in expected]


def test_labels_of_json_lines_keep_their_types(tmp_path):
    def labels(*values):
        rows = "".join(json.dumps({"t": "x", "y": value}) + "\n" for value in values)
        return read_table(write(tmp_path, rows, "data.json"), "t", label_column="y").labels

    assert labels("1", "2") == ["1", "2"] and labels(True, False) == ["true", "false"] and labels(1, 0.5) == [1.0, 0.5]
    assert labels(["a", "b"], []) == [["a", "b"], []]


def test_with_label_names_labels_become_positions(tmp_path):
    path = write(tmp_path, "t,y\nx,bad\nx,good\nx,bad\n")
    assert read_table(path, "t", label_column="y", label_names=["good", "bad"]).labels == [1, 0, 1]
    rows = [{"t": "x", "y": ["b", "a"]}, {"t": "x", "y": []}]
    assert read_table(rows, "t", label_column="y", label_names=["a", "b"]).labels == [["b", "a"], []]
    with pytest.raises(ValueError, match=r"line 2: Unknown label. Did you mean 'Bad'\? .* Received: 'bad'"):
        read_table(path, "t", label_column="y", label_names=["Good", "Bad"])


def test_labels_are_all_names_or_all_positions():
    def labels(*values, names):
        return read_table([{"t": "x", "y": value} for value in values], "t", label_column="y", label_names=names).labels

    stars = ["1", "2", "3", "4", "5"]
    assert labels(1, 0, names=["good", "bad"]) == labels("1", "0", names=["good", "bad"]) == [1, 0]
    assert labels(1, 5, names=stars) == labels("1", "5", names=stars) == [0, 4]
    assert labels([2, 1], [], names=stars) == [["2", "1"], []]
    for values, row, first in (((1, 0, 5), 1, "0"), (("3", "0"), 1, "'0'")):
        with pytest.raises(ValueError, match=f"row {row}: Unknown label. .* Received: {first}"):
            labels(*values, names=stars)
    for values, row in ((("good", "1"), 1), (("1", "good"), 0), ((["good"], ["good", 1]), 1)):
        with pytest.raises(ValueError, match=rf"row {row}: Unknown label. Expected one of .* Received: '?1'?"):
            labels(*values, names=["good", "bad"])


def test_positions_may_be_float_because_of_an_empty_cell(tmp_path):
    names = ["bad", "good"]
    assert read_table(write(tmp_path, "t,y\nx,1.0\nx,0.0\n"), "t", "y", label_names=names).labels == [1, 0]
    assert read_table([{"t": "x", "y": 1.0}, {"t": "x", "y": 0.0}], "t", "y", label_names=names).labels == [1, 0]
    versions = ["1.0", "v2.0"]
    assert read_table(write(tmp_path, "t,y\nx,v2.0\nx,1.0\n"), "t", "y", label_names=versions).labels == [1, 0]


def test_a_dict_of_tables_becomes_splits_with_the_sorted_names_of_all(tmp_path):
    path = write(tmp_path, CSV)
    data = read_table({"train": path, "test": [{"text": "Fine.", "label": "fine"}]}, "text", label_column="label")
    assert list(data) == ["train", "test"] and data.label_names == ["bad", "fine", "good"]
    assert data.train == read_table(path, "text", label_column="label") and data.test == (["Fine."], ["fine"])
    assert read_table({"train": path}, "text", label_column="id").label_names is None
    assert read_table({"train": path}, "text", label_column="label", label_names=["good", "bad"]).label_names == [
        "good",
        "bad",
    ]


def test_splits_with_labels_of_different_types_are_an_error_that_names_the_split():
    def read(**labels):
        splits = {name: [{"t": "x", "y": label} for label in values] for name, values in labels.items()}
        return read_table(splits, "t", label_column="y")

    for splits, message in [
        ({"train": [1, 0], "dev": ["pos"]}, "dev: .*Expected numbers, as in 'train'. Received: names"),
        ({"train": ["a"], "dev": ["b"], "test": [["a"]]}, "test: .*Expected names, .*Received: lists of names"),
    ]:
        with pytest.raises(ValueError, match=message):
            read(**splits)
    data = read(train=[1, 2], dev=[0.5, 3])
    assert {type(label) for split in data.values() for label in split.labels} == {float} and data.label_names is None
    assert read(train=[["b", "a"]], dev=[[]]).label_names == ["a", "b"]
    hugging_face = [HuggingFaceDataset({"t": ["a"], "label": [0]}, names) for names in (["pos", "neg"], ["neg", "pos"])]
    with pytest.raises(
        ValueError, match=r"dev: .*Expected \['pos', 'neg'\], as in 'train'. Received: \['neg', 'pos'\]"
    ):
        read_table(dict(zip(("train", "dev"), hugging_face)), "t", label_column="label")


def test_pandas_tables_are_read():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"t": ["a", "b"], "u": ["c", "d"], "y": pandas.Categorical(["no", "yes"]), "z": [1, 2]})
    assert read_table(table, "t", label_column="y", pair_column="u") == ((["a", "b"], ["c", "d"]), ["no", "yes"])
    labels = read_table(table, "t", label_column="z").labels
    assert labels == [1, 2] and type(labels[0]) is int
    table.loc[1, "t"] = None
    with pytest.raises(ValueError, match="row 1: Expected a text. Remove the row, or add a text. Received: "):
        read_table(table, "t", label_column="y")
    table = pandas.DataFrame({"t": ["a", "b"], "y": [1, None]})
    with pytest.raises(ValueError, match="row 1: Expected a label. Remove the row, or add a label. Received: nan"):
        read_table(table, "t", label_column="y")


def test_class_labels_of_hugging_face_become_names_in_their_order():
    train = HuggingFaceDataset({"text": ["a", "b"], "label": [1, 0]}, ["pos", "neg"])
    test = HuggingFaceDataset({"text": ["c"], "label": [-1]}, ["pos", "neg"])
    assert read_table(train, "text", label_column="label") == (["a", "b"], ["neg", "pos"])
    data = read_table({"train": train, "test": test}, "text", label_column="label")
    assert data.label_names == ["pos", "neg"] and data.test == (["c"], None)
    stars = HuggingFaceDataset({"text": ["a", "b"], "label": [1, 0]}, ["1", "2"])
    assert read_table(stars, "text", label_column="label").labels == ["2", "1"]  # always positions
    part = HuggingFaceDataset({"text": ["a", "b"], "label": [1, -1]}, ["pos", "neg"])
    with pytest.raises(ValueError, match="row 1: Expected the position of one of .'pos', 'neg'.. Received: -1"):
        read_table(part, "text", label_column="label")
    assert read_table(HuggingFaceDataset({"text": ["a"], "label": [2.5]}), "text", label_column="label").labels == [2.5]


def test_tensorflow_datasets_of_dicts_are_read_batched_or_not():
    tf = pytest.importorskip("tensorflow")
    data = tf.data.Dataset.from_tensor_slices({"text": ["naïve", "b"], "label": [1, 0], "id": [7, 8]})
    for source in (data, data.batch(2), data.as_numpy_iterator()):
        split = read_table(source, "text", label_column="label", label_names=["neg", "pos"])
        assert split == (["naïve", "b"], [1, 0]) and type(split.labels[0]) is int
    several = tf.data.Dataset.from_tensor_slices({"text": ["a", "b"], "label": [[1, 0], [0, 1]]})
    for source in (several, several.batch(2)):
        assert read_table(source, "text", label_column="label") == (["a", "b"], [[1, 0], [0, 1]])
    with pytest.raises(ValueError, match="Call `tfds.load` without `as_supervised=True`"):
        read_table(data.map(lambda row: (row["text"], row["label"])), "text", label_column="label")


def test_rows_may_be_dicts_of_numpy_values():
    rows = [{"t": "a", "y": np.float32(0.5)}, {"t": np.str_("b"), "y": np.float32(2)}]
    split = read_table(rows, "t", label_column="y")
    assert split == (["a", "b"], [0.5, 2.0]) and {type(value) for value in (*split.texts, *split.labels)} == {
        str,
        float,
    }


@pytest.mark.parametrize(
    "text, columns, message",
    [
        (
            CSV,
            ("txt", "label"),
            r"no column 'txt'. Did you mean 'text'\? Expected one of .*Received: text_column='txt'",
        ),
        (CSV, ("text", "Label"), r"Did you mean 'label'\? .* Received: label_column='Label'"),
        (CSV, ("text", "label", "second"), "no column 'second'. Expected .* Received: pair_column='second'"),
        ("t,y\na,1\nb\n", ("t", "y"), "line 3: Expected 2 fields, .* The file may have been cut. Received: 1 fields"),
        ("t,y\na,1\nb,2,3\n", ("t", "y"), "line 3: Expected 2 fields"),
        ("t,y\na,1\nb,good\n", ("t", "y"), "line 3: Labels must be all names or all numbers. .* 'good' after '1'"),
        ("t,y\na,bad\nb,007\nc,1\n", ("t", "y"), "line 4: Labels must be .* Received: '1' after 'bad'"),
        ("t,y\n,1\n", ("t", "y"), "line 2: Expected a text"),
        ("t,y\na,\n", ("t", "y"), "line 2: Expected a label"),
        ("t,t\na,b\n", ("t",), "The names of the columns must be unique"),
        ("t,y\n", ("t",), "Expected at least one row. Received: no rows"),
        ("", ("t",), "Expected at least one row"),
        ('t,y\na,1\n"b', ("t", "y"), "line 3: Expected a row whose quotes are closed. The file may have been cut."),
        ("t,y\na,1\nb,1e400\n", ("t", "y"), "line 3: Labels must be all names or all numbers. .* '1e400' after '1'"),
        ("t\na\n\nb\n", ("t",), "line 3: Expected a text. Remove the row"),
        (b"t,y\na,1\n\xe9,2\n", ("t", "y"), r"line 3: Expected UTF-8. Pass .* 'é,2' \(cp1252\).* Received: b'\\xe9,2"),
    ],
)
def test_a_mistake_in_a_csv_file_is_one_error(tmp_path, text, columns, message):
    text_column, label_column, pair_column = (*columns, None, None)[:3]
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path, text), text_column, label_column=label_column, pair_column=pair_column)


def test_a_mistake_in_rows_is_one_error():
    for rows, message in [
        ([{"t": "a", "y": 1}, {"t": "b", "y": "good"}], "row 1: Labels must be all names or all numbers"),
        ([{"t": "a", "y": ["b"]}, {"t": "b", "y": "good"}], "row 1: Labels must be .* Received: 'good' after .'b'."),
        ([{"t": "a", "y": 1}, {"t": 2, "y": 1}], "row 1: Expected a text. .* Received: 2"),
        ([{"t": "a", "y": 1}, {"t": "a"}], "row 1: Expected a label. .* Received: None"),
        ([("a", 1)], "row 0: Expected a dict. Received: .'a', 1."),
        ([], "list: Expected at least one row"),
        (7, "must be a path, .* Received: source=7"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_table(rows, "t", label_column="y")
    with pytest.raises(ValueError, match="dev: row 0: Expected a text"):
        read_table({"dev": [{"t": None}]}, "t")


def test_a_file_that_is_cut_missing_or_of_another_format_is_an_error(tmp_path):
    path = write(tmp_path, gzip.compress(CSV.encode() * 50)[:-20], "data.csv.gz")
    with pytest.raises(ValueError, match=r"data.csv.gz: Expected a complete gzip file"):
        read_table(path, "text")
    whole = gzip.compress(CSV.encode())
    for place in range(10, len(whole) - 4):  # after the header, to the checksum
        damaged = bytearray(whole)
        damaged[place] ^= 4
        with pytest.raises(ValueError, match=r"data.csv.gz: Expected a complete gzip file. .* Received: "):
            read_table(write(tmp_path, bytes(damaged), "data.csv.gz"), "text")
    path = write(tmp_path, '{"text": "a"}\n{"text": "b', "data.jsonl")
    with pytest.raises(ValueError, match=r"data.jsonl, line 2: Expected complete JSON. The file may have been cut."):
        read_table(path, "text")
    with pytest.raises(FileNotFoundError, match=r"The table does not exist. Received: .*none.csv"):
        read_table(tmp_path / "none.csv", "text")


def test_booleans_are_the_names_of_booleans_in_any_order(tmp_path):
    path = write(tmp_path, '{"t": "x", "y": true}\n{"t": "x", "y": false}\n', "data.jsonl")
    for names, expected in ((["False", "True"], [1, 0]), (["true", "false"], [0, 1]), (["no", "yes"], [1, 0])):
        assert read_table(path, "t", label_column="y", label_names=names).labels == expected


def test_booleans_without_label_names_are_the_words_of_the_table(tmp_path):
    def names_of(source):
        return read_table({"train": source}, "t", label_column="y").label_names

    assert names_of([{"t": "x", "y": np.bool_(True)}, {"t": "x", "y": False}]) == ["False", "True"]
    assert names_of(write(tmp_path, "t,y\nx,True\nx,False\n")) == ["False", "True"]
    path = write(tmp_path, '{"t": "x", "y": true}\n{"t": "x", "y": false}\n', "data.jsonl")
    assert names_of(path) == ["false", "true"]
    assert read_texts(path, "t", "y")[1] == ["true", "false"]  # as the command reads it
    with pytest.raises(ValueError, match="all names or all numbers.*Received: 1 after 'True'"):
        names_of([{"t": "x", "y": True}, {"t": "x", "y": 1}])


@pytest.mark.parametrize("names", ["xy", ["x", "x"], []])
def test_label_names_are_a_list_of_different_names(names):
    with pytest.raises(ValueError, match="`label_names` must be a list of different names. Received: label_names="):
        read_table([{"t": "a", "y": "x"}], "t", label_column="y", label_names=names)


def test_labels_must_differ_by_more_than_spaces(tmp_path):
    with pytest.raises(ValueError, match="must not differ only in the spaces.*Received: 'good' and 'good '"):
        read_table(write(tmp_path, "t,y\nx,good\nx,bad\nx,good \n"), "t", label_column="y")
    paths = {"train": write(tmp_path, "t,y\nx,good\n"), "test": write(tmp_path, "t,y\nx,good \n", "test.csv")}
    with pytest.raises(ValueError, match="must not differ only in the spaces"):
        read_table(paths, "t", label_column="y")
    with pytest.raises(ValueError, match="line 2: Expected a label.*Received: ' '"):
        read_table(write(tmp_path, "t,y\nx, \n"), "t", label_column="y")


def test_a_column_must_be_one_and_not_both_texts_and_labels(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([["x", "a", "b"]], columns=["t", "y", "y"])
    with pytest.raises(ValueError, match=r"must be unique. Rename one of the columns 'y'. Received: \['t', 'y', 'y'\]"):
        read_table(table, "t", label_column="y")
    with pytest.raises(ValueError, match="must be another column.*label_column='t'"):
        read_table(table, "t", label_column="t")
