"""The number of epochs of a run with a given number of steps."""

import math

from keras_transfer.batches import Batches


def epochs_of_steps(data, length, steps, goes_on=False):
    """Returns the number of epochs of a run and the number of batches in each, which are at least `steps` in total.

    Epochs are shortened to an equal length if there is only one, if each has a different order, or if each continues
    where the last one ended. Otherwise they would all leave out the same batches at the end.

    Args:
        data: `Batches`, or anything else that `fit` accepts as `x`, whose order is then assumed to be fixed.
        length: Integer. Number of batches of the data.
        steps: Integer. Number of batches of the run.
        goes_on: Boolean. Whether an epoch continues where the last one ended, as with the `steps_per_epoch` of `fit`.
            Defaults to `False`.
    """
    epochs = math.ceil(steps / length)
    # Streams with several window lengths draw these in each epoch, but the order of the texts is fixed.
    reshuffled = isinstance(data, Batches) and data.options.shuffle and not hasattr(data, "num_streams")
    return epochs, math.ceil(steps / epochs) if epochs == 1 or reshuffled or goes_on else length
