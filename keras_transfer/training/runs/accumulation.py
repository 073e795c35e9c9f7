"""A callback that uses the gradients of the last batches of a run, for which an optimizer would wait for more."""

import logging
import math

from keras_transfer.keras_internals import optimizers
from keras_transfer.training.runs.run import RunCallback, sync

log = logging.getLogger("keras_transfer")


class LastGradients(RunCallback):
    """Makes one update from the gradients that an optimizer has accumulated when the last epoch ends.

    Keras would keep them for the next `fit`. After a run that ends before its last epoch, they are dropped.
    """

    def __init__(self):
        super().__init__()
        self._is_last = False

    def on_train_begin(self, logs=None):
        optimizers.drop_gradients(self.model.optimizer)

    def on_epoch_begin(self, epoch, logs=None):
        self._is_last = epoch + 1 >= self.params.get("epochs", math.inf)

    def on_test_begin(self, logs=None):
        if self._is_last and (count := optimizers.left_over(self.model.optimizer)):
            sync(self.model)
            log.info("The last update of the run is the mean of its last %d batches.", count)
            optimizers.apply_gradients(self.model.optimizer, self.model.trainable_variables)

    def on_epoch_end(self, epoch, logs=None):
        self.on_test_begin()  # Without validation, nothing has called it.

    def on_train_end(self, logs=None):
        self._is_last = False
        if count := optimizers.left_over(self.model.optimizer):
            log.warning(
                "The run ended early. The gradients of its last %d batches, too few for an update, are dropped.",
                count,
            )
            optimizers.drop_gradients(self.model.optimizer)
