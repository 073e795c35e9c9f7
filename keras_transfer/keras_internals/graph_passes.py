"""Running a function of TensorFlow with fewer passes of graph optimization, which take long and find nothing."""

import functools

from keras_transfer.core.lazy import tf


def with_few_passes(function):
    """Returns a function that computes the same, but whose graphs TensorFlow optimizes faster before their first run.

    Only calls of the returned function are affected: the options are those of a thread, and are put back.
    """
    from tensorflow.python.eager import context  # there is no public name

    @functools.wraps(function)
    def call(*args):
        current = context.context()
        given = current.function_call_options
        config = _with_few_passes(given.config_proto_serialized)
        current.function_call_options = context.FunctionCallOptions(given.executor_type, config)
        try:
            return function(*args)
        finally:
            current.function_call_options = given

    return call


@functools.lru_cache
def _with_few_passes(serialized):
    """Returns the options of a call as a `tf.compat.v1.ConfigProto`, with passes that run once and change a graph."""
    config = tf.compat.v1.ConfigProto.FromString(serialized)
    rewrite = config.graph_options.rewrite_options
    rewrite.meta_optimizer_iterations = rewrite.ONE
    rewrite.memory_optimization = rewrite.NO_MEM_OPT
    rewrite.layout_optimizer = rewrite.OFF
    return config
