"""Gradients through the loops and conditions of TensorFlow 1, which TensorFlow 2 runs but cannot differentiate."""

import contextlib
import functools
import threading

from keras_transfer.hub.transport import HubError
from keras_transfer.keras_internals import unrecorded

# A graph represents a TensorArray by its "flow", a meaningless number, which these ops create and pass on.
_FLOWS = {"TensorArrayV3", "TensorArrayScatterV3", "TensorArraySplitV3", "TensorArrayWriteV3"}
_PASSED_ON = {"Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch"}

_CONTEXTS = {"while_context", "cond_context"}  # the collections that describe loops and conditions
_switch = threading.Lock()
_ONE_ONLY = "Loops and conditions of TensorFlow 1 support only first-order gradients and, run eagerly, only one tape"


def has_old_gradient(function):
    """Returns whether the gradients of a concrete function go through a loop or condition of TensorFlow 1."""
    walked, tensors = set(), [tensor for tensor in function.outputs if tensor.dtype.is_floating]
    while tensors:
        op = tensors.pop().op
        if op.type in ("Exit", "Merge"):
            return True
        if op not in walked:
            walked.add(op)
            tensors += [tensor for tensor in op.inputs if tensor.dtype.is_floating]
    return False


def with_old_gradient(graph, inputs, outputs, updates):
    """Returns the function of a signature with a gradient that TensorFlow 1 builds in a graph of its own.

    The forward pass returns the values that the backward pass needs, dropout masks included. Only the loops and
    conditions on the gradient's path run again, since the values inside them cannot be returned.

    Args:
        graph: A `_Graph` of `tf1`.
        inputs: Dict from the names of the signature's arguments to names of tensors.
        outputs: Dict from the names of its outputs to `TensorInfo`s.
        updates: List of operations to run with each call.

    Returns:
        A function of keyword arguments that returns a dict of tensors.
    """
    import tensorflow as tf

    targets = {name: info.name for name, info in outputs.items() if info.name and tf.as_dtype(info.dtype).is_floating}
    trained = [name for name, weight in graph.weights.items() if weight.trainable]
    backward, sources, saved, handles = _backward(graph, targets.values(), [*inputs.values(), *trained])
    forward = graph.prune(inputs.values(), [outputs, updates, saved])
    tensors = [graph.loaded.graph.get_tensor_by_name(name) for name in inputs.values()]

    @functools.partial(tf.function, input_signature=list(map(tf.TensorSpec.from_tensor, tensors)), autograph=False)
    def function(*arguments):
        with unrecorded():
            results, _, values = forward(*arguments)
        values = [*map(tf.stop_gradient, values), *map(graph.handle, handles)]

        @tf.custom_gradient
        def attach(*_):
            return [tf.identity(results[name]) for name in targets], lambda *upstream: backward(*values, *upstream)

        known = {**dict(zip(inputs.values(), arguments)), **graph.weights}
        return {**results, **dict(zip(targets, attach(*[tf.convert_to_tensor(known[name]) for name in sources])))}

    return lambda **tensors: function(*[tensors[name] for name in inputs])


