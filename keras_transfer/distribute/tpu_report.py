"""What would make training on a TPU fail or crawl, found without a TPU, and what to do about it."""

import dataclasses
import math
import re
from typing import Any

import keras

from keras_transfer.core.expect import expects, integer
from keras_transfer.distribute.one_step import batches_for_step, check_for_step, traced_with_jax, traced_with_tensorflow
from keras_transfer.keras_internals import layers_within

_CORES = 8  # of a host with TPU v2, v3 or v5e

_STRINGS = (
    "strings",
    True,
    "Convert texts to ids on the host: pass texts to `fit` of a task, or map the preprocessor over the dataset",
)

_READS_STRINGS = (
    "strings",
    True,
    "No TPU can do this. Use an encoder that reads ids, or compute its vectors on the host and train the head on them",
)

_SHAPES = (
    "shapes",
    True,
    "Give all batches one shape: pad all texts to one length (`sequence_length` of the preprocessor) and use "
    "`tf.data.Dataset.batch(batch_size, drop_remainder=True)`",
)

_FLOATS = ("bfloat16", "float16", "float32", "float64")

_POLICY = (
    'Call `keras.config.set_dtype_policy("mixed_bfloat16")` before the model is created, or pass '
    '`dtype="mixed_bfloat16"` to its encoder'
)

_TYPES_OF_MODULE = "A module keeps the types that it was saved with. An encoder of layers has no such limit"
_FLOAT64 = ("precision", True, "A TPU has no float64. Use bfloat16, and float32 for inputs and labels")
_LARGE = 2**24  # Bytes of an array that should not be part of a program.
_HOST = re.compile(r"PyFunc|LookupTable|HashTable|^Print|Summary|ReadFile|WriteFile|Iterator")  # of TensorFlow
_CALLBACKS = re.compile(r"callback|debug_print|infeed|outfeed")  # of JAX
_OF_VALUES = re.compile("Tracer|Concretization|NonConcrete|OperatorNotAllowedInGraph")  # errors of tracing
_OF_SHAPES = re.compile("compile-time constant|dynamic shape")  # in errors of XLA
_HOST_REMEDY = "Do this on the host: map it over the dataset, or use a callback of `fit`"

_SHAPE_REMEDY = (
    "Compute with fixed shapes: multiply by a mask or use `keras.ops.where(mask, a, b)` instead of selecting"
)

_XLA_REMEDY = "Replace the operation by some of `keras.ops`, or compute it on the host, in the dataset"
_CONSTANT_REMEDY = "Make it a weight of a layer (`add_weight(..., trainable=False)`), which is not part of the program"


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
    if keras.backend.backend() not in ("tensorflow", "jax"):
        raise ValueError(f"Only TensorFlow and JAX run on TPUs. Received: backend={keras.backend.backend()!r}")
    check_for_step(model, "check_tpu_ready")
    batches, specs = batches_for_step(model, batch)
    findings = [
        *_of_strings(model, batches, specs),
        *_of_batches(batches, specs),
        *_of_rows(_rows(batches[0]), replicas),
        *_of_settings(model),
        *_of_precision(model),
    ]
    found = {finding.kind for finding in findings}
    if "strings" not in found:  # XLA compiles nothing for them.
        findings += [Finding(*finding) for finding in check_step(model, batches[0]) if finding[0] not in found]
    return TPUReport(tuple(findings), replicas, _rows(batches[0]))


def _of_strings(model, batches, specs):
    """Yields the finding that a batch has strings, because of the model's input or of the dataset."""
    described = _described(batches[0] if specs is None else specs)
    texts = [name for name, _, dtype in described if dtype in ("string", "object") or dtype.startswith("str")]
    if texts:
        models = [layer for layer, _ in layers_within(model) if isinstance(layer, keras.Model)]
        inputs = [tensor for part in (model, *models) for tensor in getattr(part, "inputs", None) or ()]
        if any(keras.backend.standardize_dtype(tensor.dtype) == "string" for tensor in inputs):
            yield _finding(_READS_STRINGS, f"The model reads the strings in {texts[0]} itself")
        else:
            yield _finding(_STRINGS, f"The batch has strings in {texts[0]}")


