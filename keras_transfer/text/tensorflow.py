"""TensorFlow, which runs everything in `text`, and is imported when it is first used."""

import functools

from keras_transfer.core.lazy import tf


def constants(make):
    """Decorates a function that makes constants of the graph, which takes long, so that the last ones are kept.

    They belong to no function that is being traced, which would keep them in its own graph, and lie on the CPU.
    """

    @functools.lru_cache(maxsize=4)
    @functools.wraps(make)
    def made(*args):
        with tf.init_scope(), tf.device("CPU:0"):
            return make(*args)

    return made
