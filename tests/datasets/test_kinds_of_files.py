"""Files as practitioners have them: each kind is read in at most three lines, or one error names the next step."""

import bz2
import gzip
import io
import json
import lzma
import zipfile

import pytest

from keras_transfer import datasets
from keras_transfer.cli.labelled_texts import Table, read_column, read_parts, read_texts
from keras_transfer.core import tables
from keras_transfer.datasets import read_table
from keras_transfer_command import make_parser
from tests.errors import check_errors

TEXTS = ["Go now, crazy.. only £5", 'He said "no", twice', "Ok; naïve | plain"]
LABELS = ["ham", "spam", "ham"]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS)]
CHINESE = ["房间很大，也很干净", "服务态度不好", "早餐还可以"]


def fields(separator=",", quoted=True, header=True, texts=TEXTS):
    """The rows as fields, in quotes where a text needs them."""

    def quote(text):
        needed = quoted and any(character in text for character in (separator, '"', "\n"))
        return '"' + text.replace('"', '""') + '"' if needed else text

    rows = [["text", "label"]] * header + [[quote(text), label] for text, label in zip(texts, LABELS)]
    return "".join(separator.join(row) + "\n" for row in rows)


def zipped(text, *names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, text)
    return file.getvalue()


def write(folder, name, content):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


COLUMNS = {"text": dict(enumerate(TEXTS)), "label": dict(enumerate(LABELS))}
SPLIT = {"columns": ["text", "label"], "index": [0, 1, 2], "data": [list(row.values()) for row in ROWS]}
KINDS = {  # The name of a file, its content, and the arguments with which it is read.
    "CSV": ("a.csv", fields(), {}),
    "TSV without quotes": ("a.tsv", fields("\t", quoted=False), {}),
    "semicolons in .csv": ("a.csv", fields(";"), {}),
    "tabs in .csv": ("a.csv", fields("\t", quoted=False), {}),
    "commas in .tsv": ("a.tsv", fields(","), {}),
    "bars in .txt": ("a.txt", fields("|"), {}),
    "TSV of pandas or Excel": ("a.tsv", fields("\t"), {}),
    "SMS spam, without a header or an ending": (
        "SMSSpamCollection",
        "".join(f"{label}\t{text}\n" for text, label in zip(TEXTS, LABELS)),
        {"text_column": 1, "label_column": 0, "header": None},
    ),
    "Windows": ("a.csv", fields().encode("cp1252"), {"encoding": "cp1252"}),
    "UTF-16 of Excel": ("a.txt", fields("\t").encode("utf-16"), {}),
    "UTF-16 without a mark": ("a.csv", fields().encode("utf-16-le"), {"encoding": "utf-16-le"}),
    "UTF-8 with a mark": ("a.csv", fields().encode("utf-8-sig"), {}),
    "zip": ("a.zip", zipped(fields(), "b.csv", "__MACOSX/._b.csv"), {}),
    "gzip by another name": ("a.csv", gzip.compress(fields().encode()), {}),
    "text that is named gzip": ("a.csv.gz", fields(), {}),
    "bz2": ("a.tsv.bz2", bz2.compress(fields("\t", quoted=False).encode()), {}),
    "xz": ("a.jsonl.xz", lzma.compress("\n".join(map(json.dumps, ROWS)).encode()), {}),
    "JSON Lines": ("a.jsonl", "\n".join(map(json.dumps, ROWS)), {}),
    "JSON Lines in .json": ("a.json", "\n".join(map(json.dumps, ROWS)), {}),
    "JSON Lines in .txt": ("a.txt", "\n".join(map(json.dumps, ROWS)), {}),
    "JSON array": ("a.json", json.dumps(ROWS), {}),
    "indented JSON": ("a.json", json.dumps(ROWS, indent=2), {}),
    "indented JSON in .jsonl": ("a.jsonl", json.dumps(ROWS, indent=2), {}),
    "JSON of pandas, columns": ("a.json", json.dumps(COLUMNS), {}),
    "JSON of pandas, split": ("a.json", json.dumps(SPLIT), {}),
    "JSON of pandas, index": ("a.json", json.dumps(dict(enumerate(ROWS))), {}),
    "JSON of pandas, table": ("a.json", json.dumps({"schema": {"fields": []}, "data": ROWS}), {}),
    "JSON of columns": ("a.json", json.dumps({"text": TEXTS, "label": LABELS}, indent=1), {}),
    "JSON of one row on several lines": ("a.json", json.dumps(ROWS[:1], indent=1), {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_read_by_the_library_and_by_the_command(kind, tmp_path):
    name, content, options = KINDS[kind]
    path, options = write(tmp_path, name, content), {"text_column": "text", "label_column": "label", **options}
    count = 1 if "one row" in kind else 3
    assert read_table(path, **options) == (TEXTS[:count], LABELS[:count])
    command = {"encoding": options.get("encoding"), "no_header": "header" in options}
    command |= {"text": str(options["text_column"]), "label": str(options["label_column"])}
    assert read_texts(path, **command) == (TEXTS[:count], LABELS[:count])


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "cp1252"])
def test_an_error_names_the_encoding_or_the_mark_of_the_file_does(encoding, tmp_path):
    text = fields(texts=CHINESE if encoding != "cp1252" else ["Café"])
    path = write(tmp_path, "a.csv", text.encode(encoding))
    if encoding != "utf-16":
        shown = {"gb18030": "'房间很大", "cp1252": "'Café,ham' (cp1252)"}[encoding]
        with pytest.raises(
            ValueError, match="line 2: Expected UTF-8. Pass `encoding` if one of these is right: "
        ) as error:
            read_table(path, "text", "label")
        assert shown in str(error.value)
    expected = CHINESE if encoding != "cp1252" else ["Café"]
    assert read_table(path, "text", "label", encoding=None if encoding == "utf-16" else encoding).texts == expected


def test_an_excel_file_is_read_by_pandas(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "label": [1, 0, 1]})
    monkeypatch.setattr(pandas, "read_excel", lambda path, header: frame)
    path = write(tmp_path, "a.xlsx", b"PK")
    assert read_table(path, "text", "label") == (TEXTS, [1, 0, 1])
    assert read_texts(path)[1] == ["1", "0", "1"]
    monkeypatch.undo()
    with pytest.raises(ValueError, match="a.xlsx: Expected an Excel file. Save it as .csv, and read that. Received: "):
        read_table(write(tmp_path, "a.xlsx", b"x"), "text", "label")


