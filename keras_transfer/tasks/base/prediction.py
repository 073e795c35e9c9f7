"""How a task predicts batches: all together as Keras does, or separately if their outputs differ in length."""

import keras
import numpy as np

from keras_transfer.batches import MAX_LENGTHS
from keras_transfer.distribute import replicas_of


def distinct_rows(x):
    """Returns raw texts without repeated rows, and the position of each row among these.

    Args:
        x: A column of texts or of lists of texts, or a tuple of columns. If it is anything else, or if no row is
            repeated, it is returned unchanged with `None`.
    """
    columns = list(x) if isinstance(x, tuple) else [x]
    columns = [column.tolist() if hasattr(column, "tolist") else column for column in columns]
    if not all(isinstance(column, list) for column in columns) or len(set(map(len, columns))) != 1:
        return x, None
    rows = list(zip(*([tuple(value) if isinstance(value, list) else value for value in column] for column in columns)))
    if not all(isinstance(text, str) for row in rows for value in row for text in _texts_of(value)):
        return x, None
    found = {}
    places = [found.setdefault(row, len(found)) for row in rows]
    if len(found) == len(rows):
        return x, None
    first = dict(zip(reversed(places), reversed(range(len(rows)))))
    columns = [[column[first[place]] for place in range(len(found))] for column in columns]
    return tuple(columns) if isinstance(x, tuple) else columns[0], np.array(places)


def _texts_of(value):
    return value if isinstance(value, tuple) and value else (value,)


def by_length(data):
    """Yields the same `Batches`, padded to a few lengths, as one dataset for each length."""
    data = data.few_lengths()
    for length in sorted({length for length, _ in data.planned()}):
        yield data.pinned([batch for batch in data.planned() if batch[0] == length])


class Prediction:
    """`predict` of a task with fixed options, for `Reader.restore`.

    A call with batches returns their outputs. Keras joins these, so they must have the same length.

    Args:
        task: `Task`.
        predict: Function that returns the outputs of a dataset, with the options of Keras's `predict`.
        verbose: Verbosity, as in `keras.Model.predict`. Defaults to `0`.
        callbacks: List of Keras callbacks. Defaults to `None`.
    """

    def __init__(self, task, predict, verbose=0, callbacks=None):
        self.task, self.predict = task, predict
        self.verbose, self.callbacks = verbose, callbacks

    def __call__(self, data):
        outputs = self.predict(data, verbose=self.verbose, callbacks=self.callbacks)
        self._check_complete()
        return outputs

    def parts(self, data):
        """Yields parts of `Batches`, each of one length, with their outputs.

        If a step is compiled for each length, Keras predicts all batches of a length together. Otherwise each part is
        one batch, as long as its longest text. Replicas always get their batches from Keras, because its
        `predict_on_batch` would pass the whole batch to each of them.
        """
        if len(data) == 1:
            yield data, self(data)
        elif (
            len(data.options.lengths) <= MAX_LENGTHS
            or replicas_of(self.task)[0] > 1
            or self.task.steps_per_execution > 1
        ):
            yield from ((part, self(part)) for part in by_length(data))
        else:
            yield from self._one_by_one(data)

    def _one_by_one(self, data):
        callbacks = self.callbacks
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            shown = {"add_progbar": self.verbose != 0, "verbose": self.verbose, "epochs": 1, "steps": len(data)}
            callbacks = keras.callbacks.CallbackList(callbacks, model=self.task, **shown)
        self.task.stop_predicting = False
        callbacks.on_predict_begin()
        for index, planned in enumerate(data.planned()):
            batch = data.pinned([planned])
            callbacks.on_predict_batch_begin(index)
            outputs = keras.Model.predict_on_batch(self.task, batch[0][0])
            callbacks.on_predict_batch_end(index, {"outputs": outputs})
            self._check_complete()
            yield batch, outputs
        callbacks.on_predict_end()

    def _check_complete(self):
        """Raises a `RuntimeError` if a callback has stopped Keras, because every row must have an output."""
        if getattr(self.task, "stop_predicting", False):
            raise RuntimeError("`predict` of data in memory returns a result for each row, but a callback stopped it.")
