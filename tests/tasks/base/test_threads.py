"""Several threads can train and predict with the tasks of one process, because no task changes Keras."""

import threading

import keras
import numpy as np
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from tests.tasks.tiny import of_vectors

TEXTS, LABELS = ["good a", "bad b", "good c d", "bad"], [1, 0, 1, 0]


class Keeps(keras.callbacks.Callback):
    """Keeps what Keras's data adapter looks like in each batch."""

    def __init__(self):
        super().__init__()
        self.found = []

    def look(self, *arguments, **options):
        self.found.append(dict(vars(PyDatasetAdapter)))

    on_train_batch_begin = on_test_batch_begin = on_predict_batch_begin = look


def test_no_method_replaces_a_method_of_keras(eagerly):
    model, keeps, before = of_vectors(), Keeps(), dict(vars(PyDatasetAdapter))
    model.compile("sgd")
    model.fit(TEXTS, LABELS, validation_data=(TEXTS, LABELS), callbacks=[keeps], verbose=0)
    model.evaluate(TEXTS, LABELS, callbacks=[keeps], verbose=0)
    model.predict(TEXTS, callbacks=[keeps], verbose=0)
    assert keeps.found == [before] * 4 and dict(vars(PyDatasetAdapter)) == before


class Waits(keras.callbacks.Callback):
    """Says that a step begins, and waits for something before it does."""

    def __init__(self, begins, wait_for):
        super().__init__()
        self.begins, self.wait_for = begins, wait_for

    def on_train_batch_begin(self, batch, logs=None):
        self.begins.set()
        assert self.wait_for.wait(60)


def test_two_fits_of_which_the_first_ends_during_the_second_leave_keras_as_it_was(eagerly):
    before, errors = dict(vars(PyDatasetAdapter)), []
    first, second, ended = threading.Event(), threading.Event(), threading.Event()

    def run(model, callback, done):
        try:
            model.fit(TEXTS, LABELS, callbacks=[callback], verbose=0)
        except Exception as error:
            errors.append(error)
        done.set()

    models = [of_vectors(), of_vectors()]
    for model in models:
        model.compile("sgd")
    threads = [
        threading.Thread(target=run, args=(models[0], Waits(first, second), ended)),
        threading.Thread(target=run, args=(models[1], Waits(second, ended), threading.Event())),
    ]
    threads[0].start()
    assert first.wait(60)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert not errors and dict(vars(PyDatasetAdapter)) == before
    assert np.isfinite(models[0].predict(TEXTS, verbose=0)).all()
