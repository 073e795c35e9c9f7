"""A task knows whether it was trained on single texts or on pairs, and refuses the other kind."""

import keras
import numpy as np
import pytest

from keras_transfer.text import batches
from tests.helpers import EAGER, save_and_load
from tests.tasks.tiny import classifier

TEXTS, OTHERS, LABELS = ["a good b", "bad c", "a"], ["c", "d e", "good"], [1, 0, 1]
PAIRS = (TEXTS, OTHERS)


@pytest.fixture(scope="module")
def model():
    model = classifier()
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=EAGER)
    return model


@pytest.fixture
def on_pairs(model):
    model.fit(PAIRS, LABELS, verbose=0)
    return model


@pytest.fixture
def on_texts(model):
    model.fit(TEXTS, LABELS, verbose=0)
    return model


def test_a_model_of_pairs_refuses_single_texts(on_pairs):
    for method in ("predict", "predict_labels", "predict_on_batch", "__call__", "evaluate", "test_on_batch"):
        given = (TEXTS, LABELS) if method in ("evaluate", "test_on_batch") else (TEXTS,)
        with pytest.raises(ValueError, match="trained on pairs of texts. Pass a tuple of two.* Received: single texts"):
            getattr(on_pairs, method)(*given)
    assert len(on_pairs.predict(PAIRS, verbose=0)) == 3


def test_a_tuple_of_two_texts_is_no_pair_for_a_model_of_single_texts(on_texts):
    with pytest.raises(ValueError, match="Pass texts as a list; a tuple of two is one pair.* Received: pairs of texts"):
        on_texts.predict_labels(("a good b", "bad c"))
    assert len(on_texts.predict_labels(["a good b", "bad c"])) == 2


def test_validation_data_must_be_of_the_kind_of_the_training_data(on_texts):
    with pytest.raises(ValueError, match="trained on pairs of texts"):
        on_texts.fit(PAIRS, LABELS, validation_data=(TEXTS, LABELS), verbose=0)
    with pytest.raises(ValueError, match="must equal the number of texts"):
        on_texts.fit(PAIRS, [1], verbose=0)
    assert on_texts.fitted_on == "texts"  # neither of the two has trained


def test_each_fit_may_be_on_another_kind(on_texts):
    on_texts.fit(PAIRS, LABELS, validation_split=0.4, verbose=0)
    assert on_texts.fitted_on == "pairs"
    on_texts.train_on_batch(TEXTS, LABELS)
    assert on_texts.fitted_on == "texts"


def test_batches_and_streams_of_texts_know_their_kind(model):
    tf = pytest.importorskip("tensorflow")
    model.fit(batches(PAIRS, LABELS, preprocessor=model.preprocessor).grouped(), verbose=0)
    assert model.fitted_on == "pairs"
    with pytest.raises(ValueError, match="Received: single texts"):
        model.predict(batches(TEXTS, None, preprocessor=model.preprocessor), verbose=0)
    with pytest.raises(ValueError, match="Received: single texts"):
        model.predict(tf.data.Dataset.from_tensor_slices(TEXTS).batch(2), verbose=0)


def test_after_prepared_arrays_both_kinds_are_possible(on_pairs):
    ids = {name: np.array(values) for name, values in on_pairs.preprocessor(TEXTS).items()}
    assert len(on_pairs.predict(ids, verbose=0)) == 3
    on_pairs.fit(ids, LABELS, verbose=0)
    assert on_pairs.fitted_on is None
    assert on_pairs.predict(TEXTS, verbose=0).shape == on_pairs.predict(PAIRS, verbose=0).shape == (3, 2)


def test_a_loaded_model_knows_what_it_was_trained_on(on_pairs):
    loaded = save_and_load(on_pairs)
    with pytest.raises(ValueError, match=r"Set `model.fitted_on = None`"):
        loaded.predict(TEXTS, verbose=0)
    loaded.fitted_on = None
    assert loaded.predict(TEXTS, verbose=0).shape == (3, 2)
    assert save_and_load(loaded).fitted_on is None


def test_a_model_is_exported_for_the_texts_that_it_was_trained_on(model, on_pairs):
    with pytest.raises(ValueError, match="trained on pairs of texts. Use `pairs=True`.* Received: pairs=False"):
        on_pairs.signatures()
    assert list(on_pairs.signatures(pairs=True)["serving_default"].inputs) == ["text", "text_pair"]
    model.fit(TEXTS, LABELS, verbose=0)
    with pytest.raises(ValueError, match="trained on single texts. Use `pairs=False`.* Received: pairs=True"):
        model.signatures(pairs=True)
