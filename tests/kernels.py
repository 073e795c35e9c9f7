"""Kernels of TensorFlow's operations. To make one takes longer than to run it with small tensors."""

import functools
import random

from tests.state import MEMORY, memory


def share_kernels():
    """Makes tests share kernels, in this process, until it uses much memory.

    TensorFlow makes them again whenever a seed is set, because those with a state, which the tests do not use, would
    continue their random numbers, and Keras frees them whenever a file of tests has ended. For each variable TensorFlow
    makes a kernel of its own, because the name is in it. The kernels of a function are freed together with it.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.ops import gen_resource_variable_ops

    def set_seed(self, seed):
        self._seed, self._rng = seed, random.Random(seed)

    def clear_kernels(self):
        if (memory() or MEMORY) >= MEMORY:
            clear(self)

    clear = context.Context.clear_kernel_cache
    context.Context.clear_kernel_cache = clear_kernels
    make = gen_resource_variable_ops.var_handle_op
    context.Context._set_global_seed = set_seed
    gen_resource_variable_ops.var_handle_op = functools.wraps(make)(
        lambda *arguments, debug_name="", **options: make(*arguments, **options)
    )
