"""Models whose inputs are strings, under `tf.distribute`."""

import keras


class StringInputs:
    """Lets `fit` and `evaluate` take strings under a strategy of `tf.distribute`, mixed into a model's class.

    There Keras looks at a first batch to build metrics and losses, and for that averages it over the replicas, which
    strings cannot be. This takes the first replica's part of it instead: only shapes and dtypes are looked at. Numbers
    are taken as before, and without a strategy, or on another backend than TensorFlow, nothing changes.

    It stands before Keras's class, which may be `keras.Model` or `keras.Sequential`.

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
