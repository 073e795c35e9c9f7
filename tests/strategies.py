"""The one strategy of the process with two CPU devices."""

import functools


@functools.cache
def two_replicas():
    """Returns the process's `MirroredStrategy`. A second one would number its collective operations in the same way."""
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert strategy.num_replicas_in_sync == 2
    return strategy
