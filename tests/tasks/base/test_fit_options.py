"""Options of `fit` that Keras would not understand are one clear error, before the first step."""

import keras
import numpy as np
import pytest

from tests.errors import check_errors
from tests.helpers import logged
from tests.tasks import tiny
from tests.tasks.tiny import of_vectors


def fit(**options):
    def call():
        model = of_vectors()
        model.compile("sgd", run_eagerly=True)
        model.fit(["good", "bad"], [0, 1], verbose=0, **options)

    return call


test_a_mistake_is_one_clear_error = check_errors(
    (fit(epochs=1.5), "`epochs` must be an integer of at least 0. Received: epochs=1.5"),
    (fit(initial_epoch="1"), "`initial_epoch` must be an integer of at least 0. Received: initial_epoch='1'"),
    (fit(steps_per_epoch=0), "`steps_per_epoch` must be an integer of at least 1. Received: steps_per_epoch=0"),
    (fit(validation_freq=0), "`validation_freq` must be an integer of at least 1. Received: validation_freq=0"),
    (fit(validation_split="0.5"), "must be a number between 0 and 1. Received: validation_split='0.5'"),
    (fit(shuffle="no"), "`shuffle` must be a boolean. Received: shuffle='no'"),
    (fit(callbacks=[keras.callbacks.EarlyStopping]), "Create it: add `()` after its name. Received: <class"),
    (fit(callbacks="early"), "must be a list of `keras.callbacks.Callback`s. Received: 'early'"),
)


def test_a_run_without_epochs_is_a_warning(caplog):
    fit(initial_epoch=2, epochs=2)()
    assert "`fit` trains no epoch" in caplog.text and "initial_epoch=2, epochs=2" in caplog.text


def test_a_list_of_epochs_to_validate_after_is_accepted():
    with pytest.raises(ValueError, match="`x` must have at least one row"):  # of the validation data
        fit(validation_freq=[1], validation_data=([], []))()


@pytest.mark.parametrize("labels", [["a"] * 4 + ["b"] * 4, np.array([0] * 4 + [1] * 4)], ids=str)
def test_a_class_that_occurs_only_in_the_validation_split_is_a_warning(labels, caplog):
    model = tiny.of_words(["good", "bad"], label_names=["a", "b"])
    model.compile(run_eagerly=True)
    texts = ["good", "bad", "a", "b"] * 2
    model.fit(texts, labels, validation_split=0.5, verbose=0)
    [message] = logged(caplog, "`validation_split`")
    assert "the classes [1] occur only there" in message or "the classes ['b']" in message
    caplog.clear()
    model.fit(texts, [0, 1] * 4, validation_split=0.5, verbose=0)
    assert not logged(caplog, "`validation_split`")
