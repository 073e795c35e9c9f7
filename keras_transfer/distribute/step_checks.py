"""What in a training step a TPU cannot run, or only slowly: in the graph and XLA's program, or in JAX's program."""

import re

import keras

from keras_transfer.distribute.one_step import traced_with_jax, traced_with_tensorflow

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
