"""Inputs that are no texts, or not in the form that a task expects."""

import pathlib

import numpy as np

import keras_transfer as kt
from mistake_cases.models import LABELS, TEXTS, Mistake


def fit(model, x, y=LABELS, **options):
    return model.fit(x, y, verbose=0, **options)


def stream(x, y=None, batch=2):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(x if y is None else (x, y)).batch(batch)


def ids(models, change=0):
    found = {name: np.array(values) for name, values in models.pieces()(TEXTS).items()}
    return {**found, "token_ids": found["token_ids"] + change}


def read(path):
    return kt.datasets.read_table(path, "text", label_column="label")


class Loader:
    """An iterable of batches that is no list."""

    def __init__(self, *batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


MISTAKES = [
    Mistake("integers as texts", lambda m: fit(m.classifier(), [1, 2, 3, 4]), "text|string"),
    Mistake("dicts as texts", lambda m: fit(m.classifier(), [{"text": text} for text in TEXTS]), r"row\['text'\]"),
    Mistake("None among the texts", lambda m: fit(m.classifier(), ["good", None, "a", "b"]), r"\[1\].*None"),
    Mistake("NaN among the texts", lambda m: fit(m.classifier(), ["good", float("nan"), "a", "b"]), r"\[1\].*nan"),
    Mistake("a dict with the column of texts", lambda m: fit(m.classifier(), {"text": TEXTS}), "list"),
    Mistake("a generator of texts", lambda m: fit(m.classifier(), (text for text in TEXTS), None), r"list\(texts\)"),
    Mistake(
        "a list of pairs instead of a pair of lists",
        lambda m: fit(m.bert_classifier(), list(zip(TEXTS, TEXTS))),
        "tuple of two",
    ),
    Mistake(
        "a list of texts and labels",
        lambda m: fit(m.classifier(), list(zip(TEXTS, LABELS)), None),
        r"fit\(texts, labels\)",
    ),
    Mistake("pairs of different lengths", lambda m: fit(m.bert_classifier(), (TEXTS, TEXTS[:3])), "4.*3"),
    Mistake("pairs for word vectors, which read one text", lambda m: fit(m.classifier(), (TEXTS, TEXTS)), "pair"),
    Mistake("three columns of texts", lambda m: fit(m.bert_classifier(), (TEXTS, TEXTS, TEXTS)), "two|pair"),
    Mistake("a path as texts", lambda m: fit(m.classifier(), pathlib.Path("train.csv"), None), "path|Path"),
    Mistake("a table with several columns as texts", lambda m: fit(m.classifier(), frame(x=TEXTS, id=TEXTS)), "column"),
    Mistake(
        "a table with one column as texts",
        lambda m: fit(m.classifier(), frame(x=TEXTS)),
        "column",
        lambda history: len(history.history["loss"]) == 1,
    ),
    Mistake("texts of the shape [n, 1]", lambda m: fit(m.classifier(), np.array(TEXTS)[:, None]), "axis|list"),
    Mistake("no texts", lambda m: fit(m.classifier(), [], []), "no |at least one"),
    Mistake("bytes that are not UTF-8", lambda m: fit(m.classifier(), [b"\xff\xfe", b"a", b"b", b"c"]), "UTF-8"),
    Mistake(
        "a lone surrogate in a text", lambda m: fit(m.classifier(), ["\ud800", "a", "b", "c"]), "position 0|surrogate"
    ),
    Mistake(
        "a tf.data of dicts", lambda m: fit(m.classifier(), stream({"text": TEXTS, "label": LABELS}), None), "text"
    ),
    Mistake(
        "a tf.data of dicts with labels", lambda m: fit(m.classifier(), stream({"text": TEXTS}, LABELS), None), "text"
    ),
    Mistake(
        "a tf.data that is not batched", lambda m: fit(m.classifier(), stream(TEXTS, LABELS).unbatch(), None), "batch"
    ),
    Mistake(
        "a tf.data of texts [batch, 1]",
        lambda m: fit(m.classifier(), stream(np.array(TEXTS)[:, None], LABELS), None),
        "axis",
    ),
    Mistake("a tf.data with names", lambda m: fit(m.classifier(), stream(TEXTS, ["b", "a"] * 2), None), "label_names"),
    Mistake("a tf.data without labels", lambda m: fit(m.classifier(), stream(TEXTS), None), "label"),
    Mistake("a tf.data and labels", lambda m: fit(m.classifier(), stream(TEXTS, LABELS), LABELS), "`y`.*must be None"),
    Mistake(
        "a label out of range in a tf.data",
        lambda m: fit(m.classifier(), stream(TEXTS, [2, 0, 1, 1]), None),
        "2 at position 0",
    ),
    Mistake(
        "a split as one argument",
        lambda m: fit(m.classifier(), kt.datasets.Split(TEXTS, LABELS), None),
        "texts.*labels|two",
    ),
    Mistake(
        "validation data without labels", lambda m: fit(m.classifier(), TEXTS, validation_data=TEXTS), "validation_data"
    ),
    Mistake(
        "texts as validation_data of a masked LM",
        lambda m: m.masked().fit(TEXTS, validation_data=TEXTS, verbose=0),
        "validation_data",
        lambda history: "val_loss" in history.history,
    ),
    Mistake(
        "texts as validation_data of a causal LM",
        lambda m: m.causal().fit(TEXTS, validation_data=TEXTS, verbose=0),
        "validation_data",
        lambda history: "val_loss" in history.history,
    ),
    Mistake(
        "validation_split of texts",
        lambda m: fit(m.classifier(), TEXTS, validation_split=0.5),
        "validation_split|hold_out",
        lambda history: "val_loss" in history.history,
    ),
    Mistake(
        "raw texts without a preprocessor",
        lambda m: fit(m.watch(kt.tasks.TextClassifier(m.bert(), num_classes=2)), TEXTS),
        "preprocessor",
    ),
    Mistake("token ids out of the vocabulary", lambda m: fit(m.bert_classifier(), ids(m, 10)), "token.*17|vocabulary"),
    Mistake("negative token ids", lambda m: fit(m.bert_classifier(), ids(m, -1)), "negative|-1"),
    Mistake(
        "negative token ids in predict", lambda m: m.bert_classifier().predict(ids(m, -1), verbose=0), "negative|-1"
    ),
    Mistake(
        "prepared ids without a mask",
        lambda m: fit(m.bert_classifier(), {"token_ids": np.ones((4, 4), int)}),
        "padding_mask",
    ),
    Mistake(
        "prepared ids that are too long",
        lambda m: m.bert_classifier().predict(
            {name: np.ones((1, 40), int) for name in ("token_ids", "segment_ids", "padding_mask")}, verbose=0
        ),
        "16",
    ),
    Mistake(
        "ids of fractions",
        lambda m: fit(m.bert_classifier(), {name: value + 0.5 for name, value in ids(m).items()}),
        "integer",
    ),
    Mistake("batch_size=0", lambda m: fit(m.classifier(), TEXTS, batch_size=0), "batch_size"),
    Mistake("batch_size='32'", lambda m: fit(m.classifier(), TEXTS, batch_size="32"), "batch_size"),
    Mistake(
        "epochs=0", lambda m: fit(m.classifier(), TEXTS, epochs=0), "epochs", lambda history: history.history == {}
    ),
    Mistake(
        "a loader of pairs that are none",
        lambda m: fit(m.masked(), Loader((TEXTS, TEXTS[1:])), None),
        "same number of texts",
    ),
    Mistake("a table of one column", lambda m: read(m.write("a.csv", "text\na\nb\n")), "label"),
    Mistake(
        "a table without the column",
        lambda m: read(m.write("a.csv", "body,label\na,1\n")),
        "text.*body",
    ),
    Mistake(
        "a table with a row that is too short",
        lambda m: read(m.write("a.csv", "text,label\na\n")),
        "line 2",
    ),
    Mistake("an empty table", lambda m: read(m.write("a.csv", "")), "empty|no "),
    Mistake("a table in another encoding", lambda m: read(latin(m)), "UTF-8"),
    Mistake("an unknown kind of table", lambda m: read(m.write("a.xlsx", "x")), "csv"),
    Mistake("a folder without the dataset", lambda m: kt.datasets.load_trec6(m.folder), "train_5500.label"),
    Mistake("a corpus without text", lambda m: corpus(m, ["", " "]), "without text"),
    Mistake("a corpus of names of files", lambda m: corpus(m, [str(m.write("a.txt", "a"))]), "pathlib.Path"),
    Mistake("a corpus of a file that does not exist", lambda m: corpus(m, str(m.folder / "b.txt")), "There is no file"),
    Mistake("a corpus in another encoding", lambda m: corpus(m, latin(m)), "UTF-8"),
    Mistake("streams of a corpus of few ids", lambda m: corpus(m, TEXTS).streams(1000, 8), "two ids for each"),
    Mistake("blocks without room for text", lambda m: corpus(m, TEXTS).blocks(2), "length.*greater than 2"),
    Mistake("pairs of a corpus of one text", lambda m: corpus(m, TEXTS[:1]).pairs(8), "at least two documents"),
    Mistake(
        "a corpus of other texts in its folder",
        lambda m: (corpus(m, TEXTS, "same"), corpus(m, TEXTS[1:], "same")),
        "corpus of other texts",
    ),
    Mistake("an unknown GLUE task", lambda m: kt.datasets.load_glue(m.folder, "SST2"), "SST-2"),
]


def corpus(models, source, folder=None):
    folder = models.folder / (folder or f"corpus {len(list(models.folder.iterdir()))}")
    return kt.text.Corpus.build(source, models.pieces(), folder, verbose=0)


def frame(**columns):
    import pandas as pd

    return pd.DataFrame(columns)


def latin(models):
    path = models.folder / "latin.csv"
    path.write_bytes("text,label\ncafé,1\n".encode("latin-1"))
    return path
