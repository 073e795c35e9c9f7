"""Kernels of TensorFlow's operations. To make one takes longer than to run it with small tensors."""

import functools
import random


def share_kernels():
    """Makes the tests of a file share kernels, in this process.

    TensorFlow makes them again whenever a seed is set, because those with a state, which the tests do not use, would
    continue their random numbers. For each variable it makes a kernel of its own, because the name is in it.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.ops import gen_resource_variable_ops

    def set_seed(self, seed):
        self._seed, self._rng = seed, random.Random(seed)

    make = gen_resource_variable_ops.var_handle_op
    context.Context._set_global_seed = set_seed
    gen_resource_variable_ops.var_handle_op = functools.wraps(make)(
        lambda *arguments, debug_name="", **options: make(*arguments, **options)
    )
