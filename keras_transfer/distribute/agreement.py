"""What several processes must have in common before they train together."""

import dataclasses
import hashlib

import keras
import numpy as np

from keras_transfer.distribute.processes import ALL, gather, processes_of, strategy_of, workers_of
from keras_transfer.version import __version__


def check_processes(model, data, method):
    """Raises a `ValueError` in all processes if they do not run the same model on the same data.

    Args:
        model: Task.
        data: `Batches`.
        method: String. `"fit"`, `"evaluate"` or `"predict"`.
    """
    if processes_of(model)[1] == 1:
        return
    versions = f"keras_transfer {__version__}, Keras {keras.__version__} on {keras.backend.backend()}"
    _check("versions", versions, [], model)
    options = dataclasses.replace(data.options, share=ALL)  # It has its share if `fit` has prepared it before.
    _check("method and options of batches", f"{method} with {options}", [], model)
    _check("rows", f"{len(data.real)} rows", _arrays_of(data), model)
    if method == "fit":
        shapes = [(tuple(weight.shape), weight.trainable) for weight in model.weights]
        weights = [keras.ops.convert_to_numpy(weight) for weight in model.weights]
        _check("weights", f"{len(shapes)} weights", [np.array(str(shapes)), *weights], model)
        config = keras.saving.serialize_keras_object(model.optimizer)["config"]
        _check("optimizer", str({name: value for name, value in config.items() if name != "name"}), [], model)


def check_strategy(model):
    """Raises a `ValueError` if a model on TensorFlow was created outside the scope that `initialize` returned.

    Also raises it for parameter servers, with which Keras does not train.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        if isinstance(strategy_of(model), tf.distribute.ParameterServerStrategy):
            raise ValueError(
                "Keras 3 does not train with parameter servers. Use `distribute.initialize()`, whose workers add up "
                "their gradients. Received: a `ParameterServerStrategy`"
            )
    count, own = workers_of(strategy_of())[1], workers_of(strategy_of(model))[1]
    if keras.backend.backend() == "tensorflow" and count != own:
        raise ValueError(
            "Create and compile the model in the scope of what `distribute.initialize()` returned. "
            f"Received: a model of {own} and a strategy of {count} processes"
        )


def _arrays_of(data):
    """Returns arrays that tell the rows of `Batches` from others: lengths, labels, weights and the first inputs."""
    arrays = [data.real] if isinstance(data.real, np.ndarray) else []
    arrays += [column for column in keras.tree.flatten((data.labels, data.sample_weight)) if column is not None]
    if "token_ids" in data.inputs or not isinstance(data.inputs, dict):
        first = data.read(np.arange(min(len(data.real), 8)), data.options.lengths[-1])
        arrays += keras.tree.flatten(first)
    return arrays


def _check(what, text, arrays, model):
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).view("uint8").data)
    (index, _), own = processes_of(model), np.frombuffer(digest.digest()[:8], "int64")
    found = gather(own, model)
    if others := np.flatnonzero(found != found[0]).tolist():
        raise ValueError(
            f"All processes must have the same {what}. Received: {text:.300} in process {index}, and others than in "
            f"process 0 in processes {others}"
        )
