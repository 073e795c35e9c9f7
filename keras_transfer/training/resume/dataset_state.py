"""The state of a dataset that determines the order of its batches: reading it, and restoring it in another process."""

import hashlib
import logging

import keras
import numpy as np

from keras_transfer.training.resume.plain_pickle import NotPlain, Pickler, pack, unpack

log = logging.getLogger("keras_transfer")

LIMIT = 2**26  # Bytes. Larger attributes are not stored.
_METHODS = ("state_dict", "load_state_dict")


def has_epoch(dataset):
    """Returns whether a dataset has an integer `epoch`."""
    return isinstance(getattr(dataset, "epoch", None), (int, np.integer))


def has_state_dict(value):
    """Returns whether an object has the methods `state_dict` and `load_state_dict`."""
    return all(callable(getattr(value, name, None)) for name in _METHODS)


def _counts_epochs(dataset):
    """Returns whether the `epoch` of a `PyDataset` is a plain attribute. Setting it does not order the batches."""
    return isinstance(dataset, keras.utils.PyDataset) and not isinstance(
        getattr(type(dataset), "epoch", None), property
    )


def has_state(dataset):
    """Returns whether `state_of_dataset` can read the state of a dataset."""
    return has_state_dict(dataset) or has_epoch(dataset) or isinstance(dataset, keras.utils.PyDataset)


def state_of_dataset(dataset):
    """Returns the state of a dataset as a JSON value and an array of bytes (or None), or None, None without a dataset.

    The state is the result of `state_dict()`, or `epoch` and `seed`, or all attributes of a `PyDataset`. Attributes
    with plain values are stored, and others are only compared. Large arrays and memory maps are compared by dtype and
    shape.

    Raises:
        ValueError: If `state_dict()` does not return plain values.
    """
    if dataset is None:
        return None, None
    if has_state_dict(dataset):
        try:
            return {"kind": "state_dict"}, pack(dataset.state_dict())
        except NotPlain as error:
            raise ValueError(
                "`state_dict()` of a dataset must return numbers, strings, lists, dicts, arrays or random generators. "
                f"Received: {error} from {type(dataset).__name__}"
            ) from error
    if has_epoch(dataset) and not _counts_epochs(dataset):
        seed = getattr(dataset, "seed", None)
        seed = int(seed) if isinstance(seed, (int, np.integer)) else None
        return {"kind": "epoch", "epoch": int(dataset.epoch), "seed": seed}, None
    digests, plain = {}, {}
    for name, value in dict(vars(dataset)).items():
        digests[name], is_plain = _examine(value)
        if is_plain:
            plain[name] = value
    # Use a single pickle, so that objects that two attributes share remain shared.
    try:
        content = pack(plain)
    except NotPlain as error:
        log.warning(
            "The attributes of %s are not stored, because they changed while they were read: %s. Define the methods "
            "`state_dict` and `load_state_dict`.",
            type(dataset).__name__,
            error,
        )
        content = pack({})
    return {"kind": "attributes", "digests": digests}, content


def restore_dataset(state, read, dataset):
    """Restores what `state_of_dataset` returned, and warns about attributes that cannot be restored.

    Args:
        state: The JSON value.
        read: Function that returns the array of bytes.
        dataset: Dataset, or None.
    """
    now, _ = state_of_dataset(dataset)
    if (now and now["kind"]) != (state and state["kind"]):
        log.warning(
            "The order of the batches can differ: the dataset is of another kind than the training checkpoint's."
        )
    elif state is None:
        return
    elif state["kind"] == "state_dict":
        dataset.load_state_dict(unpack(read()))
    elif state["kind"] == "epoch":
        if state["seed"] is not None:
            dataset.seed = state["seed"]
        dataset.epoch = state["epoch"]
    else:
        _restore_attributes(state["digests"], now["digests"], unpack(read()), dataset)


def _restore_attributes(digests, now, plain, dataset):
    different = [name for name in {**now, **digests} if now.get(name) != digests.get(name)]
    for name in different:
        value, received = plain.get(name), getattr(dataset, name, None)
        if name not in plain:
            log.warning(
                "The order of the batches can differ: the attribute `%s` of %s differs from the training checkpoint's "
                "and cannot be restored. Define the methods `state_dict` and `load_state_dict`.",
                name,
                type(dataset).__name__,
            )
        elif isinstance(value, (bool, int, float, str)) or _resized(value, received):
            log.warning(
                "The run continues with the attribute `%s` of the training checkpoint, %s. Received: %s.",
                name,
                _describe(value),
                _describe(received),
            )
    vars(dataset).update(plain)


def _resized(value, received):
    """Returns whether two containers differ in length. An empty `received` is ignored, as it may be filled later."""
    return bool(_length(received)) and _length(value) not in (None, _length(received))


def _length(value):
    """Returns the length of a container or an array, or None."""
    try:
        return None if isinstance(value, str) else len(value)
    except TypeError:  # The value has no `__len__`, or is an array of one number.
        return None


def _describe(value):
    length = _length(value)
    return f"{value!r:.100}" if length is None else f"{type(value).__name__} of length {length}"


class _Sink:
    """A file that keeps the digest and the size of what is written to it."""

    def __init__(self):
        self.digest, self.size = hashlib.sha256(), 0

    def write(self, part):
        self.digest.update(part)
        self.size += len(part)


class _Pickler(Pickler):
    def reducer_override(self, value):
        name = type(value).__name__
        if isinstance(value, np.ndarray) and (isinstance(value, np.memmap) or value.nbytes > LIMIT):
            name = f"{name} of {value.dtype} and shape {value.shape}"  # This does not read the whole array.
        elif not isinstance(value, keras.Layer):  # Keras would pickle a `.keras` file, which contains the time.
            return super().reducer_override(value)
        self.other = type(value)
        return str, (name,)


def _examine(value):
    """Returns the digest of an attribute, or None if it cannot be pickled, and whether its value can be stored."""
    sink = _Sink()
    pickler = _Pickler(sink, 5)
    try:
        pickler.dump(value)
    except Exception:  # An object's own method can raise any error.
        return None, False
    return sink.digest.hexdigest(), pickler.other is None and sink.size <= LIMIT
