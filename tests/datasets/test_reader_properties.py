"""Properties of readers: what is written in any format by its own rules is read again, and no row is lost or moved."""

import csv
import gzip
import io
import json
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transfer.checkpoints import WordVectors
from keras_transfer.core.documents import read_documents
from keras_transfer.core.lines import NUMBER
from keras_transfer.datasets import hold_out, load_squad, read_conll, read_conllu, read_table
from tests.properties import characters, texts, words

fields = texts.map(lambda text: text.replace("\0", "")).filter(bool)  # A file with NUL is taken for UTF-16.
names = words.filter(lambda name: not NUMBER.fullmatch(name) and name == name.strip() and not name.isdecimal())
rows_of_names = st.lists(st.tuples(fields, names), min_size=1, max_size=6).filter(
    lambda rows: len({name.casefold() for _, name in rows}) == len({name for _, name in rows})
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    logging.getLogger("keras_transfer").setLevel(logging.ERROR)
    yield tmp_path_factory.mktemp("tables")
    logging.getLogger("keras_transfer").setLevel(logging.NOTSET)


def write_csv(path, rows, terminator="\r\n"):
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=terminator).writerows([("text", "label"), *rows])
    path.write_bytes(file.getvalue().encode())


def read(path, **options):
    return read_table(path, "text", label_column="label", **options)


@given(rows=rows_of_names, terminator=st.sampled_from(["\n", "\r\n"]))
def test_a_csv_file_is_read_as_it_was_written(folder, rows, terminator):
    if terminator == "\n":  # Then Python's writer leaves a carriage return without quotes, at which its reader splits.
        rows = [(text.replace("\r", " "), name) for text, name in rows]
    write_csv(folder / "table.csv", rows, terminator)
    assert [*zip(*read(folder / "table.csv"))] == rows


@given(rows=rows_of_names)
def test_a_tsv_file_is_read_as_it_was_written(folder, rows):
    rows = [(text.translate(str.maketrans("\t\n\r", "   ")), name) for text, name in rows]
    lines = ["text\tlabel", *("\t".join(row) for row in rows)]
    (folder / "table.tsv").write_bytes(("\n".join(lines) + "\n").encode())
    assert [*zip(*read(folder / "table.tsv"))] == rows


@given(rows=rows_of_names, ascii=st.booleans(), zipped=st.booleans())
def test_lines_of_json_are_read_as_they_were_written(folder, rows, ascii, zipped):
    path = folder / ("table.jsonl.gz" if zipped else "table.jsonl")
    lines = [json.dumps({"text": text, "label": name}, ensure_ascii=ascii) for text, name in rows]
    content = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert [*zip(*read(path))] == rows


@given(rows=rows_of_names)
def test_a_table_in_memory_is_read_as_it_is(rows):
    pandas = pytest.importorskip("pandas")
    texts, labels = map(list, zip(*rows))
    for table in (pandas.DataFrame({"text": texts, "label": labels}), [{"text": a, "label": b} for a, b in rows]):
        assert [*zip(*read(table))] == rows


@given(rows=st.lists(st.tuples(fields, st.integers(-99, 99)), min_size=1, max_size=6))
def test_integers_are_read_as_integers(folder, rows):
    write_csv(folder / "numbers.csv", rows)
    found = read(folder / "numbers.csv")
    assert [*zip(*found)] == rows and {*map(type, found.labels)} == {int}


@given(rows=st.lists(st.tuples(fields, st.lists(names, max_size=3)), min_size=1, max_size=6))
def test_lists_of_labels_are_read_as_lists(folder, rows):
    rows = [(text, [name.replace("|", "x") for name in labels]) for text, labels in rows]
    write_csv(folder / "lists.csv", [(text, "|".join(labels)) for text, labels in rows])
    assert [*zip(*read(folder / "lists.csv", label_separator="|"))] == rows


sentences = st.lists(st.lists(st.tuples(words, names), min_size=1, max_size=5), min_size=1, max_size=4)


@given(rows=sentences)
def test_words_and_labels_are_read_as_they_were_written(folder, rows):
    rows = [[(word.replace("#", "x").replace("-DOCSTART-", "x"), label) for word, label in row] for row in rows]
    text = "\n".join("".join(f"{word}\t{label}\n" for word, label in row) for row in rows)
    (folder / "words.tsv").write_bytes(text.encode())
    found = read_conll(folder / "words.tsv")
    assert [[*zip(*row)] for row in zip(*found)] == rows


