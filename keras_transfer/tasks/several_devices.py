"""Overrides of Keras's methods that let a task run on several devices and in several processes."""

import os
import pathlib
from typing import Any

import keras

from keras_transfer.core.files import atomic_files
from keras_transfer.distribute import (
    StringInputs,
    cut_off,
    reducible,
    track_loss,
    whole_on_each_device,
    write_together,
)

_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class SeveralDevices(StringInputs, _Task):
    """A mixin for `Task` with which each process returns the same results."""

    def test_step(self, *args):
        """Runs an evaluation step as `keras.Model` does. The loss is a mean over all rows or places of all batches.

        Keras's would be a mean over the batches, weighted by their rows, whatever their losses are means over. Also on
        several replicas of TensorFlow, it is the loss of one device.

        Args:
            *args: The batch, after the state of the model on JAX.

        Returns:
            Dict from the names of the loss and metrics to their values, on JAX together with the new state.
        """
        *state, data = args
        if not state:
            return reducible(self, self._evaluated(data))
        [(trainable, variables, metrics)] = state
        model, own = [self.trainable_variables, self.non_trainable_variables], self.metrics_variables
        known = [*zip([*model[0], *model[1], *own], [*trainable, *variables, *metrics], strict=True)]
        with keras.StatelessScope(state_mapping=known, collect_losses=True) as scope:
            logs = self._evaluated(cut_off(data))
        new = [[scope.get_current_value(variable) for variable in part] for part in (model[1], own)]
        return logs, (trainable, *new)

    def _evaluated(self, data):
        """Evaluates a batch and updates the metrics."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        outputs = self(x, training=False)
        loss = self.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight, training=False)
        count = self.labels.count_of(x, y, sample_weight)
        if keras.backend.backend() == "tensorflow":
            track_loss(self, loss, self.labels.weight_of(x, y, sample_weight), count)
        else:
            self.metrics[0].update_state(loss, sample_weight=count)
        return self.compute_metrics(x, y, outputs, sample_weight=sample_weight)

    def predict_step(self, *args):
        """Runs a prediction step as `keras.Model` does. On JAX, each process gets the outputs of all processes.

        Args:
            *args: The batch, after the state of the model on JAX.

        Returns:
            The outputs of the batch, on JAX together with the new state.
        """
        found = super().predict_step(*args)
        if keras.backend.backend() != "jax":
            return found
        outputs, state = found
        return whole_on_each_device(outputs), state

    def save(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """Saves the task as `keras.Model.save` does. If there are several processes, the first one writes the file.

        Args:
            filepath: String or path. File to write, which ends in `.keras`.
            *args: Other positional arguments of `keras.Model.save`.
            **kwargs: Other arguments of `keras.Model.save`, such as `overwrite`.

        Raises:
            ValueError: If the file is an HDF5 file, which could not be loaded.
        """
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                "A task must be saved in a file that ends in `.keras`. HDF5 files contain no vocabulary, and Keras "
                f"cannot load a task from them. `save_weights` saves the weights alone. Received: filepath={filepath!r}"
            )
        write_together(_whole(super().save, *args, **kwargs), filepath, self)

    def save_weights(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """Saves the weights as `keras.Model.save_weights` does. If there are several processes, the first one writes.

        Args:
            filepath: String or path. File to write, which ends in `.weights.h5`.
            *args: Other positional arguments of `keras.Model.save_weights`.
            **kwargs: Other arguments of `keras.Model.save_weights`, such as `overwrite`.
        """
        self.head_adapters.check()
        write_together(_whole(super().save_weights, *args, **kwargs), filepath, self)


def _whole(save, *args, **kwargs):
    """Returns a function that writes files with a method of Keras, completely or not at all."""

    def write(path):
        place = pathlib.Path(os.path.realpath(path))
        asks = place.exists() and not kwargs.get("overwrite", (*args, True)[0])
        if "://" in str(path) or place.is_dir() or asks:
            save(path, *args, **kwargs)
            return
        with atomic_files(place.parent, place) as folder:
            save(folder / place.name, *args, **kwargs)

    return write
