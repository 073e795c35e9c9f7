"""How much memory a training step needs, from the program that XLA compiles for it."""

import dataclasses
import math

import keras

from keras_transfer.distribute.one_step import batches_for_step, check_for_step, traced_with_jax


@dataclasses.dataclass(frozen=True)
class Memory:
    """What `memory_estimate` returns: numbers of bytes. Print it to read it.

    Attributes:
        weights: Integer. Weights of the model, and its other variables.
        optimizer: Integer. Variables of the optimizer, such as moments and accumulated gradients.
        batch: Integer. The batch.
        gradients: Integer. Gradients of the weights that train.
        activations: Integer. Everything else that the step keeps at its peak. XLA puts activations in the place of
            gradients where it can, so it may be 0.
        total: Integer. The peak.
    """

    weights: int
    optimizer: int
    batch: int
    gradients: int
    activations: int
    total: int

    def __str__(self):
        parts = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in parts.items())


def memory_estimate(model, batch):
    """Returns how much memory a training step needs at its peak, without running it. JAX only.

    XLA compiles the step for the shapes of the batch and for the device of the model, and says what its program needs.
    On another kind of device, XLA fuses other operations, and the same step needs another amount. Python, the
    libraries, and batches that wait for their turn need more.

    Args:
        model: Compiled Keras model on one device. If several devices share each batch, pass the rows of one of them.
        batch: Tuple `(x, y)` or `(x, y, sample_weight)`, or a dataset of batches, as for `check_tpu_ready`.

    Returns:
        `Memory`.

    Raises:
        ValueError: If the backend is not JAX, if the model is not compiled or on several devices, or if the batch
            has no rows or no labels.

    Example:
    ```python
    if keras.backend.backend() == "jax":
        model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(2)])
        model.compile("adam", "mse")
        print(keras_transfer.distribute.memory_estimate(model, (np.ones((64, 16)), np.ones((64, 2)))))
    ```

    Source: https://docs.jax.dev/en/latest/jax.stages.html
    """
    if keras.backend.backend() != "jax":
        raise ValueError(
            "Only JAX says how much memory a step needs. Set `KERAS_BACKEND=jax` before Keras is imported. "
            f"Received: backend={keras.backend.backend()!r}"
        )
    check_for_step(model, "memory_estimate")
    [batch, *_], _ = batches_for_step(model, batch)
    sizes = traced_with_jax(model, batch).lower().compile().memory_analysis()
    kept = sizes.argument_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
    gradients = _bytes(model.trainable_variables)
    return Memory(
        weights=_bytes([*model.variables, *model.metrics_variables]),
        optimizer=_bytes(model.optimizer.variables),
        batch=_bytes(keras.tree.flatten(batch)),
        gradients=gradients,
        activations=max(sizes.temp_size_in_bytes - gradients, 0),
        total=kept + sizes.temp_size_in_bytes,
    )


def _bytes(arrays):
    """Returns the number of bytes of arrays or variables, each once."""
    sizes = {id(array): math.prod(array.shape) * _width(array.dtype) for array in arrays}
    return sum(sizes.values())


def _width(dtype):
    name = keras.backend.standardize_dtype(dtype)
    return 1 if name == "bool" else {"float64": 4, "int64": 4}.get(name, keras.ops.zeros((), name).nbytes)