def _backward(graph, targets, sources):
    """Builds the gradients of `targets` with respect to `sources`, both names of tensors of a graph.

    Returns:
        A tuple `(function, sources, saved, handles)`: a function from the values of `saved` and `handles` and the
        targets' gradients to the gradients of `sources`; the sources that the targets depend on; the tensors that the
        forward pass must return; and the variables' handles.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    meta_graph = v1.MetaGraphDef(graph_def=graph.loaded.graph.as_graph_def())  # with the loader's names of tables
    for name in _CONTEXTS & graph.meta_graph.collection_def.keys():
        meta_graph.collection_def[name].CopyFrom(graph.meta_graph.collection_def[name])
    old = tf.Graph()
    with old.as_default(), _old_control_flow():
        v1.train.import_meta_graph(meta_graph)
        inside = _inside(old, meta_graph)
        outside = set(old.get_operations()) - inside
        targets = [old.get_tensor_by_name(name) for name in targets]
        sources = [old.get_tensor_by_name(name) for name in sources]
        sources = [source for source in sources if source.dtype.is_floating or source.dtype == tf.resource]
        upstream = [v1.placeholder(target.dtype, target.shape) for target in targets]
        gradients = zip(sources, tf.gradients(targets, sources, upstream))
        gradients = {source.name: tf.convert_to_tensor(each) for source, each in gradients if each is not None}
    saved, handles = _ends([gradient.op for gradient in gradients.values()], inside, outside)
    imported = v1.wrap_function(lambda: tf.import_graph_def(old.as_graph_def(), name=""), [])
    feeds = [*saved, *handles, *(each.name for each in upstream)]
    function = imported.prune(feeds, [gradient.name for gradient in gradients.values()])

    def backward(*values):
        with unrecorded():
            return [tf.raw_ops.PreventGradient(input=each, message=_ONE_ONLY) for each in function(*values)]

    return backward, list(gradients), saved, handles


@contextlib.contextmanager
def _old_control_flow():
    """Makes TensorFlow build arrays and loops in graphs as TensorFlow 1 did, for one thread at a time.

    The process has only one such switch. It does not affect functions that other threads trace, or what they run, but a
    `tf.Graph` that another thread builds meanwhile, outside any function, also gets the control flow of TensorFlow 1.
    """
    import tensorflow as tf

    with _switch:
        enabled = tf.compat.v1.control_flow_v2_enabled()
        tf.compat.v1.disable_control_flow_v2()
        try:
            yield
        finally:
            if enabled:
                tf.compat.v1.enable_control_flow_v2()


def _inside(graph, meta_graph):
    """Returns the operations inside loops and conditions. A function cannot return their outputs."""
    from tensorflow.core.protobuf import control_flow_pb2

    kinds = {"while_context": control_flow_pb2.WhileContextDef, "cond_context": control_flow_pb2.CondContextDef}
    stored = {name: meta_graph.collection_def[name].bytes_list.value for name in kinds}
    contexts = [kinds[name].FromString(each) for name, values in stored.items() for each in values]
    exits = {name for context in contexts for name in getattr(context, "loop_exit_names", ())}
    names = set()
    for context in contexts:
        names |= set(context.values_def.values) - set(context.values_def.external_values)
        contexts += [getattr(nested, nested.WhichOneof("ctxt")) for nested in context.nested_contexts]
    names = {name.rpartition(":")[0] for name in names - exits}
    return {op for op in graph.get_operations() if op.name in names}


def _ends(ops, inside, outside):
    """Walks back from the gradients' ops. Returns names of tensors that the forward pass can return, and of handles."""
    saved, handles, walked = {}, {}, set()
    while ops:
        op = ops.pop()
        if op in walked:
            continue
        walked.add(op)
        if op in inside and "seed" in op.node_def.attr:
            raise HubError(
                "The module cannot be trained with dropout: it draws random numbers inside a loop or condition of "
                "TensorFlow 1, and its gradient would draw different ones. Pass tags=[] to train the graph for "
                "prediction. "
                f"Received: {op.type} {op.name!r}"
            )
        ops += op.control_inputs
        for tensor in op.inputs:
            if tensor.op.type == "VarHandleOp":
                handles[tensor.name] = True
            elif tensor.op in outside and tensor.op.type != "Const" and _has_value(tensor):
                saved[tensor.name] = True
            else:
                ops.append(tensor.op)
    return list(saved), list(handles)


def _has_value(tensor):
    """Returns whether a function can return a tensor as an input of another function."""
    op = tensor.op
    if op.type == "Switch" or tensor.dtype.name in ("resource", "variant"):
        return False  # one of the two outputs of a Switch is dead
    while op.type in _PASSED_ON:
        op = op.inputs[0].op
    return op.type not in _FLOWS
