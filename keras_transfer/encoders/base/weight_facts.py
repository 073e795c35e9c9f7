"""What files of weights say about their model, so that `load_weights` rejects those of a different model."""

import json

import numpy as np

from keras_transfer.keras_internals import layer_tracking
from keras_transfer.names import check_order

_KEY = "facts"


def facts_of(model, encoder, names=None):
    """Returns what Keras does not compare when it loads weights, as a dict of JSON values.

    Args:
        model: `Encoder` or `Task`.
        encoder: Its encoder.
        names: List of the names of its classes, dict of these for several heads, or `None`. Defaults to `None`.
    """
    count = sum(bool(layer.weights) for layer in layer_tracking.layers_in(model))
    return {"layers": count, "adapters": list(getattr(encoder, "adapters", {})), "label_names": names}


def store_facts(store, facts):
    """Adds facts to what `save_own_variables` writes."""
    store[_KEY] = np.frombuffer(json.dumps(facts).encode(), "uint8")


def without_facts(store, facts):
    """Returns a store without its facts, after it has compared them with those of the model that loads it.

    Args:
        store: Dict-like, from names to arrays. Files of earlier versions have no facts.
        facts: Dict, what `facts_of` returns for the model.

    Raises:
        ValueError: If the file has layers that the model lacks, if adapters have different names or another order, or
            if the same classes have another order.
    """
    values = {key: store[key] for key in list(store.keys())}
    if _KEY not in values:
        return values
    found = json.loads(np.asarray(values.pop(_KEY)).tobytes())
    if found["adapters"] != facts["adapters"]:
        raise ValueError(
            "The weights belong to a model with other adapters, or with the same ones in another order. Add adapters "
            "with the names and in the order of the file, or use `save_adapters` and `load_adapters`. "
            f"Received: a file with the adapters {found['adapters']}, and a model with {facts['adapters']}"
        )
    if found["layers"] != facts["layers"]:
        raise ValueError(
            "The weights belong to a model with another number of layers. Create the model as it was when the file was "
            f"saved. Received: a file with {found['layers']} layers, and a model with {facts['layers']}"
        )
    check_order(found["label_names"], facts["label_names"])
    return values
