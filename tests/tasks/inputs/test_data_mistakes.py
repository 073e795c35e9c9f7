"""Data that a user passes by mistake are one clear error, on every backend and for every kind of dataset."""

import keras
import numpy as np
import pytest

from keras_transfer.datasets import Split, Splits
from tests.helpers import EAGER
from tests.tasks.tagging.taggers import tagger
from tests.tasks.tiny import of_vectors

TEXTS, LABELS = ["good", "bad a", "good b"], [1, 0, 1]


@pytest.fixture(scope="module")
def model():
    model = of_vectors()
    model.compile("sgd", run_eagerly=EAGER)
    return model


@pytest.fixture
def ids(model):
    return {name: np.array(values) for name, values in model.preprocessor(TEXTS).items()}


# === Labels in datasets ===


@pytest.mark.core
@pytest.mark.report("Labels that begin at 1 or have gaps train another model, or crash.", "BERT-NER#56", "bert#695")
def test_a_label_out_of_range_in_a_dataset_is_an_error_and_not_trained(model, ids):
    tf = pytest.importorskip("tensorflow")
    wrong = [1, 0, 5]
    prepared = tf.data.Dataset.from_tensor_slices((ids, wrong, np.ones(3, "float32"))).batch(2)
    message = "in a batch of the dataset. Labels must be integers from 0 to 1. Received: 5 at position 0"
    for run_eagerly in {False, EAGER}:
        model.compile("sgd", run_eagerly=run_eagerly)
        with pytest.raises(ValueError, match=message):
            model.fit(prepared, verbose=0)
    with pytest.raises(ValueError, match=message):
        model.evaluate(prepared, verbose=0)
    texts = tf.data.Dataset.from_tensor_slices((TEXTS, wrong)).batch(2)
    with pytest.raises(ValueError, match=message):
        model.fit(TEXTS, LABELS, validation_data=texts, verbose=0)
    assert model.predict(texts, verbose=0).shape == (3, 2)


def test_a_label_out_of_range_from_a_generator_is_an_error(model, ids):
    model.compile("sgd", run_eagerly=EAGER)

    def generator(label):
        for _ in range(3):
            yield ids, np.array([0, 1, label])

    with pytest.raises(ValueError, match="Received: -1 at position 2"):
        model.fit(generator(-1), steps_per_epoch=3, verbose=0)
    assert len(model.fit(generator(1), steps_per_epoch=3, verbose=0).history["loss"]) == 1


def test_labels_of_datasets_may_have_an_axis_of_one_and_those_of_words_any_negative_number(model, ids):
    tf = pytest.importorskip("tensorflow")
    column = tf.data.Dataset.from_tensor_slices((ids, np.array(LABELS)[:, None])).batch(3)
    assert model.evaluate(column, verbose=0) == pytest.approx(model.evaluate(ids, LABELS, verbose=0))
    words = tagger("vectors")
    words.compile("sgd", run_eagerly=EAGER)
    inputs = {name: np.ones((1, 2), "int32") for name in words.input}
    for labels, wrong in (([[0, -100]], False), ([[0, 3]], True)):
        data = tf.data.Dataset.from_tensor_slices((inputs, np.array(labels))).batch(1)
        if wrong:
            with pytest.raises(ValueError, match=r"Received: 3 at position \(0, 1\)"):
                words.fit(data, verbose=0)
        else:
            logits = keras.ops.convert_to_numpy(words(inputs))[0, 0]  # The second word does not count.
            assert words.evaluate(data, verbose=0)[0] == pytest.approx(np.log(np.exp(logits).sum()) - logits[0])


def test_classes_and_labels_may_be_of_numpy_and_labels_whole_floats(model):
    from keras_transfer.tasks import TextClassifier

    for kind in (np.int64, np.int32):
        task = TextClassifier(of_vectors().encoder, num_classes=kind(3))
        assert task.num_classes == 3 and type(task.get_config()["num_classes"]) is int
    expected = model.evaluate(TEXTS, LABELS, verbose=0)
    for labels in (np.array(LABELS, "float32"), [1.0, 0.0, 1.0], [True, False, True]):
        assert model.evaluate(TEXTS, labels, verbose=0) == pytest.approx(expected)


