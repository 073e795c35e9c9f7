"""Models with string inputs, and on several machines, under `tf.distribute`."""

import keras

from keras_transfer.distribute.processes import processes_of
from keras_transfer.keras_internals import BuildsFromOneReplica


def reducible(model, logs):
    """Returns the logs of a step in the form in which Keras can average them over the workers of `tf.distribute`.

    Keras on TensorFlow averages over the first axis, which the numbers of a step do not have. On JAX, the logs are a
    tuple, which is returned unchanged.
    """
    if keras.backend.backend() != "tensorflow" or processes_of(model)[1] == 1:
        return logs
    return keras.tree.map_structure(lambda value: keras.ops.reshape(value, (1,)), logs)


class StringInputs(BuildsFromOneReplica):
    """A mixin that allows strings in `fit` and `evaluate` under a strategy of `tf.distribute`.

    Keras builds metrics and losses from the average of the first batch over the replicas, which fails for strings. This
    mixin uses the first replica's part instead, since only shapes and dtypes matter. Nothing changes without a strategy
    or on backends other than TensorFlow.

    Put it before the Keras class, which can be `keras.Model` or `keras.Sequential`.

    Example:
    ```python
    class Model(keras_transfer.distribute.StringInputs, keras.Sequential):
        pass

    hashing = keras.layers.Hashing(8, output_mode="multi_hot")
    with tf.distribute.MirroredStrategy().scope():
        model = Model([keras.Input((1,), dtype="string"), hashing, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(tf.constant([["good"], ["bad"]]), tf.constant([1.0, 0.0]))
    ```
    """

    def train_step(self, *args, **kwargs):
        return reducible(self, super().train_step(*args, **kwargs))

    def test_step(self, *args, **kwargs):
        return reducible(self, super().test_step(*args, **kwargs))
