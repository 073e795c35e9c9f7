"""`train_on_batch`, `test_on_batch`, `predict_on_batch` and the call take raw text; a clone is a task or an error."""

import keras
import numpy as np
import pytest

from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import MaskedLM, TextClassifier
from tests.helpers import EAGER
from tests.tasks.tagging.taggers import examples, tagger
from tests.tasks.tiny import classifier, difference, encoder, ids_of, of_vectors, preprocessor

TEXTS, LABELS = ["good a b c d e f g h", "bad", "good a"], [1, 0, 1]


def compiled():
    model = classifier()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    return model


@pytest.fixture(scope="module")
def model():
    return compiled()


def numpy(values):
    return keras.ops.convert_to_numpy(values)


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS,
        np.array(TEXTS),
        tuple(TEXTS[:2]),
        (TEXTS, TEXTS[::-1]),
        ["good"],
    ],
    ids=["list", "array", "pair", "pairs", "one"],
)
def test_predict_on_batch_and_the_call_take_what_predict_takes(model, texts):
    expected = model.predict(texts, verbose=0)
    assert difference([model.predict_on_batch(texts), numpy(model(texts))], [expected, expected]) < 1e-6


def test_the_call_takes_a_string_and_tensors_of_strings():
    model = of_vectors()
    expected = model.predict(["good a"], verbose=0)
    assert difference([numpy(model("good a"))], [expected]) < 1e-6
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        assert difference([tf.function(model)(tf.constant(["good a"]))], [expected]) < 1e-6


def test_prepared_inputs_are_passed_on(model):
    inputs = ids_of(model, TEXTS)
    expected = model.predict(TEXTS, verbose=0)
    assert difference([model.predict_on_batch(inputs), numpy(model(inputs))], [expected, expected]) < 1e-6
    assert model.predict_on_batch([]).shape == (0, 2)


@pytest.mark.core
@pytest.mark.report("`train_on_batch` returns the mean of earlier batches.", "keras#22596", "keras#22617")
def test_train_on_batch_learns_what_fit_learns_from_one_batch():
    model = compiled()  # A model that was trained on texts refuses pairs.
    start, weights = model.get_weights(), [1.0, 0.5, 2.0]
    model.fit(TEXTS, LABELS, sample_weight=np.array(weights), verbose=0)
    expected = model.get_weights()
    model.set_weights(start)
    loss = model.test_on_batch(TEXTS, LABELS, sample_weight=np.array(weights))[0]
    assert model.train_on_batch(TEXTS, LABELS, sample_weight=np.array(weights))[0] == pytest.approx(loss, rel=1e-5)
    assert difference(model.get_weights(), expected) < 1e-5
    assert difference(model.get_weights(), start) > 1e-4
    model.set_weights(start)


def test_the_batches_of_one_update_have_different_masks():
    model = MaskedLM(encoder(), preprocessor(), objective=TokenMasking(seed=0))
    model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=4), run_eagerly=EAGER)
    seen, step = [], model.train_step
    model.train_step = lambda data: seen.append(numpy(data[0]["token_ids"])) or step(data)
    for _ in range(2):
        model.train_on_batch(TEXTS)
    assert seen[0].tolist() != seen[1].tolist()


def test_labels_of_one_batch_are_checked(model):
    for call in (model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match="Received: 2 at position 1"):
            call(TEXTS, [0, 2, 1])
        with pytest.raises(ValueError, match="Received: 2 at position 1"):
            call(ids_of(model, TEXTS), np.array([0, 2, 1]))
        with pytest.raises(ValueError, match="same number of rows. Received: .*'token_ids': 3, 'y': 2}"):
            call(ids_of(model, TEXTS), np.array([0, 1]))
        with pytest.raises(ValueError, match="Received: y=None"):
            call(TEXTS)
        with pytest.raises(ValueError, match="Received: no rows"):
            call([], [])


def test_a_tagger_takes_one_batch_of_sentences():
    model = tagger("vectors")
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    words, tags = ([row * 9 if i == 0 else row for i, row in enumerate(rows)] for rows in examples(4))
    found, expected = model.predict_on_batch(words), model.predict(words, verbose=0)
    assert [len(row) for row in found] == [len(row) for row in words]
    assert len(words[0]) > 24 and difference(found, expected) < 1e-6  # The first sentence has several rows.
    before = model.test_on_batch(words, tags)[0]
    assert model.train_on_batch(words, tags)[0] == pytest.approx(before)
    assert model.test_on_batch(words, tags)[0] < before
    with pytest.raises(ValueError, match="can be called on prepared inputs only.* Use `predict`"):
        model(words)


def test_clone_model_says_what_to_call_instead(model):
    with pytest.raises(
        ValueError, match=r"cannot clone a `TextClassifier`. Use `copy = TextClassifier.from_config"
    ) as error:
        keras.models.clone_model(model)
    assert "model.get_config()" in str(error.value) and "set_weights" in str(error.value)
    with pytest.raises(ValueError, match="cannot clone"):
        keras.models.clone_model(model, clone_function=lambda layer: layer)
    same = TextClassifier.from_config(model.get_config())
    same.set_weights(model.get_weights())
    assert same.preprocessor.get_config() == model.preprocessor.get_config()
    same.preprocessor = model.preprocessor  # A config has no vocabulary.
    np.testing.assert_allclose(same(["good"]), model(["good"]), atol=1e-6)
