"""Modules in the TF1 Hub format of 2019, with a second graph for training that shares the variables."""

import contextlib
import functools
import threading

from keras_transfer.core.lazy import tf
from keras_transfer.hub.errors import expect, raising
from keras_transfer.hub.module import Module, load, open_module
from keras_transfer.keras_internals import hub_modules, unrecorded

# A graph represents a TensorArray by its "flow", a meaningless number, which these ops create and pass on.
_FLOWS = {"TensorArrayV3", "TensorArrayScatterV3", "TensorArraySplitV3", "TensorArrayWriteV3"}

_PASSED_ON = {"Enter", "Exit", "Identity", "Merge", "NextIteration", "Switch"}
_CONTEXTS = {"while_context", "cond_context"}  # the collections that describe loops and conditions
_switch = threading.Lock()
_ONE_ONLY = "Loops and conditions of TensorFlow 1 support only first-order gradients and, run eagerly, only one tape"


def open_tf1_module(loaded, folder, tags, signature):
    """Returns the `Module` of a module in the TF1 Hub format.

    It runs the loaded graph, and for training the graph with the tag `train`, with dropout and updates of batch
    normalization statistics, if the module has one and `tags` is None. Both graphs use the same variables: the loaded
    ones, or, under `tf.distribute`, new ones of the strategy with their values.
    """
    meta_graphs = _meta_graphs(folder)
    own_tags = frozenset([tags] if isinstance(tags, str) else tags or [])
    weights = {}  # read by both graphs; filled below
    prediction = training = _Graph(loaded, meta_graphs[own_tags], weights)
    reference = any(each.dtype != each.dtype.base_dtype for each in loaded.graph.get_collection("variables"))
    if tags is None and frozenset(["train"]) in meta_graphs and not reference:
        training = _Graph(_load_for_training(folder, loaded), meta_graphs[frozenset(["train"])], weights)
    signatures = loaded.signatures.keys() & training.loaded.signatures.keys()
    rule = f"`signature` must be one of {sorted(signatures)} for {folder}."
    expect(signature in signatures, rule, signature=signature)

    trained = {variable.name for variable in training.loaded.graph.get_collection("trainable_variables")}
    for variable in (*loaded.variables, *training.loaded.variables):
        if variable.name not in weights:
            weights[variable.name] = _weight(variable, variable.name in trained)
    for graph in {prediction, training}:
        graph.initialize_tables()

    losses = training.loaded.graph.get_collection("regularization_losses")
    frozen_because = None
    if reference:
        frozen_because = "it has reference variables of TensorFlow 1, which TensorFlow 2 can neither train nor save"
        loaded.signatures[signature].graph.mark_as_unsaveable(frozen_because)
        rule = "A module with reference variables of TensorFlow 1 cannot be used under tf.distribute."
        expect(not tf.distribute.has_strategy(), rule, received=folder)
    elif of_inputs := [loss.name for loss in losses if _placeholders(loss.op)]:
        frozen_because = f"its regularization losses depend on its inputs: {of_inputs}"
    return Module(
        function=_Function(prediction, training, signature),
        input_specs=[loaded.signatures[signature].structured_input_signature[1]],
        trainable_variables=[weight for weight in weights.values() if weight.trainable],
        other_variables=[weight for weight in weights.values() if not weight.trainable],
        loaded=loaded,
        resources=_resources(loaded),
        losses=[] if frozen_because else [training.prune([], loss) for loss in losses],
        takes_training=True,
        by_name=True,
        frozen_because=frozen_because,
    )


def is_loaded_tf1_module(loaded):
    """Returns whether `loaded` is a TensorFlow 1 graph that `tf.saved_model.load` returned."""
    return hasattr(loaded, "signatures") and hasattr(loaded, "prune") and hasattr(loaded, "initializer")


