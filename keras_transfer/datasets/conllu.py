"""Words and their labels from CoNLL-U files, the format of the Universal Dependencies treebanks."""

import os
import re
from typing import NamedTuple

from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.core.lines import read_lines
from keras_transfer.datasets.sources import existing_file, split_files
from keras_transfer.datasets.splits import Splits, shown_by_columns

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
ROW = "ten columns separated by tabs, starting with an id. For files with other columns, use `read_conll`"
FIELDS = ("lemma", "upos", "xpos", "feats", "deprel")
# A word, a token that covers a range of words, or an empty node after a word.
ID = re.compile(r"(?P<word>[0-9]+)|(?P<first>[0-9]+)-(?P<last>[0-9]+)|(?P<after>[0-9]+)\.[0-9]+")


@shown_by_columns
class TaggedSentences(NamedTuple):
    """Sentences as lists of words, with a label for each word.

    Attributes:
        words: List of lists of strings.
        labels: List of lists of strings, of the same lengths as `words`.
    """

    words: list
    labels: list


@expects(field=one_of(*FIELDS))
def read_conllu(path: str | os.PathLike, *, field: str = "upos") -> TaggedSentences:
    """Reads the words of a CoNLL-U file, with one of its columns as labels.

    Words are syntactic words: `3 do` and `4 n't` are words, but their token `3-4 don't` is not. Empty nodes (`8.1`) are
    skipped. A word can contain spaces.

    Args:
        path: Path of the file, in UTF-8.
        field: String. Column of the labels: `"upos"`, `"xpos"`, `"lemma"`, `"feats"` (the whole string, such as
            `Case=Nom|Number=Sing`, or `_` for a word without features) or `"deprel"`. Defaults to `"upos"`.

    Returns:
        `TaggedSentences`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line does not have ten columns, a word and a label; if ids are out of order; or if the file has
            no sentences or is not in UTF-8.

    Example:
    ```python
    rows = ["1 Dogs dog NOUN NNS Number=Plur 2 nsubj _ _", "2 bark bark VERB VBP _ 0 root _ _", ""]
    with open("dogs.conllu", "w") as file:
        file.write("\\n".join(rows).replace(" ", "\\t"))
    keras_transfer.datasets.read_conllu("dogs.conllu")  # words [["Dogs", "bark"]], labels [["NOUN", "VERB"]]
    ```

    Source: https://universaldependencies.org/format.html.
    """
    path = existing_file(path, "universal_dependencies")
    sentences = TaggedSentences([], [])
    words, labels, last = [], [], 0  # `last` is the id of the last word.
    lines = read_lines(path)
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("#"):
            continue
        if line.strip(" "):
            word, label, last = _read(line, field, len(words), last, f"{path}, line {number}")
            if word is not None:
                words.append(word)
                labels.append(label)
        elif words or last:
            where = f"{path}, line {number}"
            rule = f"Expected word {len(words) + 1}."
            expect(last <= len(words), rule, received="the end of the sentence", where=where)
            sentences.words.append(words)
            sentences.labels.append(labels)
            words, labels, last = [], [], 0
    expect(sentences.words, "Expected at least one sentence.", received=f"lines={len(lines)}", where=path)
    return sentences


def _read(line, field, words, last, where):
    """Returns `(word, label, last)` for the line after `words` words. `word` is None if the line has none."""
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
        return None, None, last
    row = dict(zip(COLUMNS, columns))
    # "_" means a missing value, except for features, where it means none, and for the lemma of the word "_".
    given = row[field] != "_" or field == "feats" or (field == "lemma" and row["form"] == "_")
    expect(row["form"] and row[field] and given, f"Expected a word and its {field}.", line, where=where)
    return row["form"], row[field], last


def load_universal_dependencies(folder: str | os.PathLike, *, field: str = "upos") -> Splits:
    """Reads a Universal Dependencies treebank (Nivre et al. 2020) from https://universaldependencies.org.

    Args:
        folder: Path of a folder with one `*-ud-train.conllu`, one `*-ud-dev.conllu` and one `*-ud-test.conllu`.
        field: String. Column of the labels, as in `read_conllu`. Defaults to `"upos"`.

    Returns:
        `Splits` of `TaggedSentences`: `train`, `validation` and `test`. The `label_names`, which are sorted, include
        labels that are missing from the training part, as for `"xpos"`. A model never predicts them, and they count as
        errors.

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
    splits = {split: read_conllu(path, field=field) for split, path in files.items()}
    names = sorted({label for part in splits.values() for labels in part.labels for label in labels})
    return Splits(splits, names)
