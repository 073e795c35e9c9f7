"""Initial values of weights from NumPy. JAX would compile a program for each shape, of up to half a second each."""

import types

import keras
import numpy as np
from keras.src.initializers import random_initializers


def draw_with_numpy():
    """Replaces the functions that Keras's initializers call, in this process."""
    original = random_initializers.random
    random_initializers.random = types.SimpleNamespace(
        make_default_seed=original.make_default_seed,
        SeedGenerator=original.SeedGenerator,
        normal=_normal,
        truncated_normal=_truncated_normal,
        uniform=_uniform,
    )
    for cls, fill in ((keras.initializers.Zeros, np.zeros), (keras.initializers.Ones, np.ones)):
        cls.__call__ = lambda self, shape, dtype=None, fill=fill: _tensor(fill(shape), dtype)


def _tensor(values, dtype):
    dtype = keras.backend.standardize_dtype(dtype)
    kind = "float32" if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2") else dtype
    return keras.ops.convert_to_tensor(np.asarray(values, kind), dtype)


def _generator(seed):
    if isinstance(seed, keras.random.SeedGenerator):
        seed = keras.ops.convert_to_numpy(seed.next())
    return np.random.default_rng(np.ravel(seed).tolist())


def _normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    return _tensor(_generator(seed).normal(mean, stddev, shape), dtype)


def _truncated_normal(shape, mean=0.0, stddev=1.0, dtype=None, seed=None):
    random = _generator(seed)
    values = random.normal(size=shape)
    while (far := np.abs(values) > 2).any():
        values[far] = random.normal(size=far.sum())
    return _tensor(mean + stddev * values, dtype)


def _uniform(shape, minval=0.0, maxval=1.0, dtype=None, seed=None):
    return _tensor(_generator(seed).uniform(minval, maxval, shape), dtype)
