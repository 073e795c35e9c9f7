"""Outputs of the lower layers of a model for each row of a dataset, computed once and indexed like an array."""

import hashlib

import keras
import numpy as np

from keras_transfer.adaptation.features.activation_files import CacheFolder, Memory, shape_of
from keras_transfer.batches import Batches, Options
from keras_transfer.keras_internals import trace_predict
from keras_transfer.version import __version__


class Activations:
    """The values of one tensor of a model for all rows of a dataset, a column of `Batches` indexed like an array.

    Padding is not stored. In batches, it is 0.

    Args:
        values: Array `[tokens of all rows, ...]`, or `[rows, ...]` if the tensor has no axis of tokens.
        starts: Integer array `[rows + 1]`. Position at which each row starts in `values`, or `None` if each row is a
            single element of `values`.
        extra: Integer. Number of tokens that the model adds to each row.
        fingerprint: String. Fingerprint of the layers that returned the values.
        store: Object that keeps the files in existence while the values are used.
    """

    def __init__(self, values, starts, extra, fingerprint, store):
        self.values, self.starts, self.extra, self.fingerprint, self._store = values, starts, extra, fingerprint, store
        tokens = [] if starts is None else [int(np.diff(starts).max())]
        self.shape = (len(values) if starts is None else len(starts) - 1, *tokens, *values.shape[1:])
        self.ndim, self.dtype = len(self.shape), values.dtype

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        """Returns an array of rows, given an integer array and a slice of the number of tokens to return."""
        rows, part = key
        if self.starts is None:
            return np.asarray(self.values[rows])
        length = part.stop + self.extra
        found = np.zeros((len(rows), length, *self.shape[2:]), self.dtype)
        for place, row in enumerate(rows):
            tokens = self.values[self.starts[row] : self.starts[row + 1]][:length]
            found[place, : len(tokens)] = tokens
        return found


def store_activations(cut, data, folder=None, dtype=None, memory_limit=2**31, verbose="auto"):
    """Runs the lower layers of a model once for each row of a dataset, and stores their outputs.

    Args:
        cut: `Cut`.
        data: `Batches`.
        folder: Path or `None`, as for `cache_features`. Defaults to `None`.
        dtype: String or `None`, as for `cache_features`. Defaults to `None`.
        memory_limit: Integer, as for `cache_features`. Defaults to `2**31`.
        verbose: As for `cache_features`. Defaults to `"auto"`.

    Returns:
        Dict from the names of the cut to `Activations`.
    """
    missing = [name for name in cut.lower.input if name not in data.inputs]
    if missing:
        raise ValueError(f"The data must have the inputs {list(cut.lower.input)}. Received: data without {missing}")
    inputs = {name: data.inputs[name] for name in {**cut.lower.input, "padding_mask": None} if name in data.inputs}
    ends = row_ends(data)
    # A different version of the library may compute different values with the same weights.
    made_by = {"model": cut.fingerprint(), "data": _digest(inputs, ends), "dtype": str(dtype), "version": __version__}
    store = Memory() if folder is None else CacheFolder(made_by, folder)

    def starts_of(kinds):
        return [_starts(kind, ends) for kind, _ in zip(kinds, cut.names, strict=True)]

    kinds, arrays, todo = store.open(len(ends), starts_of)
    starts = None if kinds is None else starts_of(kinds)
    bar = keras.utils.Progbar(len(ends), verbose=1 if verbose == "auto" else verbose, unit_name="row")
    finished = len(ends) - len(todo)
    for rows, length, outputs in _run(cut.lower, inputs, data, todo):
        outputs = [_checked(outputs[name], rows) for name in cut.names]
        found = [_kind(cut.inputs[name], values, length, dtype) for name, values in zip(cut.names, outputs)]
        if kinds is None:
            kinds, starts = found, starts_of(found)
            pairs = zip(kinds, starts)
            size = sum(np.prod(shape_of(*pair)) * np.dtype(pair[0]["dtype"]).itemsize for pair in pairs)
            if folder is None and size > memory_limit:
                store = CacheFolder(made_by)
            arrays = store.create(kinds, starts)
        if found != kinds:
            raise ValueError(f"All batches must have activations of one kind, {kinds}. Received: {found}")
        for array, begins, values in zip(arrays, starts, outputs):
            for row, value in zip(rows, _cast(values, array.dtype)):
                own = array[begins[row] : begins[row + 1]]
                own[...] = value[: len(own)] if value.ndim == own.ndim else value
        store.finish(rows)
        finished += len(rows)
        bar.update(finished)
    store.finish((), last=True)
    return {
        name: Activations(array, begins if kind["tokens"] else None, kind["extra"], made_by["model"], store)
        for name, kind, begins, array in zip(cut.names, kinds, starts, arrays)
    }


