"""Paths, numbers, rows of tables and datasets of dicts are errors that say how texts are passed."""

import pathlib

import keras
import numpy as np
import pytest

from keras_transfer.losses import MultipleNegativesRankingLoss
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import MaskedLM, TextEmbedder
from tests.helpers import EAGER
from tests.tasks.tiny import encoder, of_vectors, preprocessor

TEXTS, LABELS = ["good", "bad a", "good b"], [1, 0, 1]


@pytest.fixture(scope="module")
def model():
    model = of_vectors()
    model.compile("sgd", run_eagerly=EAGER)
    return model


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (pathlib.Path("reviews.csv"), r"not a file. .*datasets.read_table\(path.* Received: x='reviews.csv'"),
        ([pathlib.Path("a.txt")] * 3, r"`\[path.read_text\(\) for path in paths\]`. Received: .*at position 0"),
        (
            [{"label": 0, "review": "good"}] * 3,
            r"such as `\[row\['review'\] for row in rows\]`. Received: .*position 0",
        ),
        ([1, 2, 3], "Texts must be strings. Prepared arrays must be a dict.* Received: 1 at position 0"),
        (np.array([1, 2, 3]), r"Texts must be strings. .*token_ids.* Received: int64 of shape \(3,\)"),
        (["good", 2, "bad"], "Convert numbers to `str`. Received: "),
        (["good", {"text": "bad"}, "a"], r"such as `\[row\['text'\] for row in rows\]`. Received: "),
        (7, "`x` must be a list of texts, prepared arrays, or a dataset. Received: x=7"),
    ],
    ids=[
        "path",
        "paths",
        "dicts",
        "ids",
        "array",
        "number",
        "dict",
        "scalar",
    ],
)
def test_what_is_no_text_is_an_error_that_says_how_texts_are_passed(x, message, model):
    for call in (lambda: model.fit(x, LABELS, verbose=0), lambda: model.predict(x, verbose=0)):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_table_is_passed_as_one_of_its_columns(model):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"review": TEXTS})
    with pytest.raises(ValueError, match=r"Pass `table\['review'\]`.* with the columns \['review'\]"):
        model.predict(table, verbose=0)
    assert model.predict(table["review"], verbose=0).shape == (3, 2)


def test_a_dataset_of_dicts_is_an_error_with_the_map_that_mends_it(model):
    tf = pytest.importorskip("tensorflow")
    rows = tf.data.Dataset.from_tensor_slices({"label": LABELS, "text": TEXTS}).batch(2)
    for call in (model.fit, model.evaluate, model.predict):
        with pytest.raises(
            ValueError, match=r"`dataset.map\(lambda row: \(row\['text'\], row\['label'\]\)\)`, or"
        ) as error:
            call(rows, verbose=0)
        assert str(error.value).endswith("Received: dicts with the keys ['label', 'text']")
    nested = rows.map(lambda row: ({"text": row["text"]}, row["label"]))
    with pytest.raises(ValueError, match=r"`dataset.map\(lambda row, \*rest: \(row\['text'\], \*rest\)\)`"):
        model.fit(nested, verbose=0)
    mended = nested.map(lambda row, *rest: (row["text"], *rest))
    assert model.evaluate(mended, verbose=0) == pytest.approx(model.evaluate(TEXTS, LABELS, verbose=0))


# === Validation data of tasks that make their targets ===


def test_validation_data_of_a_masked_language_model_may_be_texts_alone():
    task = MaskedLM(encoder(), preprocessor(), objective=TokenMasking(seed=0))
    task.compile(keras.optimizers.SGD(0.0), run_eagerly=EAGER)
    expected = task.evaluate(TEXTS, verbose=0)[0]
    for data in (TEXTS, (TEXTS,), np.array(TEXTS)):
        history = task.fit(TEXTS, validation_data=data, verbose=0).history
        assert history["val_loss"] == pytest.approx([expected], rel=1e-4)


def test_validation_data_of_an_embedder_may_be_the_tuple_of_columns():
    task = TextEmbedder(of_vectors().encoder, of_vectors().preprocessor)
    task.compile(keras.optimizers.SGD(0.0), MultipleNegativesRankingLoss(), run_eagerly=EAGER)
    rows = (TEXTS, TEXTS[::-1])
    history = task.fit(rows, validation_data=rows, verbose=0).history
    assert history["val_loss"] == pytest.approx([task.evaluate(rows, verbose=0)], rel=1e-4)
