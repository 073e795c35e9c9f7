"""Words with named entities from the shared task of CoNLL-2003."""

import os

from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.datasets.conll import read_sentences
from keras_transfer.datasets.conllu import TaggedSentences
from keras_transfer.datasets.sources import split_files
from keras_transfer.datasets.splits import Splits

COLUMNS = {"pos": 1, "chunk": 2, "ner": 3}
WORD = "a word and its part of speech, chunk and entity. For files with other columns, use `read_conll`"
ENTITIES = ("PER", "ORG", "LOC", "MISC")


@expects(field=one_of(*COLUMNS))
def load_conll2003(folder: str | os.PathLike, *, field: str = "ner") -> Splits:
    """Reads the English data of CoNLL-2003 (Tjong Kim Sang & De Meulder 2003).

    Entities and chunks become BIO labels, with `B-` at each beginning. The official files have `B-` only between two
    adjacent ones of the same type. Files that already have BIO labels are not changed. Lines with `-DOCSTART-` are
    skipped.

    Args:
        folder: Path of a folder with `eng.train`, `eng.testa` and `eng.testb`, or with `train.txt`, `valid.txt` and
            `test.txt`.
        field: String. Column of the labels: `"ner"`, `"pos"` or `"chunk"`. Defaults to `"ner"`.

    Returns:
        `Splits` of `TaggedSentences`: `train`, `validation` and `test` with 14,041, 3,250 and 3,453 sentences. The
        label names of `"ner"` are O, B-PER, I-PER, B-ORG, I-ORG, B-LOC, I-LOC, B-MISC and I-MISC. Those of the other
        fields are sorted.

    Raises:
        FileNotFoundError: If one of the files does not exist.
        ValueError: If a split has several files, if a line does not have four columns, if a label has another form, or
            if a file has no sentences.

    Example:
    ```python
    for name in ("eng.train", "eng.testa", "eng.testb"):
        with open(name, "w") as file:
            file.write("Ada NNP I-NP I-PER\\nsmiles VBZ I-VP O\\n")
    keras_transfer.datasets.load_conll2003(".").train.labels  # [["B-PER", "O"]]
    ```

    Source: https://aclanthology.org/W03-0419
    """
    files = split_files(folder, "conll2003")
    splits = {split: _read(path, field) for split, path in files.items()}
    names = sorted({label for part in splits.values() for labels in part.labels for label in labels})
    if field == "ner":
        names = ["O", *(f"{prefix}-{entity}" for entity in ENTITIES for prefix in "BI")]
    return Splits(splits, names)


def _read(path, field):
    sentences = TaggedSentences([], [])
    for rows in read_sentences(path):
        words, labels = [], []
        for number, line, columns in rows:
            where = f"{path}, line {number}"
            expect(len(columns) == 4, f"Expected {WORD}.", line, where=where)
            label = columns[COLUMNS[field]]
            if field != "pos" and label != "O":
                expect(label[:2] in ("B-", "I-"), "Expected O, B-TYPE or I-TYPE.", label, where=where)
                is_known, rule = field != "ner" or label[2:] in ENTITIES, f"Expected an entity of the types {ENTITIES}."
                expect(is_known, rule, label, where=where)
            words.append(columns[0])
            labels.append(label)
        sentences.words.append(words)
        sentences.labels.append(labels if field == "pos" else _begin_with_b(labels))
    return sentences


def _begin_with_b(labels):
    """Returns the labels with `B-` instead of `I-` where the label before has another type."""
    pairs = zip(["O", *labels], labels)
    return [f"B-{label[2:]}" if label[:2] == "I-" and before[2:] != label[2:] else label for before, label in pairs]
