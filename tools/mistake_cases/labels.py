"""Labels and sample weights that do not fit the task or the texts."""

import numpy as np

import keras_transfer as kt
from mistake_cases.models import LABELS, NAMES, TEXTS, Mistake

STARS = ["1", "2", "3", "4"]


def fit(model, y, x=TEXTS, **options):
    return model.fit(x, y, verbose=0, **options)


def frame(columns, index=None):
    import pandas as pd

    return pd.DataFrame(columns, index=index)


def learned(names, labels):
    """A classifier with these names that has learned texts with labels, and so the answers for them."""

    def make(models):
        model = models.classifier(optimizer=None, label_names=names)
        model.compile("adam")
        model.optimizer.learning_rate = 0.3
        fit(model, labels, epochs=60)
        return model.predict_labels(TEXTS)

    return make


def several(models, **options):
    return models.classifier(multi_label=True, label_names=["a", "b"], **options)


def weights(*values):
    return np.array(values, "float32")


MISTAKES = [
    # === Names and numbers ===
    Mistake(
        "label_names are numbers and the labels integers",
        learned(STARS, [1, 4, 1, 4]),
        "name",
        lambda found: [str(label) for label in found] == ["1", "4", "1", "4"],
    ),
    Mistake(
        "label_names are numbers that begin at 1, and a label is 0",
        learned(STARS, [0, 3, 0, 3]),
        "'1'.*Received: 0",
        lambda found: [str(label) for label in found] == ["1", "4", "1", "4"],
    ),
    Mistake(
        "booleans as labels of classes with other names",
        lambda m: fit(m.classifier(label_names=["good", "bad"]), [True, False, True, False]),
        "True|bool",
    ),
    Mistake(
        "labels=[10, 9, 2] of a new head",
        lambda m: kt.tasks.TextClassifier.from_pretrained(m.saved_encoder(), labels=[10, 9, 2]).num_classes,
        "integers|names",
        lambda found: found == 3,
    ),
    Mistake(
        "a name that is not in label_names",
        lambda m: fit(m.classifier(label_names=NAMES), ["yes", "no", "yess", "no"]),
        "'yess'.*position 2",
    ),
    Mistake(
        "a name in other case", lambda m: fit(m.classifier(label_names=NAMES), ["yes", "no", "Yes", "no"]), "'Yes'"
    ),
    Mistake(
        "a name that differs by its Unicode form",
        lambda m: fit(m.classifier(label_names=["cafe\u0301", "no"]), ["caf\u00e9", "no", "no", "no"]),
        "Unicode|NFC",
    ),
    Mistake(
        "names as labels of a model with num_classes",
        lambda m: fit(m.classifier(), ["yes", "no", "yes", "no"]),
        "label_names",
    ),
    Mistake("labels from 1", lambda m: fit(m.classifier(), [1, 2, 1, 2]), "from 0 to 1.*2"),
    Mistake("negative labels", lambda m: fit(m.classifier(), [1, -1, 1, -1]), "from 0 to 1.*-1"),
    Mistake("fractions as labels", lambda m: fit(m.classifier(), [0.5, 1.0, 0.0, 1.0]), "0.5"),
    Mistake("NaN as a label", lambda m: fit(m.classifier(), [np.nan, 1.0, 0.0, 1.0]), "nan"),
    Mistake(
        "None as a label", lambda m: fit(m.classifier(label_names=NAMES), ["yes", None, "no", "no"]), "None.*position 1"
    ),
    Mistake("one-hot labels for integer labels", lambda m: fit(m.classifier(), np.eye(2)[LABELS]), "one-hot|shape"),
    Mistake("fewer labels than texts", lambda m: fit(m.classifier(), LABELS[:3]), "3 labels, 4 texts"),
    Mistake("no labels", lambda m: fit(m.classifier(), None), "labels"),
    Mistake("a set as labels", lambda m: fit(m.classifier(label_names=NAMES), {"yes", "no"}), "set"),
    Mistake("a generator as labels", lambda m: fit(m.classifier(), (label for label in LABELS)), "generator"),
    Mistake("a dict as labels", lambda m: fit(m.classifier(), dict(zip(TEXTS, LABELS))), "dict"),
    Mistake("a string as labels", lambda m: fit(m.classifier(label_names=NAMES), "yes"), "yes|string|str"),
    Mistake(
        "label_names with the same name twice", lambda m: m.classifier(label_names=["a", "a"]), "two different names"
    ),
    Mistake("label_names with one name", lambda m: m.classifier(label_names=["a"]), "two different names"),
    Mistake("label_names as a string", lambda m: m.classifier(label_names="ab"), "list"),
    Mistake(
        "num_classes that is not the number of label_names",
        lambda m: kt.tasks.TextClassifier(m.words(), m.word_preprocessor(), num_classes=3, label_names=NAMES),
        "num_classes",
    ),
    Mistake(
        "a label for nearly every text",
        lambda m: kt.tasks.TextClassifier.from_pretrained(m.saved_encoder(), labels=[f"text {i}" for i in range(200)]),
        "200",
    ),
    Mistake(
        "another index of texts than of labels",
        lambda m: fit(m.classifier(), frame({"y": LABELS}, [3, 2, 1, 0])["y"], frame({"x": TEXTS})["x"]),
        "index",
    ),
    # === Several labels ===
    Mistake(
        "columns of a table in another order than label_names",
        lambda m: (
            several(m).evaluate(TEXTS, frame({"b": [1, 1, 1, 1], "a": [0, 0, 0, 0]}), verbose=0)
            == several(m).evaluate(TEXTS, np.array([[0, 1]] * 4), verbose=0)
        ),
        "column",
        lambda same: same,
    ),
    Mistake(
        "columns of a table with other names",
        lambda m: fit(several(m), frame({"a": [1] * 4, "c": [0] * 4})),
        r"\['a', 'b'\].*'c'",
    ),
    Mistake(
        "lists of positions that could be zeros and ones",
        lambda m: fit(several(m), [[0, 1], [1, 0], [0, 1], [1, 0]]),
        "array|names",
    ),
    Mistake(
        "lists of labels without multi_label=True",
        lambda m: fit(m.classifier(label_names=NAMES), [["yes"], ["no"], ["yes", "no"], []]),
        "multi_label",
    ),
    Mistake("a name for each text with multi_label=True", lambda m: fit(several(m), ["a", "b", "a", "b"]), "list"),
    Mistake("an unknown name with multi_label=True", lambda m: fit(several(m), [["a"], ["c"], [], []]), "'c'"),
    Mistake(
        "too many columns of zeros and ones",
        lambda m: fit(several(m), np.zeros((4, 3), int)),
        r"\[texts, 2\].*\(4, 3\)",
    ),
    Mistake("counts as several labels", lambda m: fit(several(m), np.full((4, 2), 3.0)), "from 0 to 1.*3.0"),
    # === Weights ===
    Mistake(
        "NaN among the sample weights",
        lambda m: fit(m.classifier(), LABELS, sample_weight=weights(1, np.nan, 1, 1)),
        "sample_weight.*nan.*1",
    ),
    Mistake(
        "an infinite sample weight",
        lambda m: fit(m.classifier(), LABELS, sample_weight=weights(1, np.inf, 1, 1)),
        "sample_weight.*inf",
    ),
    Mistake(
        "a column of sample weights with NaN",
        lambda m: fit(m.classifier(), LABELS, sample_weight=frame({"w": [1, None, 1, 1]})["w"]),
        "sample_weight.*nan",
    ),
    Mistake(
        "a negative sample_weight",
        lambda m: fit(m.classifier(), LABELS, sample_weight=weights(1, -1, 1, 1)),
        "at least 0.*-1.*position 1",
    ),
    Mistake(
        "NaN among the sample weights of prepared ids",
        lambda m: fit(m.classifier(), np.array(LABELS), prepared(m), sample_weight=weights(1, np.nan, 1, 1)),
        "sample_weight.*nan",
    ),
    Mistake(
        "NaN among the weights of sentences",
        lambda m: fit(m.tagger(), [["A", "B"], ["A"]], [["good", "a"], ["bad"]], sample_weight=[1.0, np.nan]),
        "weight.*nan",
    ),
    Mistake(
        "fewer sample weights than texts",
        lambda m: fit(m.classifier(), LABELS, sample_weight=weights(1, 1)),
        "2 sample weights, 4 texts",
    ),
    Mistake(
        "names as sample weights",
        lambda m: fit(m.classifier(), LABELS, sample_weight=["a", "b", "c", "d"]),
        "sample_weight",
    ),
    Mistake(
        "an unknown class in class_weight",
        lambda m: fit(m.classifier(), LABELS, class_weight={0: 1.0, 5: 2.0}),
        "from 0 to 1.*5",
    ),
    Mistake(
        "NaN in class_weight",
        lambda m: fit(m.classifier(), LABELS, class_weight={0: 1.0, 1: np.nan}),
        "class_weight.*nan",
    ),
    Mistake(
        "a negative weight in class_weight",
        lambda m: fit(m.classifier(), LABELS, class_weight={0: 1.0, 1: -1.0}),
        "class_weight.*-1",
    ),
    Mistake(
        "an unknown word as class_weight", lambda m: fit(m.classifier(), LABELS, class_weight="balance"), "balanced"
    ),
    Mistake(
        "class_weight of a regressor",
        lambda m: fit(m.regressor(), [0.1, 0.2, 0.3, 0.4], class_weight={0: 1.0}),
        "class_weight",
    ),
    # === Numbers ===
    Mistake("names as the targets of a regressor", lambda m: fit(m.regressor(), ["a", "b", "c", "d"]), "number"),
    Mistake("NaN as a target", lambda m: fit(m.regressor(), [0.1, np.nan, 0.3, 0.4]), "nan"),
    Mistake("two targets for a regressor of one", lambda m: fit(m.regressor(), np.zeros((4, 2))), "num_targets|shape"),
    Mistake(
        "targets [n, 1] in one call and [n] in another",
        lambda m: (fit(regressor := m.regressor(), np.zeros((4, 1))), fit(regressor, np.zeros(4))),
        "shape",
        lambda found: len(found) == 2,
    ),
    # === Words ===
    Mistake("fewer labels than words", lambda m: fit(m.tagger(), [["A"]], [["good", "a"]]), "2 words.*1 labels"),
    Mistake("an unknown label of a word", lambda m: fit(m.tagger(), [["A", "C"]], [["good", "a"]]), "'C'"),
    Mistake(
        "one list of words as sentences",
        lambda m: fit(m.tagger(), ["A", "B"], ["good", "a"]),
        "one list for each sentence",
    ),
    Mistake(
        "labels of sentences instead of words", lambda m: fit(m.tagger(), ["A", "B"], [["good"], ["a"]]), "list|word"
    ),
]


def prepared(models):
    return {name: np.array(values) for name, values in models.word_preprocessor()(TEXTS).items()}
