"""What would make training on a TPU fail or crawl, found without a TPU, and what to do about it."""

import collections
import dataclasses
import math
import re
from typing import Any

import keras

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.lazy import tf
from keras_transfer.distribute.one_step import batches_for_step, traced_with_jax, traced_with_tensorflow
from keras_transfer.keras_internals import layers_within

_CORES = 8  # of a host with TPU v2, v3 or v5e
_FLOATS = ("bfloat16", "float16", "float32", "float64")
_LARGE = 2**24  # Bytes of an array that should not be part of a program.
_HOST = re.compile(r"PyFunc|LookupTable|HashTable|^Print|Summary|ReadFile|WriteFile|Iterator")  # of TensorFlow
_CALLBACKS = re.compile(r"(\w*callback|debug_print|infeed|outfeed)\[\s*(?:# \[(.*)\])?")  # of JAX, with their place
_OF_VALUES = re.compile("Tracer|Concretization|NonConcrete|OperatorNotAllowedInGraph")  # errors of tracing
_OF_SHAPES = re.compile("compile-time constant|dynamic shape")  # in errors of XLA

_FLOAT64 = "A TPU has no float64. Use bfloat16, and float32 for inputs and labels"
_ON_HOST = "Do this on the host: map it over the dataset, or use a callback of `fit`"
_ONE_SHAPE = (
    "Give all batches one shape: pad all texts to one length (`sequence_length` of the preprocessor) and use "
    "`tf.data.Dataset.batch(batch_size, drop_remainder=True)`"
)
_FIXED_SHAPES = (
    "Compute with fixed shapes: multiply by a mask or use `keras.ops.where(mask, a, b)` instead of selecting"
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that would make training on a TPU fail or crawl.

    Attributes:
        kind: String: `"shapes"`, `"strings"`, `"host"` (operations that only the host can run), `"xla"`, `"replicas"`,
            `"precision"`, `"eager"`, `"dispatch"` (one call from the host for each step) or `"constants"`.
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

    - batches whose shapes differ or are unknown, and operations whose outputs have unknown shapes (`"shapes"`)
    - strings in the batch or in the step (`"strings"`)
    - operations that only the host can run, such as `tf.py_function`, lookup tables and printing (`"host"`)
    - a step that XLA cannot compile (`"xla"`)
    - rows that the cores cannot share evenly (`"replicas"`)
    - weights that compute in float32 or float16 instead of bfloat16, and any float64 (`"precision"`)
    - `run_eagerly=True` (`"eager"`), and `steps_per_execution=1` (`"dispatch"`)
    - large arrays that are part of the program (`"constants"`)

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
    found = {finding.kind for finding in findings}
    if "strings" not in found:  # XLA compiles nothing for them.
        findings += [finding for finding in _of_step(model, batches[0]) if finding.kind not in found]
    return TPUReport(tuple(findings), replicas, rows)


def _of_batches(model, batches, specs):
    """Yields findings on the types and shapes of batches, or of the `specs` that a dataset declares for them."""
    described = [_described(batch) for batch in (batches if specs is None else [specs])]
    texts = [name for name, _, dtype in described[0] if dtype in ("string", "object") or dtype.startswith("str")]
    if texts:
        models = [model, *(layer for layer, _ in layers_within(model) if isinstance(layer, keras.Model))]
        inputs = [tensor for part in models for tensor in getattr(part, "inputs", None) or ()]
        if any(keras.backend.standardize_dtype(tensor.dtype) == "string" for tensor in inputs):
            message = f"The model reads the strings in {texts[0]} itself"
            remedy = (
                "No TPU can do this. Use an encoder that reads ids, or compute its vectors on the host and train the "
                "head on them"
            )
        else:
            message = f"The batch has strings in {texts[0]}"
            remedy = (
                "Convert texts to ids on the host: pass texts to `fit` of a task, or map the preprocessor over the "
                "dataset"
            )
        yield Finding("strings", True, message, remedy)
    for (name, first, _), (_, last, _) in zip(described[0], described[-1]):
        if first is None or None in first:
            yield Finding(
                "shapes", True, f"The dataset does not know the shape of {name}, which is {first}", _ONE_SHAPE
            )
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
        columns = part if isinstance(part, dict) else {"": part}
        for column, values in columns.items():
            for value in keras.tree.flatten(values):
                shape = getattr(value, "shape", ())
                shape = None if getattr(shape, "rank", 0) is None else tuple(shape)
                dtype = getattr(value, "dtype", type(value).__name__)
                found.append((f"{name}[{column!r}]" if column else name, shape, getattr(dtype, "name", str(dtype))))
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
        sizes[dtype, in_module and dtype != "float64"] += math.prod(weight.shape)
    for (dtype, in_module), size in sorted(sizes.items()):
        share, remedy = size / sizes.total(), _FLOAT64
        if dtype == "bfloat16" or (dtype == "float32" and share <= 0.5):
            continue
        if in_module:
            remedy = "A module keeps the types that it was saved with. An encoder of layers has no such limit"
        elif dtype != "float64":
            remedy = (
                'Call `keras.config.set_dtype_policy("mixed_bfloat16")` before the model is created, or pass '
                '`dtype="mixed_bfloat16"` to its encoder'
            )
        yield Finding("precision", dtype == "float64", f"{share:.0%} of the weights compute in {dtype}", remedy)


def _of_step(model, batch):
    """Yields findings on the program of a training step."""
    read = _read_jax if keras.backend.backend() == "jax" else _read_tensorflow
    try:
        on_host, strings, constants, compile = read(model, batch)
    except Exception as error:  # whatever the operations of a user raise
        found = _of_values(error)
        if found is None:  # XLA has compiled nothing yet.
            raise
        yield found
        return
    if on_host:
        yield Finding("host", True, f"Only the host can run {on_host}", _ON_HOST)
    elif strings:
        yield Finding("strings", True, f"{strings} makes strings", _ON_HOST)
    for size, name in constants[:1]:
        remedy = "Make it a weight of a layer (`add_weight(..., trainable=False)`), which is not part of the program"
        yield Finding("constants", False, f"An array of {size / 2**20:.0f} MiB ({name}) is a constant", remedy)
    if on_host or strings:
        return  # XLA cannot compile them.
    try:
        program = compile()
    except Exception as error:
        message = f"The step cannot be compiled ({_shown(error)})"
        remedy = "Replace the operation by some of `keras.ops`, or compute it on the host, in the dataset"
        yield _of_values(error) or Finding("xla", True, message, remedy)
        return
    dynamic = [line for line in program.splitlines() if re.search(r"\[[^\]]*<=\d", line)]
    if dynamic:
        name = re.search(r'op_name="([^"]*)"', " ".join(dynamic))
        message = f"Values decide the shape of {name[1] if name else 'a tensor'}"
        yield Finding("shapes", True, message, _FIXED_SHAPES)
    if re.search(r"\b(f64|c128)\[\d", program):
        yield Finding("precision", True, "The step computes in float64", _FLOAT64)


def _of_values(error):
    """Returns the finding on a step that needs values while it is traced or compiled, or None for another error."""
    while error is not None:
        if type(error).__name__ == "TracerArrayConversionError" or "numpy array" in " ".join(str(error).split()):
            message = f"The step computes with NumPy ({_shown(error)})"
            return Finding("host", True, message, "Use `keras.ops` instead of NumPy")
        if _OF_VALUES.match(type(error).__name__) or _OF_SHAPES.search(" ".join(str(error).split())):
            message = f"Values decide what is computed or its shape ({_shown(error)})"
            return Finding("shapes", True, message, _FIXED_SHAPES)
        error = error.__context__  # Keras raises others in place of the errors of a layer.
    return None


def _shown(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


# Both of these return the first operation that only the host can run, the first one that makes strings (or "" for
# none), `(bytes, name)` of large arrays, and a function that compiles the step as far as that is possible without a
# TPU, and returns its program as text.


def _read_tensorflow(model, batch):
    """Reads a step on TensorFlow, whose program is that of XLA."""
    graph, program_of = traced_with_tensorflow(model, batch)
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    host = [f"the operation {node.op} ({node.name})" for node in nodes if _HOST.search(node.op)]
    strings = [
        f"The operation {operation.type} ({operation.name})"
        for operation in graph.get_operations()
        if any(tensor.dtype == tf.string for tensor in operation.outputs)
        and operation.type not in ("Const", "Placeholder")  # A message of `Assert` is one.
    ]
    constants = [(node.attr["value"].tensor.ByteSize(), node.name) for node in nodes if node.op == "Const"]
    large = [(size, name) for size, name in constants if size > _LARGE]
    return "".join(host[:1]), "".join(strings[:1]), large, program_of


def _read_jax(model, batch):
    """Reads a step on JAX, whose program is that of JAX, lowered for TPUs."""
    traced = traced_with_jax(model, batch)
    host = _CALLBACKS.search(traced.jaxpr.pretty_print(name_stack=True))
    name = "" if host is None else f"{host[1]} ({host[2]})" if host[2] else host[1]
    large = [array for array in traced.jaxpr.consts if getattr(array, "nbytes", 0) > _LARGE]

    def compile():
        traced.lower(lowering_platforms=("tpu",))
        return str(traced.jaxpr)

    return name, "", [(array.nbytes, tuple(array.shape)) for array in large], compile
