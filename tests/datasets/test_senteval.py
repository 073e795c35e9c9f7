"""Probing tasks of SentEval are read from files of made-up rows."""

from keras_transfer.datasets import read_senteval
from tests.errors import check_errors


def test_rows_are_read_into_their_splits(tmp_path):
    path = tmp_path / "odd_man_out.txt"
    path.write_text('te\tO\tA "late" row .\ntr\tC\tFirst row .\nva\tC\tHeld\tout .\ntr\tO\tSecond row .\n', "utf-8")
    found = read_senteval(path)
    assert found.label_names == ["C", "O"] and list(found) == ["train", "validation", "test"]
    assert found.train == (["First row .", "Second row ."], [0, 1])
    assert found.validation == (["Held\tout ."], [0]) and found.test == (['A "late" row .'], [1])


def made(tmp_path, text):
    path = tmp_path / "rows.txt"
    path.write_text(text, "utf-8")
    return read_senteval(path)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda tmp_path: made(tmp_path, "tr\tA\tx\ndev\tA\tx\n"), "rows.txt, line 2: Expected one of ['tr', 'va', 'te']"),
    (lambda tmp_path: made(tmp_path, "tr\tA\n"), "a label and a sentence ... Received: 'tr\\tA'"),
    (lambda tmp_path: made(tmp_path, "tr\tA\tx\nva\tA\tx\n"), "at least one line of the split 'te'"),
    (lambda tmp_path: read_senteval(tmp_path / "no.txt"), FileNotFoundError, "The file does not exist"),
)