def _of_batches(batches, specs):
    """Yields findings on the types and shapes of batches, or of the `specs` that a dataset declares for them."""
    described = [_described(batch) for batch in ([specs] if specs is not None else batches)]
    for name, shape, _ in described[0]:
        if shape is None or None in shape:
            yield _finding(_SHAPES, f"The dataset does not know the shape of {name}, which is {shape}")
            break
    for (name, first, _), (_, last, _) in zip(described[0], described[-1]):
        if first != last:
            yield _finding(_SHAPES, f"The first batch has the shape {first} of {name}, the last one {last}")
            break
    wide = [name for name, _, dtype in described[0] if dtype in ("float64", "complex128")]
    if wide and keras.backend.backend() == "tensorflow":  # JAX makes float32 of them.
        yield _finding(_FLOAT64, f"The batch has float64 in {wide[0]}")


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


def _of_rows(rows, replicas):
    if rows % replicas:
        nearest = max(round(rows / replicas), 1) * replicas
        remedy = f"Use a multiple of {replicas}, such as {nearest}"
        yield Finding("replicas", True, f"{rows} rows cannot be shared evenly by {replicas} cores", remedy)


def _of_settings(model):
    if model.run_eagerly:
        yield Finding(
            "eager", True, "The model was compiled with `run_eagerly=True`", "Compile it with `run_eagerly=False`"
        )
    elif model.steps_per_execution == 1:
        yield Finding(
            "dispatch",
            False,
            "The host starts each step (`steps_per_execution=1`), and the TPU waits for it",
            "Pass `steps_per_execution=32` or so to `compile`",
        )


def _of_precision(model):
    """Yields which fraction of the weights computes in a type that a TPU lacks, or that is slow on it."""
    owners, sizes = {}, {}
    inside = [layer for layer, around in layers_within(model) if around is not None]
    # The last one of these to contain a weight is the innermost.
    for layer in sorted(inside, key=lambda layer: (not isinstance(layer, keras.Model), -len(layer.weights))):
        owners |= {id(weight): (weight, layer) for weight in layer.weights if len(weight.shape) > 1}
    for weight, layer in owners.values():
        # The layer of a module of TensorFlow Hub has the type of its inputs, and the module computes in its own.
        own = layer.compute_dtype not in _FLOATS
        dtype = keras.backend.standardize_dtype(weight.dtype) if own else layer.compute_dtype
        sizes[dtype, own] = sizes.get((dtype, own), 0) + math.prod(weight.shape)
    total = sum(sizes.values())
    share = {key: size / total for key, size in sizes.items()}
    if wide := share.get(("float64", False), 0) + share.get(("float64", True), 0):
        yield _finding(_FLOAT64, f"{wide:.0%} of the weights compute in float64")
    for dtype, own, least, remedy in (
        ("float16", False, 0.0, _POLICY),
        ("float32", False, 0.5, _POLICY),
        ("float16", True, 0.0, _TYPES_OF_MODULE),
        ("float32", True, 0.5, _TYPES_OF_MODULE),
    ):
        if share.get((dtype, own), 0) > least:
            message = f"{share[dtype, own]:.0%} of the weights compute in {dtype}"
            yield Finding("precision", False, message, remedy)


def _rows(batch):
    return int(keras.tree.flatten(batch)[0].shape[0])


def _finding(rule, message):
    kind, fails, remedy = rule
    return Finding(kind, fails, message, remedy)


