"""Models with string inputs under `tf.distribute`."""

import keras


class StringInputs:
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

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync > 1:
            _, _, batches = next(iter(iterator))
            data_batch = keras.tree.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], next(batches)
            )
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)
