"""Files with a word and its label on each line are read, whatever their other columns, and mistakes name their line."""

import pytest

from keras_transfer.datasets import read_conll

PLAIN = "Ada\tB-PER\nsmiles\tO\n\nIt\tO\nrains\tO\n"
EXPECTED = ([["Ada", "smiles"], ["It", "rains"]], [["B-PER", "O"], ["O", "O"]])


def read(tmp_path, text, **options):
    (tmp_path / "a.tsv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_conll(tmp_path / "a.tsv", **options)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\t", " "),
        PLAIN.replace("\n", "\r\n"),
        "-DOCSTART-\tO\n\n" + PLAIN.replace("\n\n", "\n \n\n"),
        "# id 1 domain=en\n" + PLAIN,
        PLAIN.replace("\t", " X  Y "),
    ],
    ids=["tabs", "spaces", "CRLF", "documents", "comment", "more columns"],
)
def test_the_first_column_is_the_word_and_the_last_one_the_label(tmp_path, text):
    assert read(tmp_path, text) == EXPECTED


def test_other_columns_can_be_chosen(tmp_path):
    found = read(tmp_path, "1 Ada NNP PER\n2 smiles VBZ O\n", word_column=1, label_column=-2)
    assert found == ([["Ada", "smiles"]], [["NNP", "VBZ"]])


@pytest.mark.report("Odd characters in a CoNLL file shift the labels.", "flair#3654", "flair#3566", "flair#3515")
def test_a_word_can_contain_a_space_between_tabs_and_can_be_a_number_sign(tmp_path):
    assert read(tmp_path, "20 000\tNUM\n#\tSYM\n").words == [["20 000", "#"]]


@pytest.mark.parametrize(
    "text, options, message",
    [
        ("a\tX\nb\n", {}, r"a.tsv, line 2: Expected the word in column 0 and the label in column -1, .*: 'b'"),
        (
            "a X\nb c X\n",
            {},
            r"line 2: Expected 2 columns separated by tabs or spaces, as in line 1. Received: 'b c X'",
        ),
        ("a\t\tX\n", {"label_column": 1}, r"line 1: Expected the word in column 0 and the label in column 1, .*'a"),
        ("a X\n", {"label_column": 3}, r"line 1: Expected .* the label in column 3, counted from 0. Received: 'a X'"),
        (
            "a X\n",
            {"label_column": -2},
            r"must be different columns of .*a.tsv, whose lines have 2. Received: word_col",
        ),
        ("\n", {}, r"a.tsv: Expected at least one sentence. Received: no words"),
        ("# a b\n", {}, r"a.tsv: Expected at least one sentence. Received: only lines that begin with #"),
        (b"caf\xe9 X\n", {}, r"a.tsv, line 1: Expected UTF-8"),
        ("word,tag\nAda,PER\n", {}, r"line 1: .* Read a table with commas with `pandas.read_csv\(path\)`. Received"),
        ('{"text": "a", "label": "b"}\n', {}, r"line 1: .* Read a file of JSON with `read_table` or `load_squad`"),
        ("1\tAda\tAda\tPROPN\tNNP\t_\t0\troot\t_\tSpaceAfter=No\n", {}, r"line 1: .* `read_conllu\(path\)`, or"),
    ],
)
def test_a_mistake_is_an_error_that_names_its_line(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text, **options)


@pytest.mark.parametrize(
    "text",
    [
        "Ada/B-PER smiles/O\nIt/O rains/O\n",
        "Ada_B-PER smiles_O\n\nIt_O rains_O\n",
        "Ada smiles\tB-PER O\nIt rains\tO O\n",
    ],
)
def test_a_file_with_a_sentence_on_each_line_is_read(tmp_path, text):
    assert read(tmp_path, text) == EXPECTED


def test_words_may_contain_the_character_between_words_and_labels(tmp_path):
    assert read(tmp_path, "and/or/CC 1/2/CD ./.\n").words == [["and/or", "1/2", "."]]
    assert read(tmp_path, "a/b X\n1/2 O\n") == ([["a/b", "1/2"]], [["X", "O"]])


def test_a_line_with_the_names_of_the_columns_is_left_out_with_a_warning(tmp_path, caplog):
    assert read(tmp_path, "Token\tLabel\n" + PLAIN) == EXPECTED
    assert "the names of the columns" in caplog.text
    assert read(tmp_path, "Token\tLabel\n\n" + PLAIN) == EXPECTED
    assert read(tmp_path, "word\tNOUN\nlabels\tNOUN\n").words == [["word", "labels"]]


def test_columns_of_conllu_can_be_chosen(tmp_path):
    line = "1\tAda\tAda\tPROPN\tNNP\t_\t0\troot\t_\tSpaceAfter=No\n"
    assert read(tmp_path, line, word_column=1, label_column=3) == ([["Ada"]], [["PROPN"]])
