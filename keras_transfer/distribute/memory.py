"""How much memory a training step needs, from the program that XLA compiles for it."""

import dataclasses
import math
import operator
import pathlib
import re
from typing import Any

import keras

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.distribute.one_step import batches_for_step, traced_with_jax
from keras_transfer.keras_internals import accumulation_steps, build_for_step

_SHARE = 0.8  # of free memory, because the estimate may be too low


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


def memory_estimate(model: keras.Model, batch: Any) -> Memory:
    """Returns how much memory a training step needs at its peak, without running it. JAX only.

    XLA compiles the step for the shapes of the batch and for the device of the model, and says what its program needs.
    On another kind of device, XLA fuses other operations, and the same step needs another amount. Python, the
    libraries, and batches that wait for their turn need more. On the CPU, the module `benchmarks.steps.step_memory`
    compares it with the resident memory of real steps.

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
    return _memory_of(model, _first_batch(model, batch, "memory_estimate"))


@expects(limit=integer(1))
def largest_batch(model: keras.Model, batch: Any, *, limit: int | None = None) -> int:
    """Returns how many rows of a batch a training step can have so that it fits into memory. JAX only.

    It tries the divisors of the number of rows, the highest first, so that several smaller batches have exactly as many
    rows. A number with many divisors, such as a power of two, leaves the most choice, and a prime number only single
    rows. XLA compiles the step for each, without running it. If not all rows fit, the variables are counted too in
    which an optimizer accumulates the gradients of several batches.

    Args:
        model: Compiled Keras model on one device.
        batch: Tuple `(x, y)` or `(x, y, sample_weight)` with as many rows as you want, or a dataset, of which the first
            batch is used.
        limit: Integer. Number of bytes that the step may need, with the weights and the optimizer. Defaults to `None`,
            for them and 80% of what is free: on the device, or in the memory of the machine if the device is the CPU.

    Returns:
        Integer. Number of rows, a divisor of the number of rows of the batch.

    Raises:
        ValueError: If not even one row fits, if JAX does not know the memory of the device, or for what
            `memory_estimate` raises.

    Example:
    ```python
    if keras.backend.backend() == "jax":
        model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(2)])
        model.compile("adam", "mse")
        print(keras_transfer.distribute.largest_batch(model, (np.ones((64, 16)), np.ones((64, 2)))))
    ```
    """
    batch = _first_batch(model, batch, "largest_batch")
    build_for_step(model, batch)  # From now on, the optimizer takes memory too.
    free = _free_memory() if limit is None else None
    every = int(keras.tree.flatten(batch)[0].shape[0])
    for rows in range(every, 0, -1):
        if every % rows:
            continue
        found = _memory_of(model, keras.tree.map_structure(operator.itemgetter(slice(rows)), batch))
        needed = found.total + (found.gradients if rows < every and accumulation_steps(model.optimizer) == 1 else 0)
        room = found.weights + found.optimizer + int(_SHARE * free) if limit is None else limit
        if needed <= room:
            return rows
    raise ValueError(
        "Not even one row fits into memory. Use shorter texts, `rematerialize`, adapters or a smaller encoder. "
        f"Received: a step that needs {needed / 1e6:.1f} MB, of which {room / 1e6:.1f} MB may be used"
    )


def _first_batch(model, batch, name):
    """Returns the first batch of the user's data on JAX, which alone says how much memory a step needs."""
    backend = keras.backend.backend()
    rule = "Only JAX says how much memory a step needs. Set `KERAS_BACKEND=jax` before Keras is imported."
    expect(backend == "jax", rule, backend=backend)
    return batches_for_step(model, batch, name)[0][0]


def _memory_of(model, batch):
    """Returns the `Memory` of a step on a batch that `batches_for_step` has made."""
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


def _free_memory():
    """Returns the number of free bytes of the device of JAX, or of the machine if that is the CPU."""
    import jax

    device = jax.local_devices()[0]
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    table = pathlib.Path("/proc/meminfo")  # of Linux
    found = re.search(r"MemAvailable:\s+(\d+) kB", table.read_text()) if table.exists() else None
    rule = "JAX does not know the memory of the device. Pass `limit`."
    expect(device.platform == "cpu" and found is not None, rule, device=device)
    return 1024 * int(found[1])


def _bytes(arrays):
    """Returns the number of bytes of arrays or variables on JAX, each once."""
    import jax

    names = [
        (keras.backend.standardize_dtype(array.dtype), array) for array in {id(each): each for each in arrays}.values()
    ]
    return sum(jax.dtypes.canonicalize_dtype(name).itemsize * math.prod(array.shape) for name, array in names)