def open_loaded_tf1_module(loaded, signature=None, name="the module"):
    """Returns the `Module` of a loaded TensorFlow 1 graph, for prediction only."""
    rule = "A loaded TensorFlow 1 module cannot be used under tf.distribute. Pass the module's handle instead."
    expect(not tf.distribute.has_strategy(), rule, received=f"handle={name}")
    module = open_module(loaded, signature or ("default" if "default" in loaded.signatures else None), name)
    module.resources = _resources(loaded)
    module.frozen_because = "a loaded TensorFlow 1 module lacks the graph for training. Pass the module's handle"
    return module


def _meta_graphs(folder):
    """Returns the module's stored graphs by their sets of tags."""
    from tensorflow.core.protobuf import saved_model_pb2

    with tf.io.gfile.GFile(f"{folder}/saved_model.pb", "rb") as file:
        stored = saved_model_pb2.SavedModel.FromString(file.read())
    return {frozenset(each.meta_info_def.tags): each for each in stored.meta_graphs}


def _load_for_training(folder, loaded):
    """Loads the graph with the tag `train`, and its values only if it has variables that `loaded` lacks."""
    second, *_ = load(folder, ["train"], tf.saved_model.LoadOptions(experimental_skip_checkpoint=True))
    if own := {variable.name for variable in second.variables} - {variable.name for variable in loaded.variables}:
        rule = (
            f"All variables of the training graph of {folder} must have saved values. Pass tags=[] to train the graph "
            f"for prediction instead. There are no values for {sorted(own)}."
        )
        with raising(rule, tf.errors.OpError):
            second.restore(f"{folder}/variables/variables")
    return second


def _weight(variable, trainable):
    """Returns the variable, or a new one with its value if `trainable` differs or a strategy must create it."""
    if variable.trainable == trainable and not tf.distribute.has_strategy():
        return variable
    mean = tf.VariableAggregation.MEAN if variable.dtype.is_floating else tf.VariableAggregation.ONLY_FIRST_REPLICA
    name = variable.name.removesuffix(":0")
    return tf.Variable(variable.read_value(), trainable=trainable, name=name, aggregation=mean)


def _resources(loaded):
    """Returns the tables of a loaded module and their files as a TrackableResource, which Keras exports."""

    class Resources(tf.saved_model.experimental.TrackableResource, tf.__internal__.tracking.AutoTrackable):
        def _create_resource(self):
            return tf.constant(0.0)  # a placeholder: `initializer` creates the tables

        def _initialize(self):
            return tf.constant(0.0)

    resources = Resources()
    resources.initializer, resources.asset_paths = loaded.initializer, loaded.asset_paths
    return resources


class _Function:
    """A signature as a function of keyword arguments, for prediction and training."""

    def __init__(self, prediction, training, signature):
        self.structured_outputs = prediction.loaded.signatures[signature].structured_outputs
        self._prediction = prediction.function(signature)
        updates = training.updates(signature)
        same = training is prediction and not updates
        self._training = self._prediction if same else training.function(signature, updates)
        self._updated = [weight for weight in training.weights.values() if updates and not weight.trainable]

    def __call__(self, training=False, **tensors):
        if not training:
            return self._prediction(**tensors)
        outputs = self._training(**tensors)
        for weight in self._updated:
            _average(weight)
        return outputs


def _average(weight):
    """Sets a variable to the mean of its values on all replicas, each of which has updated its own."""
    if isinstance(weight, tf.distribute.DistributedValues) and not tf.distribute.in_cross_replica_context():
        weight.assign(weight.read_value())


