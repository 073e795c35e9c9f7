"""Words with labels from CoNLL-U files, the format of the Universal Dependencies treebanks."""

import pathlib
import re
from typing import NamedTuple

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
FIELDS = ("lemma", "upos", "xpos", "feats", "deprel")
PARTS = ("train", "dev", "test")
# A word, the range of words that one token stands for, or an empty node after a word.
ID = re.compile(r"(?P<word>[0-9]+)|(?P<first>[0-9]+)-(?P<last>[0-9]+)|(?P<after>[0-9]+)\.[0-9]+")


class TaggedSentences(NamedTuple):
    """Sentences as words, and a label of each word.

    Attributes:
        words: list of lists of str.
        labels: list of lists of str, as long as `words` and each as long as its sentence.
    """

    words: list
    labels: list


class TaggedDataset(NamedTuple):
    """A treebank's three parts.

    Attributes:
        train: `TaggedSentences`.
        dev: `TaggedSentences`.
        test: `TaggedSentences`.
        label_names: list of str, every label of the three parts, sorted.
    """

    train: TaggedSentences
    dev: TaggedSentences
    test: TaggedSentences
    label_names: list


def read_conllu(path, field="upos"):
    """Returns the words of a CoNLL-U file, with what one of its columns says of each.

    A word is a syntactic one: of `3-4 don't`, `3 do` and `4 n't` the latter two are there. Empty nodes (`8.1`) are no
    words. A word may have spaces inside.

    Args:
        path: path of the file, in UTF-8.
        field: the column of the labels: `"upos"`, `"xpos"`, `"lemma"`, `"feats"` (whole, as
            `Case=Nom|Number=Sing`, and `_` where a word has none) or `"deprel"`.

    Returns:
        `TaggedSentences`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the field is another; a line has not ten columns, an id that is out of order, no word or no label;
            there is no sentence, or something that is not UTF-8.

    Example:
    ```python
    rows = ["1 Dogs dog NOUN NNS Number=Plur 2 nsubj _ _", "2 bark bark VERB VBP _ 0 root _ _", ""]
    with open("dogs.conllu", "w") as file:
        file.write("\\n".join(rows).replace(" ", "\\t"))
    keras_transfer.datasets.read_conllu("dogs.conllu")  # words [["Dogs", "bark"]], labels [["NOUN", "VERB"]]
    ```

    Source: https://universaldependencies.org/format.html.
    """
    if field not in FIELDS:
        raise ValueError(f"`field` must be one of {FIELDS}. Received: {field!r}")
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"a CoNLL-U file is expected. Received: no file {path}")
    sentences = TaggedSentences([], [])
    words, labels, last = [], [], 0  # of this sentence, and the last word that it must have
    lines = _lines(path)
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("#"):
            continue
        if line.strip(" "):
            word, label, last = _read(line, field, len(words), last, f"{path}, line {number}")
            if word is not None:
                words.append(word)
                labels.append(label)
        elif last > len(words):
            raise ValueError(f"{path}, line {number}: expected word {len(words) + 1}. Received: the sentence's end")
        elif words:
            sentences.words.append(words)
            sentences.labels.append(labels)
            words, labels, last = [], [], 0
    if not sentences.words:
        raise ValueError(f"{path}: expected sentences. Received: {len(lines)} lines without a word")
    return sentences


def _lines(path):
    """The lines, by what ends them in this format alone: a word may hold what `str.splitlines` takes for an end."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {number}: expected UTF-8. Received: {error.object[error.start :][:8]}"
        ) from None
    return [line.removesuffix("\r") for line in text.split("\n")]


def _read(line, field, words, last, where):
    """`(word, label, last)`: the word after `words` others, or None, and the last word that the sentence must have."""
    columns = line.split("\t")
    if len(columns) != len(COLUMNS) or not (number := ID.fullmatch(columns[0])):
        raise ValueError(f"{where}: expected ten columns with tabs between, an id first. Received: {line[:80]!r}")
    if number["after"]:
        expected, found, last = words, int(number["after"]), max(last, 1)
    elif number["first"]:
        expected, found, last = words + 1, int(number["first"]), max(last, int(number["last"]))
    else:
        expected, found = words + 1, int(number["word"])
    if found != expected or (number["first"] and int(number["last"]) < found):
        raise ValueError(f"{where}: expected ids in order, after word {words}. Received: {columns[0]!r}")
    if not number["word"]:
        return None, None, last
    row = dict(zip(COLUMNS, columns))
    # "_" is no label, but the features of a word that has none, and the lemma of the word "_".
    given = row[field] != "_" or field == "feats" or (field == "lemma" and row["form"] == "_")
    if not (row["form"] and row[field] and given):
        raise ValueError(f"{where}: expected a word and its {field}. Received: {line[:80]!r}")
    return row["form"], row[field], last


def load_universal_dependencies(folder, field="upos"):
    """Returns a treebank of Universal Dependencies (Nivre et al. 2020), which are at https://universaldependencies.org.

    Args:
        folder: path of a folder with one `*-ud-train.conllu`, one `*-ud-dev.conllu` and one `*-ud-test.conllu`.
        field: the column of the labels, as in `read_conllu`.

    Returns:
        A `TaggedDataset`. Its `label_names` are of all parts, so that rare labels, as of `"xpos"`, have a class each;
        one that the training part has not is never predicted, and counts as a mistake.

    Raises:
        FileNotFoundError: one of the files is not there.
        ValueError: there are several of a part, or a file is not of the format.

    Example:
    ```python
    data = keras_transfer.datasets.load_universal_dependencies("ud_english_ewt")
    len(data.train.words), len(data.label_names)  # 12544 sentences, 17 labels
    ```

    Source: https://aclanthology.org/2020.lrec-1.497.
    """
    folder = pathlib.Path(folder)
    parts = []
    for part in PARTS:
        found = sorted(folder.glob(f"*-ud-{part}.conllu"))
        if len(found) != 1:
            there = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else "no such folder"
            message = f"a treebank has one file *-ud-{part}.conllu. Received: {folder} with {there}"
            raise ValueError(message) if found else FileNotFoundError(message)
        parts.append(read_conllu(found[0], field))
    names = sorted({label for part in parts for labels in part.labels for label in labels})
    return TaggedDataset(*parts, names)
