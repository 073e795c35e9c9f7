"""Pickles of plain values: numbers, text, containers, arrays and random states. They can refer to one function only."""

import collections
import io
import pickle
import random

import numpy as np

_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_KINDS_OF_DTYPES = "biufcSUMm"
_OTHER_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


class NotPlain(Exception):
    """A value contains an object of another type."""


class _Make:
    """The only function to which a pickle can refer. A pickle cannot change it."""

    __slots__ = ()

    def __call__(self, kind, *parts):
        return _MAKERS[kind](*parts)

    def __reduce__(self):
        return "_make"

    def __setstate__(self, state):
        raise NotPlain("a state of a function")


_make = _Make()


class Pickler(pickle.Pickler):
    """Writes plain values as calls of `_make`. The type of any other value is stored in `other`."""

    other = None

    def reducer_override(self, value):
        if value is _make:
            return "_make"
        parts = _parts(value)
        if parts is None:
            self.other = self.other or type(value)
            return NotImplemented
        return _make, parts


class _Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) != (__name__, "_make"):
            raise NotPlain(f"{module}.{name}")
        return _make


def pack(value):
    """Returns the bytes of a plain value as an array.

    Raises:
        NotPlain: If the value is not plain.
    """
    file = io.BytesIO()
    pickler = Pickler(file, 5)
    try:
        pickler.dump(value)
    except Exception as error:  # An object's own method can raise any error.
        raise NotPlain(str(error)) from error
    if pickler.other is not None:
        raise NotPlain(f"{pickler.other.__module__}.{pickler.other.__qualname__}")
    return np.frombuffer(file.getvalue(), "uint8")


def unpack(array):
    """Returns the value that `pack` turned into an array."""
    return load(array.tobytes())


def load(content):
    """Returns the plain value in a pickle.

    Raises:
        NotPlain: If the pickle names other classes or functions.
    """
    return _Reader(io.BytesIO(content)).load()


# === Taking values apart ===


def _parts(value):
    """Returns the arguments with which `_make` creates a value, or None if the value is of another type."""
    kind = type(value)
    if kind is np.ndarray and value.dtype == "object":
        return "objects", value.shape, value.ravel().tolist()
    if kind is np.ndarray or isinstance(value, np.generic):
        dtype = _text(value.dtype)
        return dtype and ("scalar" if kind is not np.ndarray else "array", dtype, value.shape, value.tobytes())
    if kind is np.random.RandomState:
        return "RandomState", value.get_state(legacy=False)
    if kind.__name__ in _BIT_GENERATORS and kind is getattr(np.random, kind.__name__):
        return "bits", value.state, value.seed_seq
    taken_apart = {
        complex: lambda: (value.real, value.imag),
        range: lambda: (value.start, value.stop, value.step),
        slice: lambda: (value.start, value.stop, value.step),
        collections.OrderedDict: lambda: (list(value.items()),),
        collections.deque: lambda: (list(value), value.maxlen),
        random.Random: lambda: (value.getstate(),),
        np.random.Generator: lambda: (value.bit_generator,),
        np.random.SeedSequence: lambda: (value.state,),
    }
    return (kind.__name__, *taken_apart[kind]()) if kind in taken_apart else None


def _text(dtype):
    """Returns the name of a dtype whose values consist of bytes only, or None for other dtypes."""
    if dtype.name in _OTHER_DTYPES:
        return dtype.name
    return dtype.str if dtype.kind in _KINDS_OF_DTYPES else None


# === Putting values together ===


def _array(dtype, shape, content):
    import ml_dtypes  # noqa: F401 (adds bfloat16 and float8 to NumPy)

    dtype = np.dtype(str(dtype))  # A dtype that is created from text has no state of its own.
    if _text(dtype) is None:
        raise NotPlain(str(dtype))
    return np.ndarray(shape, dtype, content).copy()


def _objects(shape, values):
    array = np.empty(len(values), "object")
    for place, value in enumerate(values):
        array[place] = value
    return array.reshape(shape)


def _random(state):
    generator = random.Random()
    generator.setstate(state)
    return generator


def _bits(state, seeds=None):
    if state["bit_generator"] not in _BIT_GENERATORS:
        raise NotPlain(str(state["bit_generator"]))
    for place in (state["state"].get("pos", 0), state.get("buffer_pos", 0)):  # NumPy does not check these
        if not 0 <= place <= 624:
            raise NotPlain(f"a position of {place}")
    generator = getattr(np.random, state["bit_generator"])(0 if seeds is None else seeds)
    generator.state = state
    return generator


def _random_state(state):
    generator = np.random.RandomState(_bits(state))
    generator.set_state(state)
    return generator


_MAKERS = {
    "array": _array,
    "scalar": lambda *parts: _array(*parts)[()],
    "objects": _objects,
    "complex": complex,
    "range": range,
    "slice": slice,
    "OrderedDict": collections.OrderedDict,
    "deque": collections.deque,
    "Random": _random,
    "bits": _bits,
    "Generator": np.random.Generator,
    "RandomState": _random_state,
    "SeedSequence": lambda state: np.random.SeedSequence(**state),
}
