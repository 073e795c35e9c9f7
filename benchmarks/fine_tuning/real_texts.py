"""Public datasets as columns of texts and labels, read with the standard library alone, so that all contenders can."""

import json
import pathlib
import random
from typing import NamedTuple

LENGTHS = {"rte": 256, "squad": 384}  # Lengths at which texts are truncated; 128 in the other datasets.
RATES = {"ewt": 2e-4, "sts_b_embeddings": 2e-5}  # Peak learning rates; 1e-4 in the other datasets.
TEST_ARTICLES = 10  # Of the 48 articles in SQuAD's dev data. The others are for training.


class Data(NamedTuple):
    """A dataset: columns of texts or of lists of words, and labels.

    Attributes:
        train, test: Tuples of texts (a tuple of two columns if each row has two) and labels: integers or lists of
            integers if they have names, otherwise floats, or the lists of answers to a question as `(text, start)`.
        names: List of strings. Names of the labels. Empty if they have none.
        length: Integer. Number of tokens at which texts are truncated, or contexts cut into windows.
        rate: Float. Peak learning rate.
        words: Boolean. Whether texts are lists of words, each of which has a label.
    """

    train: tuple
    test: tuple
    names: list
    length: int
    rate: float
    words: bool


def read(name, folder, examples=None, sizes=None):
    """Returns a dataset. `examples` limits the texts of each part, and `sizes` the training texts by name."""
    columns = READERS[name](pathlib.Path(folder))
    if sizes and name in sizes:  # as if there were no more texts to train on
        columns[0] = sample(columns[0], sizes[name])
    if examples:
        columns = [sample(part, examples) for part in columns]
    names = sorted({label for part in columns for labels in part[-1] for label in label_names(labels)})
    parts = [to_ids(part, {label: index for index, label in enumerate(names)}) for part in columns]
    return Data(*parts, names, LENGTHS.get(name, 128), RATES.get(name, 1e-4), name == "ewt")


def label_names(labels):
    """Returns the names in the label of a text, or in those of its words."""
    labels = labels if isinstance(labels, list) else [labels]
    return [label for label in labels if isinstance(label, str)]


def sample(columns, count):
    """Returns `count` rows, always the same, of columns."""
    rows = random.Random(0).sample(range(len(columns[-1])), min(count, len(columns[-1])))
    return [[column[row] for row in rows] for column in columns]


def to_ids(columns, ids):
    """Returns `(texts, labels)` with the labels that have names as integers."""
    *texts, labels = columns
    if ids:
        labels = [ids[label] if isinstance(label, str) else [ids[tag] for tag in label] for label in labels]
    return texts[0] if len(texts) == 1 else tuple(texts), labels


# === Readers: each returns the columns of the training and of the test part, the last of each the labels ===


def trec6(folder):
    parts = []
    for name in ("train_5500.label", "TREC_10.label"):
        lines = (folder / "trec6" / name).read_text("iso-8859-1").splitlines()
        parts.append([[line.split(" ", 1)[1] for line in lines], [line.split(":", 1)[0] for line in lines]])
    return parts


def table(folder, name, columns, has_head=True):
    """Returns columns of the training and of the dev file of a task of GLUE."""
    parts = []
    for part in ("train", "dev"):
        lines = (folder / "glue" / name / f"{part}.tsv").read_text("utf-8").splitlines()[has_head:]
        rows = [line.split("\t") for line in lines]
        parts.append([[row[column] for row in rows] for column in columns])
    return parts


def sst2(folder):
    return table(folder, "SST-2", (0, 1))


def cola(folder):
    return table(folder, "CoLA", (3, 1), has_head=False)


def rte(folder):
    return table(folder, "RTE", (1, 2, 3))


def sts_b(folder):
    """Scores are from 0 to 5."""
    return [[*texts, [float(score) for score in scores]] for *texts, scores in table(folder, "STS-B", (7, 8, 9))]


def sts_b_embeddings(folder):
    """Scores are from 0 to 1, as those of cosines."""
    return [[*texts, [score / 5 for score in scores]] for *texts, scores in sts_b(folder)]


def ewt(folder):
    parts = []
    for name in ("train", "test"):
        text = (folder / "ud_english_ewt" / f"en_ewt-ud-{name}.conllu").read_text("utf-8")
        sentences = [
            [line.split("\t") for line in block.split("\n") if line[:1] != "#"] for block in text.split("\n\n")
        ]
        sentences = [[row for row in rows if row[0].isdigit()] for rows in sentences]  # no ranges and no empty nodes
        sentences = [rows for rows in sentences if rows]
        parts.append([[[row[column] for row in rows] for rows in sentences] for column in (1, 3)])
    return parts


def squad(folder):
    """Returns the dev data of SQuAD 1.1, divided by article: questions, contexts and answers."""
    articles = json.loads((folder / "squad1.1" / "dev-v1.1.json").read_text("utf-8"))["data"]
    tested = random.Random(0).sample(range(len(articles)), TEST_ARTICLES)
    parts = [[[], [], []], [[], [], []]]
    for number, article in enumerate(articles):
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = [(answer["text"], answer["answer_start"]) for answer in question["answers"]]
                row = question["question"], paragraph["context"], answers
                for column, value in zip(parts[number in tested], row):
                    column.append(value)
    return parts


READERS = {
    "trec6": trec6,
    "sst2": sst2,
    "cola": cola,
    "rte": rte,
    "sts_b": sts_b,
    "sts_b_embeddings": sts_b_embeddings,
    "ewt": ewt,
    "squad": squad,
}