def row_ends(data):
    """Returns the number of tokens of each row of `Batches` up to its last real token, at least 1."""
    mask = data.inputs.get("padding_mask")
    if mask is None:
        return np.full(len(next(iter(data.inputs.values()))), max(data.options.lengths))
    real = np.asarray(mask) != 0
    return np.where(real.any(axis=1), real.shape[1] - np.argmax(real[:, ::-1], axis=1), 1)


def _run(lower, inputs, data, todo):
    """Yields `(rows, length, outputs)` for batches of the rows in `todo`, grouped by length."""
    if not len(todo):
        return
    part = {name: column[todo] for name, column in inputs.items()}
    options = Options(data.options.batch_size, data.options.lengths, grouped=True)
    plan = Batches(part, options=options)
    first = 0
    for i in range(len(plan)):
        (batch,) = plan[i]
        if i == 0:
            trace_predict(lower, ({name: batch[name] for name in lower.input},))
        outputs = lower.predict_on_batch({name: batch[name] for name in lower.input})
        count = len(next(iter(batch.values())))
        length = max((values.shape[1] for values in batch.values() if len(values.shape) > 1), default=0)
        yield todo[plan.order[first : first + count]], length, outputs
        first += count


def _kind(tensor, values, length, dtype):
    """Returns JSON values that describe the activations, such as whether they have an axis of tokens."""
    tokens = len(tensor.shape) > 1 and tensor.shape[1] is None
    stored = keras.backend.standardize_dtype(values.dtype)
    if "float" in stored:
        stored = dtype or ("float32" if stored == "bfloat16" else stored)  # NumPy files do not support bfloat16.
    extra = values.shape[1] - length if tokens else 0
    return {"tokens": tokens, "extra": int(extra), "shape": list(values.shape[2 if tokens else 1 :]), "dtype": stored}


def _starts(kind, ends):
    """Returns the positions at which rows start in an array, and the end of the last row."""
    return np.concatenate([[0], np.cumsum(ends + kind["extra"] if kind["tokens"] else np.ones_like(ends))])


def _checked(values, rows):
    if len(values.shape) == 0 or values.shape[0] != len(rows):
        raise ValueError(
            "The layers below must return one row for each text. Cut elsewhere. "
            f"Received: activations of shape {tuple(values.shape)} for {len(rows)} texts"
        )
    return values


def _cast(values, dtype):
    """Returns an array in the dtype in which it is stored."""
    with np.errstate(over="ignore"):
        stored = np.asarray(values).astype(dtype)
    if dtype == np.float16 and not np.isfinite(stored).all() and np.isfinite(values).all():
        raise ValueError(
            "The activations exceed the range of float16. Use `dtype=None`. "
            f"Received: dtype='float16', and activations up to {np.abs(values).max():.3g}"
        )
    return stored


def _digest(inputs, ends):
    """Returns a digest of the inputs that does not depend on the length to which they are padded."""
    digest = hashlib.blake2b(ends.astype("int64").tobytes(), digest_size=16)
    for name, column in sorted(inputs.items()):
        digest.update(name.encode())
        if column.dtype == object:  # The encoder accepts texts.
            parts = (text if isinstance(text, bytes) else str(text).encode() for text in column)
            digest.update(b"".join(len(part).to_bytes(8, "big") + part for part in parts))
        else:
            real = np.arange(column.shape[1])[None] < ends[:, None] if column.ndim > 1 else slice(None)
            digest.update(np.ascontiguousarray(column[real]).tobytes())
    return digest.hexdigest()
