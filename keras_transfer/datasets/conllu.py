"""Words, their labels and their syntax trees from CoNLL-U files, the format of the Universal Dependencies treebanks."""

import os
import re
from typing import Any, NamedTuple

from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.core.lines import read_lines
from keras_transfer.datasets.sources import existing_file, split_files
from keras_transfer.datasets.splits import Splits, shown_by_columns

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
ROW = "ten columns separated by tabs, starting with an id. For files with other columns, use `read_conll`"
FIELDS = ("lemma", "upos", "xpos", "feats", "head", "deprel")
# A word, a token that covers a range of words, or an empty node after a word.
ID = re.compile(r"(?P<word>[0-9]+)|(?P<first>[0-9]+)-(?P<last>[0-9]+)|(?P<after>[0-9]+)\.[0-9]+")
HEAD = re.compile("[0-9]+")


@shown_by_columns
class TaggedSentences(NamedTuple):
    """Sentences as lists of words, with a label for each word.

    Attributes:
        words: List of lists of strings.
        labels: List of lists of strings, of the same lengths as `words`.
    """

    words: list
    labels: list


@shown_by_columns
class Trees(NamedTuple):
    """Sentences with their dependency trees, as lists of values for each word.

    Attributes:
        words: List of lists of strings.
        heads: List of lists of integers. The number of each word's governor, from 1 for the first word of the sentence.
            It is 0 for the root, of which each sentence has one.
        relations: List of lists of strings. The relation of each word to its governor, such as `"nsubj"`.
        tags: List of lists of strings. The universal part of speech of each word, such as `"NOUN"`.

    Example:
    ```python
    trees = keras_transfer.datasets.Trees([["Dogs", "bark"]], [[2, 0]], [["nsubj", "root"]], [["NOUN", "VERB"]])
    [trees.words[0][head - 1] for head in trees.heads[0] if head]  # ["bark"], the governor of "Dogs"
    ```
    """

    words: list
    heads: list
    relations: list
    tags: list


@expects(field=one_of(*FIELDS))
def read_conllu(path: str | os.PathLike, *, field: str = "upos") -> TaggedSentences:
    """Reads the words of a CoNLL-U file, with one of its columns as labels.

    Words are syntactic words: `3 do` and `4 n't` are words, but their token `3-4 don't` is not. Empty nodes (`8.1`) are
    skipped. A word can contain spaces.

    Args:
        path: Path of the file, in UTF-8.
        field: String. Column of the labels: `"upos"`, `"xpos"`, `"lemma"`, `"feats"` (the whole string, such as
            `Case=Nom|Number=Sing`, or `_` for a word without features), `"head"` (an integer, the number of the word's
            governor in its sentence, or 0) or `"deprel"`. Defaults to `"upos"`.

    Returns:
        `TaggedSentences`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line does not have ten columns, a word and a label; if ids are out of order; if the heads of a
            sentence are not a tree, as in `read_trees`; or if the file has no sentences or is not in UTF-8.

    Example:
    ```python
    rows = ["1 Dogs dog NOUN NNS Number=Plur 2 nsubj _ _", "2 bark bark VERB VBP _ 0 root _ _", ""]
    with open("dogs.conllu", "w") as file:
        file.write("\\n".join(rows).replace(" ", "\\t"))
    keras_transfer.datasets.read_conllu("dogs.conllu")  # words [["Dogs", "bark"]], labels [["NOUN", "VERB"]]
    ```

    Source: https://universaldependencies.org/format.html.
    """
    words, labels = _read(path, (field,))
    return TaggedSentences(words, labels)


def read_trees(path: str | os.PathLike) -> Trees:
    """Reads the words of a CoNLL-U file with their dependency trees and parts of speech.

    Words are those of `read_conllu`. Enhanced dependencies are not read.

    Args:
        path: Path of the file, in UTF-8.

    Returns:
        `Trees`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a sentence has no root or several, a head outside the sentence, or a cycle; if a word lacks a
            head, a relation or a part of speech; or if the file has another format, as in `read_conllu`.

    Example:
    ```python
    rows = ["1 Dogs dog NOUN NNS Number=Plur 2 nsubj _ _", "2 bark bark VERB VBP _ 0 root _ _", ""]
    with open("dogs.conllu", "w") as file:
        file.write("\\n".join(rows).replace(" ", "\\t"))
    keras_transfer.datasets.read_trees("dogs.conllu").heads  # [[2, 0]]
    ```

    Source: https://universaldependencies.org/u/overview/syntax.html.
    """
    return Trees(*_read(path, ("head", "deprel", "upos")))


