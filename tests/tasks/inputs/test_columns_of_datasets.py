"""Columns of Hugging Face's datasets and of Arrow tables, as they are, in place of lists."""

import keras
import numpy as np
import pytest

from keras_transfer import tasks
from tests.errors import check_errors
from tests.tasks.tiny import classifier, encoder, of_words, preprocessor

TEXTS = ["a good b", "bad", "c d e f g", "good bad a"]
WORDS = [text.split() for text in TEXTS]
NAMES = ["no", "yes"]
COLUMNS = {
    "text": TEXTS,
    "other": TEXTS[::-1],
    "words": WORDS,
    "choices": [["a", "b c"], ["d", "e"], ["a b", "c"], ["f", "g h"]],
    "label": [1, 0, 0, 1],
    "several": [[0], [], [0, 1], [1]],
    "tags": [[1, 0, 1], [0], [1] * 5, [0, 0, 1]],
    "number": [0.1, 0.2, 0.3, 0.4],
    "answers": [{"text": ["good"], "answer_start": [2]}] + [{"text": [], "answer_start": []}] * 3,
}


class Slices:
    """A column of which only slices can be read, because reading it value by value is slow."""

    column_name = "text"
    features = None

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        assert isinstance(key, slice)
        return self.values[key]

    def __iter__(self):
        raise AssertionError("reads each value alone")


@pytest.fixture(scope="module")
def dataset():
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    names = datasets.ClassLabel(names=NAMES)
    found = datasets.Dataset.from_dict(COLUMNS)
    if not hasattr(found["text"], "column_name"):
        pytest.skip("these datasets are lists of columns")
    found = found.cast_column("label", names)
    return found.cast_column("several", datasets.List(names)).cast_column("tags", datasets.List(names))


@pytest.fixture(scope="module")
def arrow():
    return pytest.importorskip("pyarrow", reason="needs pyarrow").table(COLUMNS)


def spans():
    return tasks.SpanExtractor(encoder(), preprocessor())


CASES = {
    "classes": (lambda: classifier(), "text", "label"),
    "pairs": (lambda: classifier(), ("text", "other"), "label"),
    "numbers": (lambda: tasks.TextRegressor(encoder(), preprocessor()), "text", "number"),
    "choices": (lambda: tasks.MultipleChoice(encoder(), preprocessor()), ("text", "choices"), "label"),
    "words": (lambda: tasks.TokenClassifier(encoder(), preprocessor(), label_names=["A", "B"]), "words", "tags"),
    "answers": (spans, ("other", "text"), "answers"),
    "vectors": (lambda: tasks.TextEmbedder(encoder(), preprocessor()), ("text", "other"), None),
    "hidden tokens": (lambda: tasks.MaskedLM(encoder(), preprocessor()), "text", None),
}


def columns_of(table, names):
    return names and (tuple(table[name] for name in names) if isinstance(names, tuple) else table[names])


def same(ours, theirs):
    ours, theirs = ({"x": data.inputs, "y": data.labels} for data in (ours, theirs))
    for one, other in zip(keras.tree.flatten(ours), keras.tree.flatten(theirs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("dataset", name) for name in CASES), *((k, n) for k in ("arrow", "slices") for n in ("words", "answers"))],
)
def test_columns_are_read_as_lists(kind, name, request):
    pytest.importorskip("tensorflow_text")
    make, *names = CASES[name]
    sliced = {key: Slices(values) for key, values in COLUMNS.items()}
    table = sliced if kind == "slices" else request.getfixturevalue(kind)
    task = make()
    expected = task.dataset(*(columns_of(COLUMNS, each) for each in names))
    same(task.dataset(*(columns_of(table, each) for each in names)), expected)


@pytest.mark.parametrize("kind", ["numpy", "pandas", "arrow"])
def test_columns_may_have_a_format(kind, dataset):
    pytest.importorskip(kind if kind != "arrow" else "pyarrow")
    task = of_words(["good", "bad"], num_classes=2)
    expected = task.dataset(TEXTS, COLUMNS["label"])
    data = dataset.with_format(kind)
    same(task.dataset(data["text"], data["label"]), expected)


def test_fit_evaluate_and_predict_read_columns(dataset):
    def trained(table, **options):
        task = of_words(["good", "bad", *"abcdefg"], label_names=NAMES, dropout=0.0)
        keras.utils.set_random_seed(0)
        task.compile("sgd")
        x, y, weights = table["text"], table["label"], table["number"]
        history = task.fit(x, y, sample_weight=weights, batch_size=2, verbose=0, shuffle=False, **options).history
        return history, task.evaluate(x, y, verbose=0), task.predict(x, verbose=0).tolist(), task.predict_labels(x)

    assert trained(dataset, validation_split=0.5) == trained(COLUMNS, validation_split=0.5)


def test_a_class_label_is_read_by_its_names(dataset):
    task = of_words(["good", "bad"], label_names=["yes", "no"])
    assert task.dataset(dataset["text"], dataset["label"]).labels.tolist() == [0, 1, 1, 0]
    other = of_words(["good", "bad"], label_names=["b", "a"])  # The names tell nothing.
    assert np.asarray(other.dataset(dataset["text"], dataset["label"]).labels).tolist() == [1, 0, 0, 1]
    several = of_words(["good", "bad"], label_names=["yes", "no"], multi_label=True)
    labels = several.dataset(dataset["text"], dataset["several"]).labels
    assert labels.tolist() == [[0, 1], [0, 0], [1, 1], [1, 0]]
    words = tasks.TokenClassifier(encoder(), preprocessor(), label_names=["yes", "no"])
    tags = words.dataset(dataset["words"], dataset["tags"]).labels
    assert tags[tags >= 0].tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0]


def fit(make):
    task = of_words(["good", "bad"], label_names=NAMES)
    task.compile("sgd")
    task.fit(*make(), verbose=0)


def hugging_face(**columns):
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    found = datasets.Dataset.from_dict(columns)
    return found.cast_column("label", datasets.ClassLabel(names=NAMES)) if "label" in columns else found


def arrow_table():
    return pytest.importorskip("pyarrow", reason="needs pyarrow").table({"text": TEXTS})


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: (hugging_face(text=TEXTS),), "Pass `table['text']` ... Received: Dataset with the columns ['text']"),
    (lambda: (arrow_table(),), "Pass `table['text']` ... Received: Table with the columns ['text']"),
    (lambda: (hugging_face(a=["a", None])["a"], [0, 1]), "Texts must be strings, but 1 of 2 are not, the first at [1]"),
    (lambda: (["a", "b"], hugging_face(label=[0, -1])["label"]), "-1 ... at position 1"),
    call=fit,
)


@pytest.mark.parametrize("format", [None, "numpy", "torch", "tensorflow"])
def test_class_labels_are_matched_by_their_names_in_each_format(format):
    if format in ("torch", "tensorflow"):
        pytest.importorskip(format)
    column = hugging_face(label=[0, 1, 1]).with_format(format)["label"]
    for names in (NAMES[::-1], [name.upper() for name in NAMES[::-1]], [*NAMES[::-1], "other"]):
        labels = of_words(["good", "bad"], label_names=names).labels
        assert np.asarray(labels.encode(column)).tolist() == [names.index(names[1]), 0, 0]


def test_class_labels_with_other_names_are_positions_and_a_warning_says_so(caplog):
    column = hugging_face(label=[0, 1, 1])["label"]
    assert np.asarray(classifier(label_names=["x", "y"]).labels.encode(column)).tolist() == [0, 1, 1]
    assert f"The labels are positions in `label_names`: {NAMES} and ['x', 'y'] are other names." in caplog.text
