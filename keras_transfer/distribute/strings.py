"""Models with string inputs under `tf.distribute`."""

from keras_transfer.keras_internals import BuildsFromOneReplica


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