def check_heads(heads, where):
    """Raises a `ValueError` unless the heads of a sentence's words are a tree with one root, whose head is 0.

    `where` is where the sentence stands, for the error, or a list of where each word stands.
    """
    places = [where] * len(heads) if isinstance(where, str) else where
    rule = f"A head must be the number of a word of the sentence, from 1 to {len(heads)}, or 0 for the root."
    for place, head in zip(places, heads):
        expect(0 <= head <= len(heads), rule, head=head, where=place)
    roots = [word for word, head in enumerate(heads, 1) if head == 0]
    place = next((places[word - 1] for word in roots[1:]), where if isinstance(where, str) else where[0])
    expect(len(roots) == 1, "A sentence must have one root, a word with the head 0.", roots=roots, where=place)
    rooted, rule = {0}, "The heads of a sentence must lead from each word to the root, without a cycle."
    for word in range(1, len(heads) + 1):
        path = []
        while word not in rooted:
            cycle = path[path.index(word) :] if word in path else []
            expect(not cycle, rule, words=cycle, where=places[word - 1])
            path.append(word)
            word = heads[word - 1]
        rooted.update(path)


def _read(path, fields):
    """Returns the words of all sentences, and a list of lists of labels for each of some columns."""
    path = existing_file(path, "universal_dependencies")
    found: list = [[] for _ in ("form", *fields)]
    lines = read_lines(path)
    rows, places, last = [], [], 0  # `last` is the id of the last word.
    for number, line in enumerate([*lines, ""], 1):
        where = f"{path}, line {number}"
        if line.startswith("#"):
            continue
        if line.strip(" "):
            row, last = _read_line(line, fields, len(rows), last, where)
            if row is not None:
                rows.append(row)
                places.append(where)
        elif rows or last:
            rule = f"Expected word {len(rows) + 1}."
            expect(last <= len(rows), rule, received="the end of the sentence", where=where)
            for column, values in zip(found, zip(*rows)):
                column.append(list(values))
            if "head" in fields:
                check_heads(found[1 + fields.index("head")][-1], places)
            rows, places, last = [], [], 0
    expect(found[0], "Expected at least one sentence.", received=f"lines={len(lines)}", where=path)
    return found


def _read_line(line, fields, words, last, where):
    """Returns `(row, last)` for the line after `words` words. `row` has a word and its labels, or is None."""
    columns = line.split("\t")
    number = ID.fullmatch(columns[0])
    expect(len(columns) == len(COLUMNS) and number, f"Expected {ROW}.", line, where=where)
    if number["after"]:
        expected, found, last = words, int(number["after"]), max(last, 1)
    elif number["first"]:
        expected, found, last = words + 1, int(number["first"]), max(last, int(number["last"]))
    else:
        expected, found = words + 1, int(number["word"])
    in_order = found == expected and not (number["first"] and int(number["last"]) < found)
    expect(in_order, f"Expected the one after word {words}.", columns[0], where=f"{where}: Ids must be in order")
    if not number["word"]:
        return None, last
    row, form = dict(zip(COLUMNS, columns)), columns[1]
    for field in fields:
        # "_" means a missing value, except for features, where it means none, and for the lemma of the word "_".
        given = row[field] != "_" or field == "feats" or (field == "lemma" and form == "_")
        fits = form and row[field] and given and (field != "head" or HEAD.fullmatch(row[field]))
        expect(fits, f"Expected a word and its {field}.", line, where=where)
    return (form, *(int(row[field]) if field == "head" else row[field] for field in fields)), last


@expects(field=one_of(*FIELDS, "tree"))
def load_universal_dependencies(folder: str | os.PathLike, *, field: str = "upos") -> Splits:
    """Reads a Universal Dependencies treebank (Nivre et al. 2020) from https://universaldependencies.org.

    Args:
        folder: Path of a folder with one `*-ud-train.conllu`, one `*-ud-dev.conllu` and one `*-ud-test.conllu`.
        field: String. Column of the labels, as in `read_conllu`, or `"tree"` to read `Trees`. Defaults to `"upos"`.

    Returns:
        `Splits` of `TaggedSentences` or `Trees`: `train`, `validation` and `test`. The `label_names`, which are sorted,
        include labels that are missing from the training part, as for `"xpos"`. A model never predicts them, and they
        count as errors. For trees, they are the relations, and for heads `None`.

    Raises:
        FileNotFoundError: If one of the files does not exist.
        ValueError: If there are several files for a part, or if a file has another format.

    Example:
    ```python
    data = keras_transfer.datasets.load_universal_dependencies("ud_english_ewt")
    len(data.train.words), len(data.label_names)  # 12544 sentences, 17 labels
    ```

    Source: https://aclanthology.org/2020.lrec-1.497.
    """
    files = split_files(folder, "universal_dependencies")
    splits: dict[str, Any] = {
        split: read_trees(path) if field == "tree" else read_conllu(path, field=field) for split, path in files.items()
    }
    if field == "head":
        return Splits(splits)
    labels = [part.relations if field == "tree" else part.labels for part in splits.values()]
    return Splits(splits, sorted({name for part in labels for names in part for name in names}))
