"""What would make training on a TPU fail or crawl, found without a TPU, and what to do about it."""

import collections
import dataclasses
import math
import re
from typing import Any

import keras

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.distribute.one_step import batches_for_step, traced_with_jax
from keras_transfer.keras_internals import build_for_step, layers_within

_CORES = 8  # of a host with TPU v2, v3 or v5e
_FLOATS = ("bfloat16", "float16", "float32", "float64")
# Errors of a step that needs values while it is traced.
_OF_VALUES = re.compile("Tracer|Concretization|NonConcrete|OperatorNotAllowedInGraph|numpy array")

_FLOAT64 = "A TPU has no float64. Use bfloat16, and float32 for inputs and labels"
_BFLOAT16 = (
    'Call `keras.config.set_dtype_policy("mixed_bfloat16")` before the model is created, or pass '
    '`dtype="mixed_bfloat16"` to its encoder. A module of TensorFlow Hub keeps the types that it was saved with'
)
_ONE_SHAPE = (
    "Give all batches one shape: pad all texts to one length (`sequence_length` of the preprocessor) and use "
    "`tf.data.Dataset.batch(batch_size, drop_remainder=True)`"
)
_IDS = (
    "Convert texts to ids on the host: pass texts to `fit` of a task, or map the preprocessor over the dataset. An "
    "encoder that reads strings itself cannot train on a TPU"
)
_COMPILABLE = (
    "Compute with `keras.ops` and fixed shapes: multiply by a mask or use `keras.ops.where(mask, a, b)` instead of "
    "selecting. Do the rest on the host: map it over the dataset, or use a callback of `fit`"
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that would make training on a TPU fail or crawl.

    Attributes:
        kind: String: `"shapes"`, `"strings"`, `"xla"`, `"replicas"`, `"precision"`, `"eager"` or `"dispatch"` (one call
            from the host for each step).
        fails: Boolean. Whether training fails. Otherwise, it is slow.
        message: String. What was found.
        remedy: String. What to do about it.
    """

    kind: str
    fails: bool
    message: str
    remedy: str

    def __str__(self):
        return f"{self.kind} ({'fails' if self.fails else 'slow'}): {self.message}. {self.remedy}."


@dataclasses.dataclass(frozen=True)
class TPUReport:
    """What `check_tpu_ready` found. Print it to read it. Its truth value is `ok`.

    Attributes:
        findings: Tuple of `Finding`s.
        replicas: Integer. Number of TPU cores that share a batch.
        rows: Integer. Number of rows of the batch.
    """

    findings: tuple
    replicas: int
    rows: int

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __bool__(self):
        return self.ok

    def __str__(self):
        found = f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}" if self.findings else "Nothing"
        title = f"{found} against {self.rows} rows on {self.replicas} TPU cores (checked without a TPU)"
        return "\n".join([f"{title}{':' if self.findings else '.'}", *(f"- {finding}" for finding in self.findings)])


@expects(replicas=integer(1))
def check_tpu_ready(model: keras.Model, batch: Any, *, replicas: int = _CORES) -> TPUReport:
    """Reports what would make the training step of a model fail or crawl on a TPU, without a TPU.

    The step is traced for the shapes of the batch, but not run, so the weights do not change. On JAX, it is lowered for
    TPUs. On TensorFlow, it is converted to a program of XLA for the CPU, which has a few operations that TPUs lack.
    **None of this was ever compared with a run on a TPU.** What only the TPU's compiler or its memory would reject is
    not found.

    Found are:

    - batches whose shapes differ or are unknown (`"shapes"`), and strings in them (`"strings"`)
    - a step that cannot be compiled, with the error of XLA, JAX or TensorFlow, which names the operation (`"xla"`)
    - rows that the cores cannot share evenly (`"replicas"`)
    - weights that compute in float32 or float16 instead of bfloat16, and float64 in weights or batches (`"precision"`)
    - `run_eagerly=True` (`"eager"`), and `steps_per_execution=1` (`"dispatch"`)

    On TensorFlow, XLA for the CPU compiles some steps that TPUs do not run well. So float64 that a step computes itself
    and shapes that depend on values, such as those of `tf.boolean_mask`, are not found.

    Args:
        model: Compiled Keras model on one device, created outside of the scope of a strategy or a distribution.
        batch: One batch of all cores, as a tuple `(x, y)` or `(x, y, sample_weight)`, or the dataset of batches that
            `fit` receives. The texts of a task may be raw. Of a dataset, the first batch is read, and the last one if
            it has a length. A `tf.data.Dataset` also says what it does not know of its shapes.
        replicas: Integer. Number of TPU cores that share each batch. Defaults to `8`, one host of TPU v2, v3 or v5e.

    Returns:
        `TPUReport`.

    Raises:
        ValueError: If the model is not compiled or on several devices, if `batch` or `replicas` is invalid, or on
            torch. A model that cannot train on the batch, whose labels may have a wrong shape, raises its own error.

    Example:
    ```python
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(2)])
    model.compile("adam", "mse", steps_per_execution=32)
    report = keras_transfer.distribute.check_tpu_ready(model, (np.ones((60, 16)), np.ones((60, 2))))
    keras.config.set_dtype_policy("float32")
    print(report)  # 60 rows cannot be shared by 8 cores
    if not report.ok:
        print([finding.kind for finding in report.findings])
    ```

    Source: https://cloud.google.com/tpu/docs/performance-guide and https://www.tensorflow.org/guide/tpu
    """
    backend = keras.backend.backend()
    expect(backend in ("tensorflow", "jax"), "Only TensorFlow and JAX run on TPUs.", backend=backend)
    batches, specs = batches_for_step(model, batch, "check_tpu_ready")
    rows = int(keras.tree.flatten(batches[0])[0].shape[0])
    findings = [*_of_batches(model, batches, specs), *_of_settings(model, rows, replicas), *_of_precision(model)]
    if all(finding.kind != "strings" for finding in findings):  # XLA compiles nothing for them.
        findings += _of_step(model, batches[0])
    return TPUReport(tuple(findings), replicas, rows)


def _of_batches(model, batches, specs):
    """Yields findings on the types and shapes of batches, or of the `specs` that a dataset declares for them."""
    described = [_described(batch) for batch in (batches if specs is None else [specs])]
    texts = [name for name, _, dtype in described[0] if dtype in ("string", "object") or dtype.startswith("str")]
    if texts:
        yield Finding("strings", True, f"The batch has strings in {texts[0]}", _IDS)
    for (name, first, _), (_, last, _) in zip(described[0], described[-1]):
        if first is None or None in first:
            message = f"The dataset does not know the shape of {name}, which is {first}"
            yield Finding("shapes", True, message, _ONE_SHAPE)
            break
        if first != last:
            message = f"The first batch has the shape {first} of {name}, the last one {last}"
            yield Finding("shapes", True, message, _ONE_SHAPE)
            break
    wide = [name for name, _, dtype in described[0] if dtype in ("float64", "complex128")]
    if wide and keras.backend.backend() == "tensorflow":  # JAX makes float32 of them.
        yield Finding("precision", True, f"The batch has float64 in {wide[0]}", _FLOAT64)


def _described(batch):
    """Returns the name, the shape (None if even its rank is unknown) and the name of the dtype of each array."""
    found = []
    for name, part in zip(("x", "y", "sample_weight"), batch):
        for path, value in keras.tree.flatten_with_path(part):
            place = "".join(f"[{key!r}]" for key in path)
            shape = getattr(value, "shape", ())
            shape = None if getattr(shape, "rank", 0) is None else tuple(shape)
            dtype = getattr(value, "dtype", type(value).__name__)
            found.append((f"{name}{place}", shape, getattr(dtype, "name", str(dtype))))
    return found


def _of_settings(model, rows, replicas):
    """Yields findings on the rows that the cores share, and on the arguments of `compile`."""
    if rows % replicas:
        remedy = f"Use a multiple of {replicas}, such as {max(round(rows / replicas), 1) * replicas}"
        yield Finding("replicas", True, f"{rows} rows cannot be shared evenly by {replicas} cores", remedy)
    if model.run_eagerly:
        message = "The model was compiled with `run_eagerly=True`"
        yield Finding("eager", True, message, "Compile it with `run_eagerly=False`")
    elif model.steps_per_execution == 1:
        message = "The host starts each step (`steps_per_execution=1`), and the TPU waits for it"
        yield Finding("dispatch", False, message, "Pass `steps_per_execution=32` or so to `compile`")


def _of_precision(model):
    """Yields which fraction of the weights computes in a type that a TPU lacks, or that is slow on it."""
    owners, sizes = {}, collections.Counter()
    inside = [layer for layer, around in layers_within(model) if around is not None]
    # The last one of these to contain a weight is the innermost.
    for layer in sorted(inside, key=lambda layer: (not isinstance(layer, keras.Model), -len(layer.weights))):
        owners |= {id(weight): (weight, layer) for weight in layer.weights if len(weight.shape) > 1}
    for weight, layer in owners.values():
        # The layer of a module of TensorFlow Hub has the type of its inputs, and the module computes in its own.
        in_module = layer.compute_dtype not in _FLOATS
        dtype = keras.backend.standardize_dtype(weight.dtype) if in_module else layer.compute_dtype
        sizes[dtype] += math.prod(weight.shape)
    for dtype, size in sorted(sizes.items()):
        share = size / sizes.total()
        if dtype != "bfloat16" and (dtype != "float32" or share > 0.5):
            remedy = _FLOAT64 if dtype == "float64" else _BFLOAT16
            yield Finding("precision", dtype == "float64", f"{share:.0%} of the weights compute in {dtype}", remedy)


def _of_step(model, batch):
    """Returns the finding on a training step that cannot be compiled, in a list, or an empty list."""
    traced = _traced_by_jax if keras.backend.backend() == "jax" else _traced_by_tensorflow
    try:
        compile = traced(model, batch)
    except Exception as error:  # whatever the operations of a user raise
        of_values = [each for each in _with_causes(error) if _OF_VALUES.search(f"{type(each).__name__}: {each}")]
        if not of_values:  # Such as labels that do not fit. XLA has compiled nothing yet.
            raise
        message = f"Values decide what is computed or its shape ({_shown(of_values[-1])})"
        return [Finding("xla", True, message, _COMPILABLE)]
    try:
        compile()
    except Exception as error:
        return [Finding("xla", True, f"The step cannot be compiled ({_shown(error)})", _COMPILABLE)]
    return []


# Both of these trace the step, and return a function that compiles it as far as that is possible without a TPU.


def _traced_by_jax(model, batch):
    traced = traced_with_jax(model, batch)
    return lambda: traced.lower(lowering_platforms=("tpu",))


def _traced_by_tensorflow(model, batch):
    batch = keras.tree.map_structure(tf.convert_to_tensor, batch)
    build_for_step(model, batch)
    step = tf.function(model.train_step, jit_compile=True, autograph=False)
    step.get_concrete_function(batch)
    return lambda: step.experimental_get_compiler_ir(batch)(stage="hlo")


def _with_causes(error):
    """Yields an error and those that it followed, because Keras raises others in place of those of a layer."""
    while error is not None:
        yield error
        error = error.__context__


def _shown(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
