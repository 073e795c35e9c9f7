"""What several devices and processes need of Keras's methods of a task."""

import keras

from keras_transfer.distribute import (
    StringInputs,
    cut_off,
    reducible,
    replicas_of,
    track_loss,
    whole_on_each_device,
    write_together,
)


class SeveralDevices(StringInputs):
    """A mixin for `Task`, of which each process returns the same."""

    def train_step(self, *args):
        """Runs a training step as `keras.Model` does, on JAX without the rows that were added for several devices."""
        *state, data = args
        return super().train_step(*state, cut_off(data))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Computes the loss as `keras.Model` does. On replicas of TensorFlow, each head is weighted by its labels."""
        if keras.backend.backend() == "tensorflow" and y is not None and replicas_of(self)[0] > 1:
            sample_weight = self.labels.weights_on_replicas(x, y, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def test_step(self, *args):
        """Runs an evaluation step as `keras.Model` does. On TensorFlow, the loss of replicas is that of one device."""
        if keras.backend.backend() != "tensorflow" or replicas_of(self)[0] == 1:
            *state, data = args
            return super().test_step(*state, cut_off(data))
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(*args)
        outputs = self(x, training=False)
        loss = self.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight, training=False)
        track_loss(self, loss, self.labels.weight_of(x, y, sample_weight), x)
        return reducible(self, self.compute_metrics(x, y, outputs, sample_weight=sample_weight))

    def predict_step(self, *args):
        """Runs a prediction step as `keras.Model` does. On JAX, each process gets the outputs of all of them."""
        found = super().predict_step(*args)
        if keras.backend.backend() != "jax":
            return found
        outputs, state = found
        return whole_on_each_device(outputs), state

    def save(self, filepath, *args, **kwargs):
        """Saves the task as `keras.Model.save` does. Of several processes, the first one writes the file."""
        write = super().save
        write_together(lambda path: write(path, *args, **kwargs), filepath, self)

    def save_weights(self, filepath, *args, **kwargs):
        """Saves the weights as `keras.Model.save_weights` does. Of several processes, the first one writes the file."""
        write = super().save_weights
        write_together(lambda path: write(path, *args, **kwargs), filepath, self)