def test_the_command_reads_only_the_columns_that_it_needs(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path, read = tmp_path / "a.parquet", []
    parquet.write_table(pyarrow.table({"text": TEXTS, "other": TEXTS, "label": LABELS}), path)
    of_file = tables.record_batches
    monkeypatch.setattr(tables, "record_batches", lambda path, columns: read.append(columns) or of_file(path, columns))
    assert read_texts(path) == (TEXTS, LABELS) and read_column(path) == TEXTS
    assert read == [["text", "label"], ["text"]]
    assert "other" in next(iter(Table(path, ["text"])))[1]  # Predictions are written beside all columns.


def test_a_parquet_file_is_read_by_the_command_too(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": TEXTS, "label": [True, False, True]}), path)
    assert read_table(path, "text", "label") == (TEXTS, ["True", "False", "True"])
    assert read_texts(path) == (TEXTS, ["true", "false", "true"])
    with pytest.raises(
        ValueError, match="`separator` and `header` are for files with separated fields. Received: .*a.p"
    ):
        read_table(path, "text", separator=";")


def test_only_the_columns_that_are_needed_of_a_parquet_file_become_python_objects(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path, columns = tmp_path / "a.parquet", [TEXTS, LABELS, [[0.0] * 8] * 3]
    parquet.write_table(pyarrow.table(columns, ["text", "label", "vector"]), path)
    assert [row for _, row in tables.Table(path, columns=["text", "label"])] == ROWS
    with pytest.raises(ValueError, match=r"no column 'body'. Expected one of \['text', 'label', 'vector'\]"):
        read_table(path, "body")
    parquet.write_table(pyarrow.table(columns, ["text", "label", "label"]), path)
    with pytest.raises(ValueError, match="The names of the columns must be unique. Rename one of the columns 'label'"):
        read_table(path, "text", "label")


def test_the_fraction_of_a_compressed_table_is_that_of_its_content(tmp_path):
    table = tables.Table(write(tmp_path, "a.csv.gz", gzip.compress(b"text\n" + b"a\n" * 1000)))
    fractions = [table.fraction for _ in table]
    assert fractions[0] < 0.01 and fractions[500] == pytest.approx(0.5, abs=0.01) and fractions[-1] == 1


def test_what_the_name_does_not_say_is_logged_in_one_line(tmp_path, caplog):
    for name, content, found in [
        ("a.csv", fields(";"), "fields separated by ';'"),
        ("a.tsv", fields("\t"), "fields in quotes, which are removed"),
        ("a.txt", fields("\t").encode("utf-16"), "UTF-16, fields separated by '\\t', fields in quotes"),
        ("a.json", json.dumps(SPLIT), "the parts 'columns' and 'data'"),
        ("a.txt", json.dumps(ROWS), "JSON"),
    ]:
        caplog.clear()
        read_table(write(tmp_path, name, content), "text", "label")
        [message] = caplog.messages
        assert found in message and message.endswith("columns ['text', 'label'].")
    caplog.clear()
    for name in ("a.csv", "a.tsv"):
        read_table(write(tmp_path, name, fields("," if name == "a.csv" else "\t", name == "a.csv")), "text", "label")
    assert not caplog.messages


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (['"yes" she said\ta', '"a ""b"""\tb'], ['"yes" she said', '"a ""b"""']),  # not closed at the end of a field
        (['"Fine."\ta', "b\tb"], ['"Fine."', "b"]),  # a quotation, which no writer would put into quotes
        (['5" disk\ta', '"a ""b"""\tb'], ['5" disk', '"a ""b"""']),  # a writer would quote the first one too
        (['"a ""b"""\ta', "it's, so\tb"], ['a "b"', "it's, so"]),  # pandas
        (['"well, so"\ta', "b\tb"], ["well, so", "b"]),  # Excel
        (['"two\nlines"\ta', "b\tb"], ["two\nlines", "b"]),
    ],
)
def test_quotes_between_tabs_are_removed_only_if_a_writer_of_tables_wrote_all_fields(rows, expected, tmp_path):
    path = write(tmp_path, "a.tsv", "\n".join(["text\tlabel", *rows]) + "\n")
    assert read_table(path, "text", "label").texts == expected


@pytest.mark.parametrize("quoted", [True, False])
def test_whether_tabs_separate_fields_in_quotes_is_found_in_the_first_lines(quoted, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_QUOTED", 4)  # The last of these lines ends within a text in quotes.
    rows = ['"a, ""b"""\ta', "b\tb", '"two\nlines"\ta'] if quoted else ['"Fine."\ta', "b\tb", '"two\ta']
    path = write(tmp_path, "a.tsv", "\n".join(["text\tlabel", *rows, "b\tb"]) + "\n")
    decoded, lines = tables.Table._decoded, []
    monkeypatch.setattr(tables.Table, "_decoded", lambda *args: (lines.append(line) or line for line in decoded(*args)))
    expected = ['a, "b"', "b", "two\nlines", "b"] if quoted else ['"Fine."', "b", '"two', "b"]
    assert read_table(path, "text", "label").texts == expected
    assert len(lines) == 4 + 2 * len(path.read_text().splitlines())  # The separator is found in all of so few lines.


def test_a_text_in_brackets_in_the_first_line_is_no_json(tmp_path):
    path = write(tmp_path, "a.csv", '["No"] she said,x\nb,y\n')
    assert read_table(path, 0, 1, header=None).texts == ['["No"] she said', "b"]


def test_the_separator_is_found_where_a_text_with_line_ends_crosses_the_end_of_the_sample(tmp_path):
    path = write(tmp_path, "a.csv", "text;label\n" + 'a, b;x\n"two\nlines";y\n' * 50)
    assert len(read_table(path, "text", "label").texts) == 100


def test_one_column_per_label_becomes_lists_of_names(tmp_path):
    content = "text,toxic,insult\na,1,0\nb,0,\nc,true,X\n"
    path, columns = write(tmp_path, "a.csv", content), ["toxic", "insult"]
    expected = [["toxic"], [], ["toxic", "insult"]]
    assert read_table(path, "text", columns) == (["a", "b", "c"], expected)
    assert read_texts(path, label=columns, kind="multi-label") == (["a", "b", "c"], expected)
    data = read_table({"train": path}, "text", columns)
    assert data.label_names == columns
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a", "b"], "toxic": [1.0, 0.0], "insult": [True, False]})
    assert read_table(frame, "text", columns).labels == [["toxic", "insult"], []]


def test_labels_that_join_several_are_separated_or_named_in_a_warning(tmp_path, caplog):
    path = write(tmp_path, "a.tsv", "I see\t27\tid1\nOh no\t2,7\tid2\nWhat\t7\tid3\nNo\t2\tid4\n")  # as GoEmotions
    options = {"text_column": 0, "label_column": 1, "header": None}
    with pytest.raises(ValueError, match=r"line 2: .*all numbers. Pass `label_separator=','` if .* '2,7' after '27'"):
        read_table(path, **options)
    split = read_table(path, **options, label_separator=",")
    assert split.labels == [["27"], ["2", "7"], ["7"], ["2"]]
    command = {"text": "0", "label": "1", "no_header": True}
    assert read_texts(path, kind="multi-label", label_separator=",", **command)[1] == split.labels
    caplog.clear()
    assert read_texts(path, **command)[1] == ["27", "2,7", "7", "2"]
    assert "--label-separator ','" in caplog.text
    caplog.clear()
    path = write(tmp_path, "b.csv", 'text,label\nx,"a, b"\ny,a\nz,b\n')
    assert read_table(path, "text", "label").labels == ["a, b", "a", "b"]
    assert (
        "Some labels, such as 'a, b', look like several labels. If they are, pass `label_separator=','`" in caplog.text
    )
    caplog.clear()
    read_table(write(tmp_path, "c.csv", 'text,label\nx,"Boston, MA"\ny,"Austin, TX"\n'), "text", "label")
    assert not caplog.messages


def test_the_command_takes_one_column_per_label_and_how_the_table_is_read(tmp_path):
    line = ["train", "--data", "a.csv", "--label-column", "toxic", "insult", "--separator", ";", "--encoding", "cp1252"]
    options = make_parser().parse_args([*line, "--no-header", "--label-separator", ","])
    assert options.label_column == ["toxic", "insult"] and options.no_header and options.label_separator == ","
    path = write(tmp_path, "a.csv", "text,a,b\nx,1,0\ny,0,1\n")
    _, names = read_parts(path, label=["a", "b"], task="multi-label")
    assert names == ["a", "b"]
    with pytest.raises(ValueError, match="Several labels of a text require .*`--task multi-label`.* with 'a' 'b'"):
        read_parts(path, label=["a", "b"])


def test_an_unnamed_column_is_no_obstacle(tmp_path):
    path = write(tmp_path, "spam.csv", "v1,v2,,,\nham,a b,,,\nspam,c,,,\n")
    assert read_table(path, "v2", "v1") == (["a b", "c"], ["ham", "spam"])


def test_a_table_is_pretrained_on_by_its_column(tmp_path):
    from keras_transfer.core.documents import read_documents

    for name, content in [("a.csv", fields()), ("a.tsv", fields("\t")), ("a.json", json.dumps(COLUMNS))]:
        assert list(read_documents(write(tmp_path, name, content), "text", "line")) == [[text] for text in TEXTS]
    with pytest.raises(ValueError, match="Expected a column 'body'. Choose one with `text_column`. Received: .*text"):
        list(read_documents(tmp_path / "a.csv", "body", "line"))


def test_json_lines_are_pretrained_on_without_loading_the_file(tmp_path, monkeypatch):
    from keras_transfer.core.documents import read_documents

    rows = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    path = write(tmp_path, "shard.json.gz", gzip.compress(rows.encode()))
    monkeypatch.setattr("keras_transfer.core.lines.open_binary", None)  # It decompresses all of a file.
    assert list(read_documents(path, "text", "line")) == [[text] for text in TEXTS]


def test_the_rows_of_a_table_are_written_in_its_form(tmp_path):
    table = Table(write(tmp_path, "a.csv", fields("\t")), ["text"], separator="tab")
    assert (table.kind, table.dialect) == (".csv", {"delimiter": "\t"})


def read(name, content, **options):
    return lambda tmp_path: read_table(
        write(tmp_path, name, content), **{"text_column": "text", "label_column": "label", **options}
    )


ADVICE = "For a file without a header, pass `header=None`, and numbers as columns, such as `text_column=0`."
SQUAD = json.dumps({"version": "1.1", "data": [{"title": "a", "paragraphs": []}]})
test_a_file_that_is_no_such_table_is_one_error_with_the_next_step = check_errors(
    {
        "no header": (read("a.csv", fields(header=False)), f"no column 'text'. Expected one of ['Go now ... {ADVICE}"),
        "no header, command": (
            lambda tmp_path: read_texts(write(tmp_path, "a.csv", fields(header=False))),
            "no column 'text' ... For a file without a header, pass `--no-header`, and numbers from 0 as columns.",
        ),
        "a URL": (
            lambda: read_table("https://a.org/b.csv", "t"),
            "`keras.utils.get_file(origin=url)` ... read_csv(url)",
        ),
        "a damaged file with semicolons": (
            read("a.csv", "text;label\na;b\nc\n"),
            "contains ';'. Pass `separator=';'`.",
        ),
        "commas in a text": (
            read("a.csv", "text,label\na, b,x\n"),
            "line 2: Expected 2 ... must be in quotes. Received",
        ),
        "quotes of texts": (
            read("a.csv", 'text,label\n"a" b,x\n'),
            "line 2: ... `pandas.read_csv(path, quoting=3)`. R",
        ),
        "words": (read("a.tsv", "Ada\tB-PER\nsmiles\tO\n\nIt\tO\n"), "no column 'text' ... use `read_conll`"),
        "SQuAD": (read("a.json", SQUAD), "Read SQuAD's questions with `load_squad`. Received: paragraphs"),
        "a cut JSON array": (
            read("a.json", json.dumps(ROWS)[:-9]),
            "line 1: Expected complete JSON. The file may have",
        ),
        "a JSON array of texts": (read("a.json", json.dumps(TEXTS)), "row 0: Expected a JSON object. Received: 'Go"),
        "several files in a zip": (
            read("a.zip", zipped("", "train.csv", "test.csv")),
            "Expected one file in a zip file. Unpack it, and pass one of them. Received: ['train.csv', 'test.csv']",
        ),
        "a cut zip": (read("a.zip", zipped(fields(), "b.csv")[:50]), "Expected a complete compressed file"),
        "UTF-16 without a mark": (read("a.csv", fields().encode("utf-16-le")), "pass `encoding='utf-16-le'`. Received"),
        "the wrong encoding": (read("a.csv", fields(), encoding="ascii"), "line 2: Expected ASCII. Pass `encoding` if"),
        "no encoding": (read("a.csv", fields(), encoding="cp99"), "such as 'utf-8', 'cp1252' ... encoding='cp99'"),
        "a long separator": (read("a.csv", fields(), separator="::"), "one character ... `pandas.read_csv(path, sep="),
        "a wrong header": (read("a.csv", fields(), header=1), "`header` must be 0, or None ... header=1"),
        "a separator of rows": (
            lambda: read_table(ROWS, "text", separator=";"),
            "`separator` requires a file of text.",
        ),
        "labels without an answer": (
            read("a.csv", "text,b,c\na,1,-1\n", label_column=["b", "c"]),
            "line 2: A column of one label must have 1 or 0 ... Remove rows ... Received: {'b': '1', 'c': '-1'}",
        ),
        "names of label columns": (
            read("a.csv", "text,b,c\na,1,0\n", label_column=["b", "c"], label_names=["x", "y"]),
            "`label_names` are the names of the columns ... Leave it out.",
        ),
    }
)


def test_labels_that_look_like_missing_values_or_differ_in_case_get_a_warning(caplog):
    rows = [{"text": "a", "label": label} for label in ("Yes", "yes", "nan")]
    read_table(rows, "text", "label")
    assert "The class 'nan' looks like a missing value. If it is one, leave out its rows" in caplog.text
    assert "The classes 'Yes' and 'yes' differ only in case. If they are one class, convert the labels" in caplog.text


def test_the_call_of_the_page_reads_several_splits(tmp_path):
    path = write(tmp_path, "train.csv", fields())
    data = datasets.read_table({"train": path, "validation": path}, "text", "label")
    assert data.label_names == ["ham", "spam"] and data.validation.texts == TEXTS


def test_a_parquet_file_is_read_a_batch_at_a_time(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path, read = tmp_path / "a.parquet", []
    parquet.write_table(pyarrow.table({"text": TEXTS}), path)
    of_file = tables.record_batches

    def record_batches(path, columns):
        for batch in of_file(path, columns):
            read.append(batch)
            yield batch

    monkeypatch.setattr(tables, "record_batches", record_batches)
    table = tables.Table(path)
    assert table.names == ["text"] and not read
    assert list(table) == [(number, {"text": text}) for number, text in enumerate(TEXTS)] and len(read) == 1
