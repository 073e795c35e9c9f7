"""CoNLL-U files are read as specified, and an invalid line is an error that names it."""

import pytest

from keras_transfer.datasets import Trees, load_universal_dependencies, read_conllu, read_trees

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
        ("head", [2, 0]),
        ("deprel", ["nsubj", "root"]),
    ],
)
def test_labels_may_come_from_another_column(tmp_path, field, expected):
    assert read(tmp_path, DOGS, field).labels == [expected]


def test_trees_have_heads_relations_and_tags_of_words_alone(tmp_path):
    read(tmp_path, DOGS + "\n" + GERMAN)
    assert read_trees(tmp_path / "a.conllu") == Trees(
        words=[["Dogs", "bark"], ["zu", "dem", "20 000"]],
        heads=[[2, 0], [3, 3, 0]],
        relations=[["nsubj", "root"], ["case", "det", "root"]],
        tags=[["NOUN", "VERB"], ["ADP", "DET", "NUM"]],
    )


@pytest.mark.parametrize(
    "heads, number, message",
    [
        ("0 0", 6, "A sentence must have one root, a word with the head 0. Received: roots=\\[1, 2\\]"),
        ("2 1", 5, "one root, .* Received: roots=\\[\\]"),
        ("0 3", 6, "A head must be .* from 1 to 2, or 0 for the root. Received: head=3"),
        ("0 _", 6, "Expected a word and its head. Received: '2"),
        ("0 -1", 6, "Expected a word and its head"),
        ("2 0 5 3 4", 7, "must lead from each word to the root, without a cycle. Received: words=\\[3, 5, 4\\]"),
        ("0 2", 6, "without a cycle. Received: words=\\[2\\]"),
    ],
)
@pytest.mark.parametrize("read", [read_trees, lambda path: read_conllu(path, field="head")])
def test_heads_that_are_no_tree_are_an_error_that_names_the_line(tmp_path, heads, number, message, read):
    lines = [word(i, head=head, deprel="dep") for i, head in enumerate(heads.split(), 1)]
    (tmp_path / "a.conllu").write_text(DOGS + "\n" + "\n".join(lines))
    with pytest.raises(ValueError, match=rf"a.conllu, line {number}: .*{message}"):
        read(tmp_path / "a.conllu")


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
    assert load_universal_dependencies(tmp_path, field="head").label_names is None
    trees = load_universal_dependencies(tmp_path, field="tree")
    assert trees.test == read_trees(tmp_path / "xx_dogs-ud-test.conllu")
    assert trees.label_names == ["case", "det", "nsubj", "root"]


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


def test_all_trees_of_the_english_treebank_can_be_read(data_dir):
    trees = read_trees(data_dir("ud_english_ewt") / "en_ewt-ud-dev.conllu")
    assert len(trees.words) == 2_001 and sum(map(len, trees.heads)) == 25_147
    assert all(heads.count(0) == 1 for heads in trees.heads)
    assert trees.words[0][:5] == ["From", "the", "AP", "comes", "this"]
    assert trees.heads[0][:5] == [3, 3, 4, 0, 6] and trees.relations[0][3] == "root"
