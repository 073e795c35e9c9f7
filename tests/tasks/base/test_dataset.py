"""`Task.dataset` makes batches of whatever the user passes, and every method of a task uses it."""

import keras
import numpy as np
import pytest

from keras_transfer.tasks import TextClassifier
from keras_transfer.text import Batches, batches
from tests.tasks.loaders import Loader
from tests.tasks.tagging.taggers import NAMES, tagger
from tests.tasks.tiny import classifier, difference, examples

TEXTS, LABELS = examples(12)
ROWS = {name: np.ones((2, 3), "int32") for name in ("token_ids", "segment_ids", "padding_mask")}
WORDS, TAGS = [["a", "good", ","], ["bad"]], [["LETTER", "WORD", "MARK"], ["WORD"]]


@pytest.fixture(scope="module")
def model():
    return classifier()


def ids(model, texts=TEXTS):
    return {name: np.array(values) for name, values in model.preprocessor(texts).items()}


def rows(data):
    """Inputs of all rows of a dataset, in the order of the texts, padded to 32 tokens, and their labels."""
    items, order = [data[i] for i in range(len(data))], np.argsort(data.order)
    widths = [32 - item[0]["token_ids"].shape[1] for item in items]
    tokens = [np.pad(item[0]["token_ids"], [(0, 0), (0, width)]) for item, width in zip(items, widths)]
    return np.concatenate(tokens)[order].tolist(), np.concatenate([item[1] for item in items])[order].tolist()


def test_texts_and_arrays_become_batches_of_the_same_rows(model):
    expected = ids(model)["token_ids"].tolist(), LABELS
    arrays = ids(model)
    for x in (TEXTS, np.array(TEXTS), arrays, list(arrays.values()), {**arrays, "other": np.zeros((12, 3))}):
        data = model.dataset(x, LABELS, batch_size=5)
        assert isinstance(data, Batches) and len(data) == 3
        assert rows(data) == expected


def test_sentences_become_batches_of_words():
    data = tagger().dataset(WORDS, TAGS)
    assert data.contents.layout.counts == [3, 1]
    assert sorted(data[0][1][data[0][1] >= 0].tolist()) == [0, 1, 1, 2]


def test_batches_are_returned_unchanged_and_streams_of_texts_are_preprocessed(model):
    import tensorflow as tf

    made = batches(TEXTS, LABELS, preprocessor=model.preprocessor)
    assert model.dataset(made) is made
    stream = tf.data.Dataset.from_tensor_slices((ids(model), LABELS)).batch(4)
    for ours, theirs in zip(model.dataset(stream), stream, strict=True):
        assert all((a == b).numpy().all() for a, b in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True))
    for texts in (TEXTS, (TEXTS, TEXTS)):
        prepared = model.dataset(tf.data.Dataset.from_tensor_slices((texts, LABELS)).batch(12))
        [(inputs, labels)] = list(prepared)
        expected = model.preprocessor(texts)
        assert labels.numpy().tolist() == LABELS
        length = inputs["token_ids"].shape[1]  # It is that of the longest text.
        assert all((inputs[name] == expected[name][:, :length]).numpy().all() for name in expected)
    [(inputs,)] = list(model.dataset(tf.data.Dataset.from_tensor_slices(((TEXTS, TEXTS),)).batch(12)))
    length = inputs["token_ids"].shape[1]
    assert (inputs["token_ids"] == model.preprocessor((TEXTS, TEXTS))["token_ids"][:, :length]).numpy().all()


def test_shuffled_batches_contain_every_row_once_in_an_order_that_follows_the_seed(model):
    orders = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        data = model.dataset(ids(model), np.arange(12) % 2, batch_size=4, shuffle=True)
        orders.append(data.order.tolist())
    assert orders[0] == orders[1] != orders[2] and sorted(orders[0]) == list(range(12))


@pytest.mark.parametrize("kind", ["texts", "arrays"])
def test_a_fraction_of_texts_or_arrays_is_split_off_for_validation(model, kind):
    model.compile("sgd", run_eagerly=True)
    x = TEXTS if kind == "texts" else ids(model)
    last = TEXTS[9:] if kind == "texts" else {name: values[9:] for name, values in x.items()}
    losses = model.fit(x, LABELS, validation_split=0.25, verbose=0).history["val_loss"]
    assert losses == [pytest.approx(model.evaluate(last, LABELS[9:], verbose=0)[0], rel=1e-5)]


def test_validation_data_overrides_a_fraction_that_is_split_off_as_in_keras(model):
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    part = TEXTS[:2], LABELS[:2]
    history = model.fit(TEXTS, LABELS, validation_split=0.25, validation_data=part, verbose=0).history
    assert history["val_loss"] == [pytest.approx(model.evaluate(*part, verbose=0)[0], rel=1e-5)]
    assert history["loss"] == [pytest.approx(model.evaluate(TEXTS, LABELS, verbose=0)[0], rel=1e-5)]


@pytest.mark.core
@pytest.mark.parametrize("structure", ["one tensor", "a list"])
def test_an_encoder_may_take_one_array_or_a_list_of_them(structure, recwarn):
    inputs = [keras.Input((4,), name=name) for name in ("first", "second")]
    inputs = inputs[:1] if structure == "one tensor" else inputs
    pooled = keras.layers.Dense(3)(keras.layers.Concatenate()(inputs) if len(inputs) > 1 else inputs[0])
    encoder = keras.Model(inputs if len(inputs) > 1 else inputs[0], {"pooled_output": pooled})
    model = TextClassifier(encoder, num_classes=2)
    random = np.random.default_rng(0)
    x = [random.normal(size=(5, 4)).astype("float32") for _ in inputs]
    x = x if len(x) > 1 else x[0]
    expected = keras.ops.convert_to_numpy(model(x))
    assert difference([model.predict(x, batch_size=3, verbose=0)], [expected]) < 1e-6
    assert not [str(warning.message) for warning in recwarn if "structure" in str(warning.message)]


def test_the_data_are_prepared_once(monkeypatch):
    model, calls = tagger(), []
    make = model.reader.batches
    monkeypatch.setattr(
        model.reader, "batches", lambda *given, **options: [calls.append(1), make(*given, **options)][1]
    )
    assert [row.shape for row in model.predict(WORDS, verbose=0)] == [(3, len(NAMES)), (1, len(NAMES))]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (ROWS, {"y": [0, 1, 1]}, "same number of rows. Received: rows={.*'token_ids': 2, 'y': 3}"),
        (
            {"token_ids": np.ones((2, 3))},
            {},
            r"A dict must have the encoder's inputs \['token_ids'.* keys \['token_ids'\]",
        ),
        ([np.ones((2, 3))], {}, r"an array for each of the inputs \['token_ids'.* Received: list of 1 values"),
        ({**ROWS, "token_ids": 3}, {}, "Received: dict of 3 values"),
        (ROWS, {"batch_size": 0}, "must be an integer of at least 1. Received: batch_size=0"),
        ({**ROWS, "token_ids": np.full((2, 3), 1.5)}, {}, r"must be integers. Received: 1.5 at position \(0, 0\)"),
        (Loader([]), {"y": [0]}, "must be None if `x` is a dataset.* and y$"),
    ],
)
def test_data_that_do_not_match_are_an_error(model, x, options, message):
    with pytest.raises(ValueError, match=message):
        model.dataset(x, **options)
