"""Words and their labels from files with a word on each line and an empty line after each sentence."""

import os
import pathlib
import re

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.lines import log, read_lines
from keras_transfer.datasets.conllu import ID, TaggedSentences
from keras_transfer.datasets.schemes import warn_of_other_schemes
from keras_transfer.datasets.sources import existing_file

WORD_AND_TAG = re.compile(r"(.+)[/_|]([^\W\d_]\S*|[^\w\s]+\S*)")  # "Dogs/NOUN bark/VERB ./." is a sentence.
HEADER = {"word", "words", "token", "tokens", "form", "label", "labels", "tag", "tags", "ner", "ner_tag", "pos", "upos"}


@expects(word_column=integer(), label_column=integer())
def read_conll(path: str | os.PathLike, *, word_column: int = 0, label_column: int = -1) -> TaggedSentences:
    """Reads words and their labels from a file with a word on each line and an empty line after each sentence.

    This is the format of most files for tagging: `word<TAB>label`, or more columns, as in the shared tasks of CoNLL.
    Columns are separated by tabs, in lines that have any, and otherwise by spaces. All lines have the same number of
    columns. Lines with `-DOCSTART-` are skipped, and so are lines that begin with `#` and have a different number of
    columns. Labels are not changed: `to_bio` converts those of other schemes, such as IOB1 and BILOU.

    Files with a sentence on each line, `Dogs/NOUN bark/VERB` or `Dogs bark<TAB>NOUN VERB`, are recognized and read. So
    is a first line with names of the columns, such as `word label`, which is left out with a warning.

    Args:
        path: Path of the file, in UTF-8.
        word_column: Integer. Column of the words, counted from 0, or from the end if it is negative. Defaults to `0`.
        label_column: Integer. Column of the labels, counted in the same way. Defaults to `-1`, the last one.

    Returns:
        `TaggedSentences`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If both columns are the same, if a line has too few columns, or a different number of columns from
            the first one, or no word or label, or if the file has no sentences, is not in UTF-8, or has CoNLL-U's
            columns and no `word_column` is given.

    Example:
    ```python
    with open("dogs.tsv", "w") as file:
        file.write("Dogs\\tNOUN\\nbark\\tVERB\\n\\n")
    keras_transfer.datasets.read_conll("dogs.tsv")  # words [["Dogs", "bark"]], labels [["NOUN", "VERB"]]
    ```

    Source: https://aclanthology.org/W03-0419
    """
    chosen = word_column, label_column
    file = existing_file(path)
    found = read_sentences(file)
    first = next((row for rows in found for row in rows if not row[1].startswith("#")), None)
    expect(first is not None, "Expected at least one sentence.", received="only lines that begin with #", where=file)
    if (whole := _whole_sentences(row for rows in found for row in rows)) is not None:
        return whole
    is_json = re.match(r'\s*[\[{]\s*("|$)', first[1])
    expected = "a word and its label. Read a file of JSON with `read_table` or `load_squad`"
    expect(not is_json, f"Expected {expected}.", first[1], where=f"{file}, line {first[0]}")
    if len(first[2]) == 10 and ID.fullmatch(first[2][0]) and chosen[0] == 0:
        raise ValueError(
            f"{file}, line {first[0]}: The columns are those of CoNLL-U. Read the file with `read_conllu(path)`, or "
            f"choose columns, such as with `word_column=1`. Received: {first[1][:80]!r}"
        )
    sentences = TaggedSentences([], [])
    for rows in found:
        pairs = [_word_and_label(file, row, first, *chosen) for row in rows if not _is_comment(row, first)]
        if pairs:
            sentences.words.append([word for word, _ in pairs])
            sentences.labels.append([label for _, label in pairs])
    _drop_header(sentences, file)
    warn_of_other_schemes(sentences.labels, file)
    return sentences


def _whole_sentences(rows):
    """Returns the sentences of a file with a sentence on each line, or None for any other file."""
    sentences = TaggedSentences([], [])
    for _, line, columns in rows:
        pairs = [WORD_AND_TAG.fullmatch(word) for word in line.split()]
        if all(pairs):
            words, labels = zip(*(pair.groups() for pair in pairs))
        elif "\t" in line and len(columns) == 2:
            words, labels = (column.split() for column in columns)
        else:
            return None
        if len(words) != len(labels):
            return None
        sentences.words.append(list(words))
        sentences.labels.append(list(labels))
    return sentences if any(len(words) > 1 for words in sentences.words) else None


def _drop_header(sentences, path):
    """Leaves out a first row with the names of the columns, of which the second is the label of no other word."""
    names = [rows[0][0].lower() for rows in sentences]
    if set(names) <= HEADER and sum(label == sentences.labels[0][0] for row in sentences.labels for label in row) == 1:
        log.warning("%s: The first line has the names of the columns, %s, and is left out.", path, names)
        for rows in sentences:
            rows[0] = rows[0][1:]
            rows[:] = [row for row in rows if row]


def read_sentences(path: pathlib.Path):
    """Returns the sentences of a file as lists of rows `(number, line, columns)`, one for each word."""
    sentences = [[]]
    for number, line in enumerate(read_lines(path), 1):
        columns = [column.strip() for column in line.strip().split("\t" if "\t" in line.strip() else None)]
        if not line.strip() or columns[0].startswith("-DOCSTART-"):
            sentences.append([])
        else:
            sentences[-1].append((number, line, columns))
    sentences = [rows for rows in sentences if rows]
    expect(sentences, "Expected at least one sentence.", received="no words", where=path)
    return sentences


def _is_comment(row, first):
    """Returns whether a row is a comment. `#` can be a word too, in a row with as many columns as the first one."""
    return row[1].startswith("#") and len(row[2]) != len(first[2])


def _word_and_label(path, row, first, word_column, label_column):
    """Returns the word and the label of a row, given the first row of the file and the columns."""
    number, line, columns = row
    where, count = f"{path}, line {number}", len(columns)
    expected = f"the word in column {word_column} and the label in column {label_column}, counted from 0"
    exist = all(-count <= column < count for column in (word_column, label_column)) and count > 1
    advice = ". Read a table with commas with `pandas.read_csv(path)`" if count == 1 and "," in line else ""
    expect(exist, f"Expected {expected + advice}.", line, where=where)
    rule = f"`word_column` and `label_column` must be different columns of {path}, whose lines have {count}."
    expect(word_column % count != label_column % count, rule, word_column=word_column, label_column=label_column)
    like_first = f"{len(first[2])} columns separated by tabs or spaces, as in line {first[0]}"
    expect(count == len(first[2]), f"Expected {like_first}.", line, where=where)
    word, label = columns[word_column], columns[label_column]
    expect(word and label, f"Expected {expected}.", line, where=where)
    return word, label
