"""`fit` says once that the tokenizer does not know the texts, and that all answers may be the same."""

import keras
import numpy as np
import pytest

from keras_transfer.data.label_names import label_of_accuracy
from keras_transfer.experiments import compare
from keras_transfer.tasks import TextClassifier
from tests.helpers import logged
from tests.tasks.tagging.taggers import tagger
from tests.tasks.tiny import classifier, examples, of_vectors

pytestmark = pytest.mark.usefixtures("eagerly")
UNKNOWN, ONE_ANSWER = "unknown to the vocabulary", "exactly that of the answer"


def test_texts_of_which_the_vocabulary_lacks_most_words_lead_to_one_warning(caplog):
    model = classifier()
    model.compile("sgd")
    for _ in range(2):
        model.fit(["a x x y"] * 40, [0, 1] * 20, verbose=0)
    found = logged(caplog, UNKNOWN)
    assert len(found) == 1 and found[0].startswith("75% of the tokens")


def test_known_texts_and_a_few_unknown_words_lead_to_none(caplog):
    model = classifier()
    model.compile("sgd")
    model.fit(["a b c d e f g h i j good x"] * 20, [0, 1] * 10, verbose=0)
    assert UNKNOWN not in caplog.text


def test_prepared_ids_without_a_mask_are_trained_on():
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    vectors = keras.ops.mean(keras.layers.Embedding(20, 4)(ids), axis=1)
    model = TextClassifier(keras.Model({"token_ids": ids}, {"pooled_output": vectors}), num_classes=2)
    model.compile("sgd")
    inputs, labels = {"token_ids": np.arange(12, dtype="int32").reshape(4, 3)}, np.array([0, 1, 0, 1])
    logits = model.predict(inputs, verbose=0)
    expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[range(4), labels])
    losses = model.fit(inputs, labels, epochs=2, verbose=0).history["loss"]
    assert losses[0] == pytest.approx(expected, rel=1e-5) and losses[1] < losses[0]


def constant(model, place):
    """Makes a class the answer to everything."""
    weights = model.layers[-1].get_weights()
    model.layers[-1].set_weights([0 * weights[0], 9.0 * (np.arange(len(weights[1])) == place)])
    return model


def test_an_accuracy_that_is_that_of_one_answer_is_said(caplog):
    texts, labels = examples(40)
    labels = [0] * 30 + [1] * 10
    model = constant(of_vectors(), 0)
    model.compile("sgd", metrics=["accuracy"])
    model.optimizer.learning_rate = 0.0
    model.fit(texts, labels, verbose=0)
    assert "The accuracy, 0.7500, is exactly that of the answer '0' to everything" in caplog.text
    caplog.clear()
    model.fit(texts, labels, validation_data=(texts[:30], [0] * 12 + [1] * 18), verbose=0)
    assert "The validation accuracy, 0.4000" in caplog.text


def test_a_tagger_that_finds_nothing_is_told_apart(caplog):
    model = constant(tagger("vectors"), 1)
    model.compile("sgd")
    model.optimizer.learning_rate = 0.0
    model.fit([["a", "b", "good"]] * 20, [["WORD", "LETTER", "LETTER"]] * 20, verbose=0)
    assert f"{ONE_ANSWER} 'WORD'" in caplog.text


def test_only_the_accuracy_of_one_answer_to_enough_rows_says_anything():
    labels = ["x"] * 15 + ["y"] * 5
    assert [label_of_accuracy(labels, accuracy) for accuracy in (0.75, 0.25, 0.8)] == ["x", "y", None]
    assert label_of_accuracy(labels[:16], 15 / 16) is label_of_accuracy(["x"] * 30, 1.0) is None
    assert label_of_accuracy([["x"]] * 30, 1.0) is None


def test_a_comparison_notes_methods_that_give_one_answer():
    texts, labels = examples(24)
    data = {"train": (texts, labels), "validation": (texts, [0] * 18 + [1] * 6)}

    def majority(model, train, validation, seed):
        constant(model, 0).compile("sgd", metrics=["accuracy"])

    text = str(compare(of_vectors, data, {"majority": majority}, seeds=2, verbose=0))
    assert "majority: the validation accuracy is exactly that of the answer 0 to everything." in text