class _Graph:
    """One of a module's graphs, whose functions use other variables than the loaded ones.

    Args:
        weights: Dict from the names of the graph's variables to the variables to read.
    """

    def __init__(self, loaded, meta_graph, weights):
        self.loaded = loaded
        self.meta_graph = meta_graph
        self.weights = weights

    def function(self, signature, updates=()):
        """Returns a signature as a function of keyword arguments, which also runs the operations `updates`."""
        function = self.loaded.signatures[signature]
        definition = self.meta_graph.signature_def[signature]
        inputs, outputs = _tensor_names(definition.inputs), dict(definition.outputs)
        if has_old_gradient(function):

            @functools.cache
            def built():  # slow, so it is built at the first call
                with tf.init_scope():
                    return with_old_gradient(self, inputs, outputs, updates)

            return lambda **tensors: built()(**tensors)
        if not updates:
            return self.bind(function)
        function = self.prune(inputs.values(), [outputs, updates])
        return lambda **tensors: function(*[tensors[name] for name in inputs])[0]

    def updates(self, signature):
        """Returns the operations that update statistics when a signature is called."""
        fed = set(_tensor_names(self.meta_graph.signature_def[signature].inputs).values())
        updates = [getattr(each, "op", each) for each in self.loaded.graph.get_collection("update_ops")]
        return [op for op in updates if _placeholders(op) <= fed]

    def prune(self, feeds, fetches):
        """Returns a function from tensors of the graph, given by name, to a nest of other tensors."""
        return self.bind(self.loaded.prune(list(feeds), fetches))

    def bind(self, function):
        """Makes a concrete function read `weights`, and returns it."""
        names = {id(variable.handle): variable.name for variable in self.loaded.variables}
        captures = []
        for capture in function.captured_inputs:
            weight = self.weights.get(names.get(id(capture)))
            if isinstance(weight, tf.distribute.DistributedValues):
                capture = functools.partial(_handle, weight)
            elif weight is not None:
                capture = weight.handle
            captures.append(capture)
        function.set_external_captures(captures)
        function.set_variables(list(self.weights.values()))
        return function

    def handle(self, name):
        """Returns the handle of the weight that replaces a variable."""
        return _handle(self.weights[name])

    def initialize_tables(self):
        """Fills the tables of the other CPU devices. The loader has filled the first device's tables."""
        self.bind(hub_modules.table_initializer(self.loaded))  # it is saved with the tables
        for device in tf.config.list_logical_devices("CPU")[1:]:
            with tf.device(device.name):
                hub_modules.fill_tables(self.loaded)


def _handle(weight):
    """Returns a variable's handle: the current replica's under tf.distribute, or the first outside replicas."""
    if isinstance(weight, tf.distribute.DistributedValues) and tf.distribute.in_cross_replica_context():
        weight = tf.distribute.get_strategy().experimental_local_results(weight)[0]
    return weight.handle


def _tensor_names(infos):
    """Returns the names of a signature's tensors by argument. A sparse argument has three, named as in TensorFlow."""
    names = {}
    for name, info in infos.items():
        parts = ("indices", "values", "dense_shape") if info.HasField("coo_sparse") else ()
        names |= {f"{name}_{part}": getattr(info.coo_sparse, f"{part}_tensor_name") for part in parts}
        names |= {} if parts else {name: info.name}
    return names


def _placeholders(op):
    """Returns the names of the placeholders that an operation depends on."""
    found, walked, ops = set(), set(), [op]
    while ops:
        op = ops.pop()
        if op not in walked:
            walked.add(op)
            ops += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
            found |= {op.outputs[0].name} if op.type == "Placeholder" else set()
    return found


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
    """Returns a signature as a function of keyword arguments, with a gradient that TensorFlow 1 builds in a graph.

    The forward pass returns the values that the backward pass needs, dropout masks included. Only the loops and
    conditions on the gradient's path run again, since the values inside them cannot be returned.

    Args:
        inputs: Dict from the names of the signature's arguments to names of tensors.
        outputs: Dict from the names of its outputs to `TensorInfo`s.
        updates: List of operations to run with each call.
    """
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
        rule = (
            "The module cannot be trained with dropout: it draws random numbers inside a loop or condition of "
            "TensorFlow 1, and its gradient would draw different ones. Pass tags=[] to train the graph for prediction."
        )
        expect(op not in inside or "seed" not in op.node_def.attr, rule, received=f"{op.type} {op.name!r}")
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