@given(rows=sentences, data=st.data())
def test_words_of_a_treebank_are_read_without_comments_tokens_and_empty_nodes(folder, rows, data):
    lines = []
    for row in rows:
        lines += ["# text = a"] * data.draw(st.integers(0, 2))
        for number, (word, label) in enumerate(row, 1):
            if number < len(row) and data.draw(st.booleans()):
                lines.append(f"{number}-{number + 1}\t{word}" + "\t_" * 8)
            lines.append(f"{number}\t{word}\tl\t{label}" + "\t_" * 6)
            lines += [f"{number}.1\tx" + "\t_" * 8] * data.draw(st.integers(0, 1))
        lines.append("")
    expected = [[(word, label) for word, label in row if label != "_"] for row in rows]
    if expected != rows or any(line.count("-") and line.split("\t")[0].endswith("-") for line in lines):
        return
    (folder / "a.conllu").write_bytes(("\n".join(lines) + "\n").encode())
    try:
        found = read_conllu(folder / "a.conllu")
    except ValueError as error:  # Two tokens may overlap here.
        assert "in order" in str(error)
        return
    assert [[*zip(*row)] for row in zip(*found)] == rows


@given(contexts=st.lists(fields, min_size=1, max_size=4), data=st.data())
def test_questions_have_their_answers_at_their_places(folder, contexts, data):
    paragraphs, expected = [], []
    for number, context in enumerate(contexts):
        start = data.draw(st.integers(0, len(context) - 1))
        end = data.draw(st.integers(start + 1, len(context)))
        answers = [{"text": context[start:end], "answer_start": start}]
        question = {"id": str(number), "question": f"q{number}", "answers": answers}
        paragraphs.append({"context": context, "qas": [question]})
        expected.append([(context[start:end], start)])
    (folder / "squad.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}), "utf-8")
    found = load_squad(folder / "squad.json")
    assert found.contexts == contexts and found.answers == expected
    assert found.ids == [str(number) for number in range(len(contexts))]


@given(documents=st.lists(st.lists(fields, min_size=1, max_size=3), min_size=1, max_size=4), by_line=st.booleans())
def test_the_documents_of_a_file_are_those_of_an_iterable(folder, documents, by_line):
    documents = [[" ".join(line.split("\n")).replace("\r", " ") for line in document] for document in documents]
    (folder / "a.txt").write_bytes("\n\n".join("\n".join(document) for document in documents).encode())
    found = list(read_documents(folder / "a.txt", "text", "line" if by_line else "blank_line"))
    kept = [[line.strip() for line in document if line.strip()] for document in documents]
    if by_line:
        assert found == [[line] for document in kept for line in document]
    else:
        assert [line for document in found for line in document] == [line for document in kept for line in document]
        assert all(all(document) for document in found)
    in_memory = list(read_documents(iter("\n".join(document) for document in documents), "text", "blank_line"))
    assert in_memory == kept


@given(count=st.integers(2, 60), part=st.floats(0.05, 0.95), seed=st.integers(0, 2**31))
def test_held_out_rows_and_the_others_are_all_rows(folder, count, part, seed):
    if not 0 < int(part * count + 0.5) < count:
        return
    rows = [f"text {number}" for number in range(count)], np.arange(count)
    train, held_out = hold_out(rows, part, seed=seed)
    assert sorted([*train[1], *held_out[1]]) == list(range(count))
    for found in (train, held_out):
        assert found[0] == [f"text {number}" for number in found[1]] and sorted(found[1]) == found[1].tolist()
    again = hold_out(rows, part, seed=seed)
    assert again[1][1].tolist() == held_out[1].tolist()


@given(
    found=st.lists(st.text(characters, min_size=1, max_size=8), min_size=1, max_size=5, unique=True),
    dim=st.integers(1, 4),
    zipped=st.booleans(),
    data=st.data(),
)
def test_word_vectors_are_read_as_they_were_written_or_refused(folder, found, dim, zipped, data):
    numbers = st.lists(st.floats(-(2.0**90), 2.0**90, width=32), min_size=dim, max_size=dim)
    vectors = [data.draw(numbers) for _ in found]
    path = folder / ("v.vec.gz" if zipped else "v.vec")
    try:
        WordVectors(found, vectors).save(path, overwrite=True)
    except ValueError as error:
        assert "Received: " in str(error)
        return
    loaded = WordVectors.load(path)
    assert loaded.words == found
    np.testing.assert_array_equal(loaded.vectors, np.array(vectors, "float32"))