def check_step(model, batch):
    """Yields tuples of the kind, whether training fails, the message and the remedy of what is wrong with a step."""
    on_jax = keras.backend.backend() == "jax"
    try:
        traced = traced_with_jax(model, batch) if on_jax else traced_with_tensorflow(model, batch)
    except Exception as error:  # whatever the operations of a user raise
        found = _of_values(error)
        if found is None:  # XLA has compiled nothing yet.
            raise
        yield found
        return
    try:
        yield from _of_jax(traced) if on_jax else _of_tensorflow(*traced)
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        message = f"The step cannot be compiled ({type(error).__name__}: {text})"
        yield _of_values(error) or ("xla", True, message, _XLA_REMEDY)


def _of_values(error):
    """Returns what a step is reported for that needs values while it is traced or compiled, or None."""
    errors = [error]
    while errors[-1].__context__ is not None:  # Keras raises others in place of the errors of a layer.
        errors.append(errors[-1].__context__)
    for part in errors:
        name, text = type(part).__name__, " ".join(str(part).split())[:300]
        if name == "TracerArrayConversionError" or "numpy array" in text:
            return "host", True, f"The step computes with NumPy ({name}: {text})", "Use `keras.ops` instead of NumPy"
        if _OF_VALUES.match(name) or _OF_SHAPES.search(text):
            return "shapes", True, f"Values decide what is computed or its shape ({name}: {text})", _SHAPE_REMEDY
    return None


def _of_tensorflow(graph, program_of):
    import tensorflow as tf

    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    host = [node for node in nodes if _HOST.search(node.op)]
    strings = [
        operation
        for operation in graph.get_operations()
        if any(tensor.dtype == tf.string for tensor in operation.outputs)
        and operation.type not in ("Const", "Placeholder")  # A message of `Assert` is one.
    ]
    if host:
        yield "host", True, f"Only the host can run the operation {host[0].op} ({host[0].name})", _HOST_REMEDY
    elif strings:  # Printing makes some.
        yield "strings", True, f"The operation {strings[0].type} ({strings[0].name}) makes strings", _HOST_REMEDY
    large = [node for node in nodes if node.op == "Const" and node.attr["value"].tensor.ByteSize() > _LARGE]
    if large:
        size = large[0].attr["value"].tensor.ByteSize()
        yield (
            "constants",
            False,
            f"An array of {size / 2**20:.0f} MiB ({large[0].name}) is a constant",
            _CONSTANT_REMEDY,
        )
    if host or strings:
        return  # XLA cannot compile them.
    program = program_of()
    dynamic = [line for line in program.splitlines() if re.search(r"\[[^\]]*<=\d", line)]
    if dynamic:
        name = re.search(r'op_name="([^"]*)"', " ".join(dynamic))
        yield "shapes", True, f"Values decide the shape of {name[1] if name else 'a tensor'}", _SHAPE_REMEDY
    if re.search(r"\b(f64|c128)\[\d", program):
        yield "precision", True, "The step computes in float64", "A TPU has no float64. Use float32 or bfloat16"


def _of_jax(traced):
    program = traced.jaxpr
    equations = list(_equations(program.jaxpr))
    host = [equation for equation in equations if _CALLBACKS.search(equation.primitive.name)]
    if host:
        place = str(host[0].source_info.name_stack)
        message = f"Only the host can run {host[0].primitive.name}{f' ({place})' if place else ''}"
        yield "host", True, message, _HOST_REMEDY
    types = {str(getattr(variable.aval, "dtype", "")) for equation in equations for variable in equation.outvars}
    if types & {"float64", "complex128"}:
        yield "precision", True, "The step computes in float64", "A TPU has no float64. Use float32 or bfloat16"
    large = [array for array in program.consts if getattr(array, "nbytes", 0) > _LARGE]
    if large:
        size = f"{large[0].nbytes / 2**20:.0f} MiB"
        yield "constants", False, f"An array of {size} {tuple(large[0].shape)} is a constant", _CONSTANT_REMEDY
    if not host:
        traced.lower(lowering_platforms=("tpu",))


def _equations(program):
    """Yields the equations of a program of JAX and of all programs in it."""
    import jax

    for equation in program.eqns:
        yield equation
        for part in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda part: hasattr(part, "eqns")):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)
