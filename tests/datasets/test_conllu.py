"""CoNLL-U files are read as specified, and an invalid line is an error that names it."""

import pytest

from keras_transfer.datasets import load_universal_dependencies, read_conllu

DOGS = (
    "# text = Dogs bark\n"
    "1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t2\tnsubj\t_\t_\n"
    "2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n"
)
GERMAN = (
    "1-2\tzum\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tzu\tzu\tADP\t_\t_\t3\tcase\t_\t_\n"
    "2\tdem\tder\tDET\t_\t_\t3\tdet\t_\t_\n"
    "2.1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "3\t20 000\t20 000\tNUM\t_\t_\t0\troot\t_\t_\n"
)


def read(tmp_path, text, field="upos"):
    (tmp_path / "a.conllu").write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_conllu(tmp_path / "a.conllu", field=field)


def word(number, form="x", **columns):
    """Returns the line of a word with the given columns, or with the upos X."""
    names = ("lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
    return "\t".join([str(number), form, *({"upos": "X", **columns}.get(name, "_") for name in names)])


def test_words_and_labels_are_read_and_ranges_and_empty_nodes_are_skipped(tmp_path):
    words, labels = read(tmp_path, DOGS + "\n" + GERMAN + "\n")
    assert words == [["Dogs", "bark"], ["zu", "dem", "20 000"]]
    assert labels == [["NOUN", "VERB"], ["ADP", "DET", "NUM"]]


@pytest.mark.parametrize(
    "field, expected",
    [
        ("lemma", ["dog", "bark"]),
        ("xpos", ["NNS", "VBP"]),
        ("feats", ["Number=Plur", "_"]),
        ("deprel", ["nsubj", "root"]),
    ],
)
def test_labels_may_come_from_another_column(tmp_path, field, expected):
    assert read(tmp_path, DOGS, field).labels == [expected]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: "# newdoc\n\n\n" + text.replace("\n\n", "\n \n\n") + "\n\n\n",
    ],
    ids=["CRLF", "BOM", "no last line end", "more blank lines"],
)
def test_line_endings_a_bom_and_blank_lines_make_no_difference(tmp_path, change):
    plain = DOGS + "\n" + DOGS
    assert read(tmp_path, change(plain)) == read(tmp_path, plain)
    assert len(read(tmp_path, plain).words) == 2


def test_line_endings_of_python_alone_are_part_of_a_word(tmp_path):
    assert read(tmp_path, word(1, "a\u2028b\x85c")).words == [["a\u2028b\x85c"]]


def test_the_lemma_of_the_word_underscore_is_an_underscore(tmp_path):
    assert read(tmp_path, word(1, "_", lemma="_"), "lemma") == ([["_"]], [["_"]])


@pytest.mark.parametrize(
    "lines, number, message",
    [
        (
            [word(1), "2\tbark\tbark"],
            2,
            "Expected ten columns separated by tabs, starting with an id. .*`read_conll`. Received: '2.tbark",
        ),
        ([word("x")], 1, "starting with an id. .*`read_conll`. Received: 'x"),
        ([word(1), word(3)], 2, "Ids must be in order. Expected the one after word 1. Received: '3'"),
        ([word(0)], 1, "after word 0. Received: '0'"),
        ([word(1), word("1-2"), word(2)], 2, "after word 1. Received: '1-2'"),
        ([word(1), word("2.1")], 2, "after word 1. Received: '2.1'"),
        (
            ["# text", word("1-3"), word(1), word(2), "", word(1)],
            5,
            "Expected word 3. Received: the end of the sentence",
        ),
        ([word(1), word(2, upos="_")], 2, "Expected a word and its upos. Received: '2"),
        ([word(1, "")], 1, "Expected a word and its upos"),
    ],
)
def test_an_invalid_line_is_an_error_that_names_it(tmp_path, lines, number, message):
    with pytest.raises(ValueError, match=rf"a.conllu, line {number}: .*{message}"):
        read(tmp_path, "\n".join(lines))


def test_a_file_that_is_missing_or_empty_or_not_in_utf_8_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="The file does not exist. Get a treebank from .* Received: .*b.conllu"):
        read_conllu(tmp_path / "b.conllu")
    with pytest.raises(ValueError, match=r"a.conllu, line 2: Expected UTF-8. Received: b'\\xe9'"):
        read(tmp_path, b"# a\n# caf\xe9")
    for text in ("", "\n\n", "# only\n"):
        with pytest.raises(ValueError, match="a.conllu: Expected at least one sentence. Received: lines="):
            read(tmp_path, text)


def write_treebank(folder, train=DOGS, dev=DOGS, test=DOGS):
    for part, text in (("train", train), ("dev", dev), ("test", test)):
        (folder / f"xx_dogs-ud-{part}.conllu").write_text(text, "utf-8")


def test_label_names_contain_the_labels_of_all_parts_sorted(tmp_path):
    write_treebank(tmp_path, test=GERMAN)
    data = load_universal_dependencies(tmp_path)
    assert data.train == data.validation == read_conllu(tmp_path / "xx_dogs-ud-train.conllu")
    assert data.test.labels == [["ADP", "DET", "NUM"]]
    assert data.label_names == ["ADP", "DET", "NOUN", "NUM", "VERB"]
    assert load_universal_dependencies(tmp_path, field="deprel").label_names == ["case", "det", "nsubj", "root"]


def test_a_missing_or_duplicate_part_is_an_error_that_lists_the_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="-ud-train.conllu. Get a treebank .* Received: .* with no such folder"):
        load_universal_dependencies(tmp_path / "nowhere")
    write_treebank(tmp_path)
    (tmp_path / "xx_cats-ud-test.conllu").write_text(DOGS)
    expected = r"must have one file. .*xx_cats-ud-test.conllu', .*xx_dogs-ud-test.conllu'"
    with pytest.raises(ValueError, match=expected):
        load_universal_dependencies(tmp_path)
    (tmp_path / "xx_dogs-ud-dev.conllu").unlink()
    with pytest.raises(FileNotFoundError, match=r"-ud-dev.conllu. Get .* Received: .*'xx_cats-ud-test.conllu'"):
        load_universal_dependencies(tmp_path)


def test_the_english_treebank_has_its_published_sizes(data_dir):
    data = load_universal_dependencies(data_dir("ud_english_ewt"))
    parts = list(data.values())
    assert [len(part.words) for part in parts] == [12_544, 2_001, 2_077]
    assert [sum(map(len, part.words)) for part in parts] == [204_577, 25_147, 25_094]
    assert all(list(map(len, part.words)) == list(map(len, part.labels)) for part in parts)
    assert len(data.label_names) == 17 and data.label_names[:3] == ["ADJ", "ADP", "ADV"]
    assert data.test.words[0] == ["What", "if", "Google", "Morphed", "Into", "GoogleOS", "?"]
    assert data.test.labels[0] == ["PRON", "SCONJ", "PROPN", "VERB", "ADP", "PROPN", "PUNCT"]


@pytest.mark.parametrize("field", ["xpos", "deprel"])
def test_other_columns_of_the_english_treebank_can_be_labels(data_dir, field):
    data = read_conllu(data_dir("ud_english_ewt") / "en_ewt-ud-dev.conllu", field=field)
    names = {label for labels in data.labels for label in labels}
    assert len(names) == 49 and "_" not in names
