"""What files of weights say about their model, so that `load_weights` rejects those of a different model."""

import contextlib
import json
import zipfile
from typing import Any

import numpy as np

from keras_transfer.core.expect import expect
from keras_transfer.core.files import WEIGHT_FACTS
from keras_transfer.core.names import check_order

_Model: Any = object  # To type checkers, the mixin has all attributes of the model that it is a part of.


class LoadsOwnWeights(_Model):
    """A mixin for `Encoder` and `Task`, whose `load_weights` compares the facts of a file before it assigns weights."""

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, **kwargs: Any) -> None:
        """Loads weights as `keras.Model.load_weights` does, if they belong to a model of the same kind.

        Args:
            filepath: String or path. File to read, which `save_weights` or `save` wrote.
            skip_mismatch: Boolean. Whether to skip layers whose weights have other shapes, with a warning. Defaults to
                `False`.
            **kwargs: Other arguments of `keras.Model.load_weights`.

        Raises:
            ValueError: If the weights belong to an encoder with another number of layers, to other adapters, or to the
                same classes in another order, also with `skip_mismatch=True`. The model is then unchanged. If the
                weights of a layer have another shape and `skip_mismatch` is `False`.
        """
        # Keras would collect an error of `load_own_variables`, assign the other layers, and then raise it.
        with _own_variables_in(filepath) as store:
            self.checked_variables(store)
        super().load_weights(filepath, skip_mismatch=skip_mismatch, **kwargs)


@contextlib.contextmanager
def _own_variables_in(path):
    """Returns what `save_own_variables` of a model has written into a file, or an empty dict if it is not in HDF5."""
    import h5py

    with contextlib.ExitStack() as opened:
        if zipfile.is_zipfile(path):
            archive = opened.enter_context(zipfile.ZipFile(path))
            name = next((each for each in archive.namelist() if each.endswith(".weights.h5")), None)
            path = None if name is None else opened.enter_context(archive.open(name))
        elif not h5py.is_hdf5(str(path)):
            path = None
        yield {} if path is None else opened.enter_context(h5py.File(path, "r")).get("vars", {})


def store_weight_facts(store, facts):
    """Adds facts to what `save_own_variables` writes."""
    store[WEIGHT_FACTS] = np.frombuffer(json.dumps(facts).encode(), "uint8")


def without_weight_facts(store, facts):
    """Returns a store without its facts, if any, after it has compared them with those of the model that loads it."""
    values = {key: store[key] for key in list(store.keys())}
    if WEIGHT_FACTS not in values:
        return values
    found = json.loads(np.asarray(values.pop(WEIGHT_FACTS)).tobytes())
    rules = {
        "adapters": "The weights belong to a model with other adapters, or with the same ones in another order. Add "
        "adapters with the names and in the order of the file, or use `save_adapters` and `load_adapters`.",
        "layers": "The weights belong to an encoder with another number of layers. Create the model as it was when the "
        "file was saved.",
    }
    for name, rule in rules.items():
        expect(found[name] == facts[name], rule, file={name: found[name]}, model={name: facts[name]})
    check_order(found["label_names"], facts["label_names"])
    return values
