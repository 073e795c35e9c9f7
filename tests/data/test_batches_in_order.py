"""Batches that are not shuffled keep the order of the texts, so that the predictions of any model are right."""

import keras
import numpy as np
import pytest

from keras_transfer.data.planning import Options, plan
from keras_transfer.text import BertPreprocessor, WordPreprocessor, batches, word_batches
from tests.tasks import tiny

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]


@pytest.fixture(scope="module")
def texts():
    """53 texts of 1 to 29 words, the first 16 of which are long."""
    random = np.random.default_rng(0)
    sizes = [*[29] * 16, *random.integers(1, 8, 8), *random.integers(1, 30, 29)]
    return [" ".join(random.choice(list("abcdefghij"), size)) for size in sizes]


def preprocessor():
    return BertPreprocessor(VOCABULARY, sequence_length=32)


def plain_model():
    """A functional Keras model that is not a task: the sum of an embedding."""
    inputs = {name: keras.Input((None,), name=name, dtype="int32") for name in ("token_ids", "padding_mask")}
    embedded = keras.layers.Embedding(len(VOCABULARY), 4, embeddings_initializer="normal")(inputs["token_ids"])
    masked = embedded * keras.ops.cast(inputs["padding_mask"][..., None], "float32")
    return keras.Model(inputs, keras.ops.sum(masked, axis=1))


@pytest.mark.core
@pytest.mark.parametrize("start", [0, 17])
def test_a_plain_keras_model_predicts_texts_in_their_order(texts, start):
    keras.utils.set_random_seed(0)
    model, texts, words = plain_model(), texts[start:], WordPreprocessor(list("abcdefghij"), 32)
    ids = {name: np.array(value) for name, value in words(texts).items()}
    expected = keras.ops.convert_to_numpy(model(ids))
    data = batches(texts, None, preprocessor=words, batch_size=8)
    assert (len(data.options.lengths) > 6) == (keras.backend.backend() != "jax")
    np.testing.assert_allclose(model.predict(data, verbose=0), expected, atol=1e-5)


def test_batches_without_labels_or_shuffling_keep_the_order_of_the_texts(texts):
    labels = np.arange(53)
    for data in (
        batches(texts, None, preprocessor=preprocessor(), batch_size=8),
        batches(texts, labels, preprocessor=preprocessor(), batch_size=8, shuffle=False),
        word_batches(
            [text.split() for text in texts], None, preprocessor=WordPreprocessor(list("abcdefghij"), 32), batch_size=8
        ),
    ):
        for _ in range(2):
            assert data.order.tolist() == list(range(53))
            assert [len(data[i][0]["token_ids"]) for i in range(len(data))] == [8] * 6 + [5]
            data.on_epoch_end()
    assert batches(texts, None, preprocessor=preprocessor(), batch_size=8, shuffle=True, seed=0).order.tolist() != list(
        range(53)
    )


def test_a_batch_in_order_is_as_long_as_its_longest_text_needs(texts):
    data = batches(texts[8:], None, preprocessor=preprocessor(), batch_size=8, drop_remainder=True)
    masks = [data[i][0]["padding_mask"] for i in range(len(data))]
    needed = [min(length for length in data.options.lengths if length >= mask.sum(1).max()) for mask in masks]
    assert [mask.shape[1] for mask in masks] == needed and len(set(needed)) > 1
    assert data.order.tolist() == list(range(40))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([8, 8, 8], [8, 8, 8]),
        ([8, 16, 8, 24], [8, 16, 8, 24]),
        ([8, 8, 16, 24, 8], [8, 24, 16, 24, 8]),
        ([24, 24, 8, 16], [24, 24, 24, 24]),
        ([8], [8]),
    ],
)
def test_the_first_two_batches_in_order_show_keras_that_lengths_vary(lengths, expected):
    found = plan(np.array(lengths), Options(1, (8, 16, 24)))
    assert [length for length, _ in found] == expected
    assert [rows.tolist() for _, rows in found] == [[index] for index in range(len(lengths))]


def test_a_task_groups_texts_by_length_and_returns_predictions_in_their_order(texts):
    model = tiny.classifier()
    data = batches(texts, None, preprocessor=model.preprocessor, batch_size=8)
    grouped = data.grouped()
    assert sum(grouped[i][0]["token_ids"].size for i in range(7)) < sum(data[i][0]["token_ids"].size for i in range(7))
    assert grouped.order.tolist() != list(range(53)) and grouped.grouped().order.tolist() == grouped.order.tolist()
    expected = keras.ops.convert_to_numpy(model(tiny.ids_of(model, texts)))
    np.testing.assert_allclose(model.predict(data, verbose=0), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(texts, batch_size=8, verbose=0), expected, atol=1e-5)
    assert data.order.tolist() == list(range(53))


def test_fit_without_shuffling_keeps_the_order_of_the_texts(texts, monkeypatch):
    model, seen = tiny.classifier(), []

    def fit(self, data, **options):
        seen.append(getattr(data, "made_from", data).order.tolist())
        return keras.callbacks.History()

    monkeypatch.setattr(keras.Model, "fit", fit)
    model.compile("sgd")
    model.fit(texts, [0, 1] * 26 + [0], batch_size=8, shuffle=False, verbose=0)
    assert seen == [list(range(53))]
