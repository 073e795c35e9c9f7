"""How a task predicts batches: all together as Keras does, or one after the other if their outputs differ in length."""

import keras

from keras_transfer.distribute.replicas import replicas_of


class Prediction:
    """`predict` of a task with given options, for `Task.predict_in_order`.

    A call with batches returns their outputs. Keras joins these, so they must have the same length.

    Args:
        task: `Task`.
        predict: Function that returns the outputs of a dataset, with the options of Keras's `predict`.
        verbose: As in Keras. Defaults to `0`.
        callbacks: As in Keras. Defaults to `None`.
    """

    def __init__(self, task, predict, verbose=0, callbacks=None):
        self.task, self.predict = task, predict
        self.verbose, self.callbacks = verbose, callbacks

    def __call__(self, data):
        return self.predict(data, verbose=self.verbose, callbacks=self.callbacks)

    def parts(self, data):
        """Yields parts of `TextBatches`, each of one length, and their outputs.

        Each part is one batch, which is as long as its longest text. Replicas get the batches from Keras, padded to few
        lengths, because Keras's `predict_on_batch` would pass a whole batch to each of them.
        """
        if len(data) == 1:
            yield data, self(data)
        elif replicas_of(self.task)[0] > 1 or self.task.steps_per_execution > 1:
            yield from ((part, self(part)) for part in data.by_length())
        else:
            yield from self._one_by_one(data)

    def _one_by_one(self, data):
        callbacks = self.callbacks
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            shown = {"add_progbar": self.verbose != 0, "verbose": self.verbose, "epochs": 1, "steps": len(data)}
            callbacks = keras.callbacks.CallbackList(callbacks, model=self.task, **shown)
        callbacks.on_predict_begin()
        for index, batch in enumerate(data.each()):
            callbacks.on_predict_batch_begin(index)
            outputs = keras.Model.predict_on_batch(self.task, batch[0][0])
            callbacks.on_predict_batch_end(index, {"outputs": outputs})
            yield batch, outputs
        callbacks.on_predict_end()