@pytest.mark.core
@pytest.mark.parametrize("kind", ["texts", "words"])
def test_labels_may_be_tensors_that_only_the_backend_can_convert(model, kind, monkeypatch):
    class OnDevice:
        """Labels as torch keeps them on a GPU."""

        def __init__(self, values):
            self.values = np.array(values)
            self.shape, self.dtype = self.values.shape, "int64"

        def __array__(self, *args, **kwargs):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")

    convert, is_tensor = keras.ops.convert_to_numpy, keras.ops.is_tensor
    monkeypatch.setattr(keras.ops, "convert_to_numpy", lambda x: x.values if type(x) is OnDevice else convert(x))
    monkeypatch.setattr(keras.ops, "is_tensor", lambda x: type(x) is OnDevice or is_tensor(x))
    task, right, wrong = (model, [0, 1], [0, 2]) if kind == "texts" else (tagger("vectors"), [[0, 1]], [[0, 3]])
    task.labels.check(OnDevice(right))
    with pytest.raises(ValueError, match="Received: [23] at position"):
        task.labels.check(OnDevice(wrong))


# === Inputs ===


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"text": TEXTS}, r"inputs \['token_ids', 'padding_mask'\]. Pass raw texts as a list.* keys \['text'\]"),
        (zip(TEXTS, TEXTS), "must not be an iterator.* pairs of texts as a tuple of two lists.* of type zip"),
        (list(zip(TEXTS, TEXTS)), "Pass pairs as a tuple of two columns"),
        (list(zip(TEXTS, range(len(TEXTS)))), r"Pass texts and labels as two lists: `fit\(texts, labels\)`"),
        (
            (text for text in TEXTS),
            r"A loader must yield batches of what `fit` accepts.*`list\(texts\)`. Received: 'good'",
        ),
        ((pair for pair in [("good", 1)]), "A tuple must be a pair of texts. Pass labels as a separate argument"),
        (np.array([["good"], ["bad"], ["a"]]), "Texts must be a string, or a list, array, table column or tensor"),
    ],
    ids=[
        "dict",
        "zip",
        "list of pairs",
        "list of rows",
        "texts",
        "pairs",
        "two axes",
    ],
)
def test_inputs_that_are_no_texts(model, x, message):
    labels = LABELS if isinstance(x, (dict, list, np.ndarray)) else None
    with pytest.raises(ValueError, match=message):
        model.fit(x, labels, verbose=0)


def test_texts_in_a_dataset_have_one_axis(model):
    tf = pytest.importorskip("tensorflow")
    data = tf.data.Dataset.from_tensor_slices(([["good"], ["bad"]], [1, 0])).batch(2)
    for call in (model.fit, model.predict):
        with pytest.raises(ValueError, match=r"must have the shape \[batch\]. Remove the last axis"):
            call(data, verbose=0)


def test_a_dataset_without_labels_is_an_error_before_anything_is_traced(model, ids):
    tf = pytest.importorskip("tensorflow")
    for x in (ids, TEXTS):
        data = tf.data.Dataset.from_tensor_slices(x).batch(2)
        for call in (model.fit, model.evaluate):
            with pytest.raises(ValueError, match=f"`{call.__name__}` requires a dataset of `.inputs, labels.`"):
                call(data, verbose=0)


@pytest.mark.parametrize("part", ["split", "dataset"])
def test_a_split_is_passed_as_two_arguments(model, part):
    split = Split(TEXTS, LABELS)
    data, message = {
        "split": (split, r"Pass labels as a separate argument: `fit\(texts, labels\)`"),
        "dataset": (Splits({"train": split, "test": split}), r"x with the keys \['train', 'test'\]"),
    }[part]
    with pytest.raises(ValueError, match=message):
        model.fit(data, verbose=0)


@pytest.mark.parametrize("data", [TEXTS, TEXTS[:2], (TEXTS,)], ids=["list", "two", "alone"])
def test_validation_data_have_labels(model, data):
    with pytest.raises(ValueError, match=r"`validation_data` must be a dataset, or a tuple `\(x, y\)`"):
        model.fit(TEXTS, LABELS, validation_data=data, verbose=0)


@pytest.mark.parametrize(
    "weights",
    [
        "equal",
        {"bad": 1.0, "good": 2.0},
        {2: 1.0},
        {0: "1"},
    ],
    ids=str,
)
def test_weights_of_classes_are_a_dict_of_numbers(model, weights):
    for call in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match="must be a dict from classes, integers from 0 to 1") as error:
            call(TEXTS, LABELS, class_weight=weights)
        assert repr(weights) in str(error.value)


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="is about JAX")
def test_several_jax_processes_without_a_distribution_are_an_error(model, monkeypatch):
    import jax

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    for call in (
        lambda: model.fit(TEXTS, LABELS, verbose=0),
        lambda: model.evaluate(TEXTS, LABELS, verbose=0),
        lambda: model.predict(TEXTS, verbose=0),
    ):
        with pytest.raises(ValueError, match="train together only with a .* Received: process=0, count=2"):
            call()
