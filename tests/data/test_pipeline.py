"""Batches as a pipeline of TensorFlow: the same items, axes that vary, and an epoch that only `fit` counts."""

import keras
import numpy as np
import pytest

from keras_transfer.text import batches, part_batches
from tests.tasks import tiny

TEXTS, LABELS = tiny.examples(20)


def rows(items):
    return [inputs["token_ids"].tolist() for inputs, *_ in items]


def test_a_pipeline_has_the_items_of_the_batches_in_each_epoch_however_often_it_is_started():
    data = batches(TEXTS, LABELS, preprocessor=tiny.preprocessor(), batch_size=4, seed=0)
    pipeline = data.for_keras()
    assert pipeline.made_from is data and len(pipeline) == len(data) == 5
    for epoch in (0, 1, 1):
        data.epoch = epoch
        expected = [data[i] for i in range(5)]
        found = list(pipeline.as_numpy_iterator())
        assert rows(found) == rows(expected)
        assert [labels.tolist() for _, labels in found] == [labels.tolist() for _, labels in expected]
    before, data.epoch = rows(found), 2
    assert rows(pipeline.as_numpy_iterator()) != before


def test_only_axes_that_vary_are_unknown():
    texts = batches(TEXTS, np.eye(2)[LABELS], preprocessor=tiny.preprocessor(), batch_size=4)
    inputs, labels = texts.for_keras().element_spec
    assert inputs["token_ids"].shape.as_list() == [None, None] and labels.shape.as_list() == [None, 2]
    parts = part_batches((TEXTS, TEXTS[::-1]), None, preprocessor=tiny.preprocessor())
    assert parts.for_keras().element_spec[0]["token_ids"].shape.as_list() == [None, 2, None]
    fixed = batches(TEXTS, LABELS, preprocessor=tiny.preprocessor(), batch_size=4, lengths=[32], drop_remainder=True)
    assert fixed.for_keras().element_spec[0]["token_ids"].shape.as_list() == [4, 32]


@pytest.mark.parametrize("class_weight", [{}, {0: 0.0}, {0: 0.0, 1: 1.0}])
def test_a_class_without_a_weight_has_the_weight_1(class_weight):
    losses = []
    for weights in (class_weight, {0: class_weight.get(0, 1.0), 1: 1.0}):
        model = tiny.of_vectors()
        model.compile("sgd")
        data = model.dataset(TEXTS, LABELS, batch_size=20)
        losses.append(model.fit(data, class_weight=weights, verbose=0).history["loss"])
    assert losses[0] == losses[1]


@pytest.mark.core
def test_only_fit_goes_to_another_epoch():
    model = tiny.of_vectors()
    model.compile("sgd")
    data = model.dataset(TEXTS, LABELS, batch_size=4, shuffle=True)
    epochs = []
    for validation_data in (None, None, data):
        model.fit(data, validation_data=validation_data, verbose=0)
        epochs.append(data.epoch)
        model.evaluate(data, verbose=0)
        model.predict(data, verbose=0)
        assert data.epoch == epochs[-1]
    assert epochs[2] - epochs[1] == epochs[1] - epochs[0] > 0


@pytest.mark.parametrize("listed", [False, True])
def test_fit_counts_the_epochs(listed):
    model = tiny.of_vectors()
    model.compile("sgd")
    data = model.dataset(TEXTS, LABELS, batch_size=4, shuffle=True)
    callbacks = keras.callbacks.CallbackList([keras.callbacks.History()], model=model) if listed else None
    model.fit(data, epochs=3, callbacks=callbacks, validation_data=(TEXTS, LABELS), verbose=0)
    assert data.epoch == 3 and (callbacks is None or len(callbacks.callbacks) == 1)


@pytest.mark.core
@pytest.mark.parametrize("late", [False, True])
def test_only_the_epoch_that_begins_with_a_later_batch_is_shorter(late):
    model = tiny.of_vectors()
    model.compile("sgd")
    data = model.dataset(TEXTS, LABELS, batch_size=4, shuffle=True)
    begun = []
    counts = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: data.seek(3) if late else None,
        on_epoch_begin=lambda epoch, logs: begun.append(0),
        on_train_batch_end=lambda batch, logs: begun.append(begun.pop() + 1),
    )
    if not late:
        data.seek(3)
    model.fit(data, epochs=3, callbacks=[counts], verbose=0)
    assert begun == [2, 5, 5]
    data.seek(3)
    model.fit(data, epochs=2, verbose=0)
    assert int(model.optimizer.iterations) == 12 + 7
