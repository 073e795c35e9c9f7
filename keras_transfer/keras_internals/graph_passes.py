"""Running a function of TensorFlow without the passes of graph optimization that take long and find nothing."""

import functools

from keras_transfer.core.lazy import tf


def with_few_passes(function):
    """Returns a function that computes the same, but whose graphs TensorFlow optimizes faster before their first run.

    What else first runs within its calls is optimized like this, too. What the user chose for a pass remains.
    """
    from tensorflow.python.eager import context  # there is no public name

    @functools.wraps(function)
    def call(*args):
        current = context.context()  # Its options are those of the thread.
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
    """Returns the options of a call with passes that run once and change a graph, unless the user chose otherwise."""
    config = tf.compat.v1.ConfigProto.FromString(serialized)
    rewrite = config.graph_options.rewrite_options  # A choice that was not made is 0.
    rewrite.meta_optimizer_iterations = rewrite.meta_optimizer_iterations or rewrite.ONE
    rewrite.memory_optimization = rewrite.memory_optimization or rewrite.NO_MEM_OPT
    rewrite.layout_optimizer = rewrite.layout_optimizer or rewrite.OFF
    return config
