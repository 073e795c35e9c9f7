"""Pickles of plain values: numbers, text, containers, arrays and random states. Reading one runs no other code."""

import io
import pickle

import numpy as np

# Every class and function that a pickle of plain values can name.
_KNOWN = {
    "builtins": {"bytearray", "complex", "frozenset", "range", "set", "slice"},
    "collections": {"Counter", "OrderedDict", "deque"},
    "random": {"Random"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.random._pickle": {"__bit_generator_ctor", "__generator_ctor", "__randomstate_ctor"},
    "numpy.random._mt19937": {"MT19937"},
    "numpy.random._pcg64": {"PCG64", "PCG64DXSM"},
    "numpy.random._philox": {"Philox"},
    "numpy.random._sfc64": {"SFC64"},
    "numpy.random.bit_generator": {"SeedSequence", "__pyx_unpickle_SeedSequence"},
    "ml_dtypes": {"bfloat16", "float8_e4m3fn", "float8_e5m2"},
}


class NotPlain(Exception):
    """A value contains an object of another type."""


class _Reader(pickle.Unpickler):
    def find_class(self, module, name):
        known = _KNOWN.get(module.replace("numpy.core.", "numpy._core."), ())  # NumPy 1 has the old name
        if name not in known:
            raise NotPlain(f"{module}.{name}")
        return super().find_class(module, name)


def pack(value):
    """Returns the bytes of a plain value as an array.

    Raises:
        NotPlain: If the value is not plain.
    """
    try:
        content = pickle.dumps(value, 5)
    except Exception as error:  # whatever an object's own method raises
        raise NotPlain(str(error)) from error
    load(content)
    return np.frombuffer(content, "uint8")


def unpack(array):
    """Returns the value that `pack` turned into an array."""
    return load(array.tobytes())


def load(content):
    """Returns the plain value in a pickle.

    Raises:
        NotPlain: If the pickle names other classes or functions.
    """
    return _Reader(io.BytesIO(content)).load()
