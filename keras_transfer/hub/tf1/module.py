"""Modules in the TF1 Hub format of 2019, with a second graph for training that shares the variables."""

import functools

from keras_transfer.hub.modules import Module, load, open_module
from keras_transfer.hub.tf1.gradient import has_old_gradient, with_old_gradient
from keras_transfer.hub.transport import HubError
from keras_transfer.keras_internals import hub_modules


def open_tf1_module(loaded, folder, tags, signature):
    """Returns the `Module` of a module in the TF1 Hub format.

    It runs the loaded graph, and for training the graph with the tag `train`, with dropout and updates of batch
    normalization statistics, if the module has one and `tags` is None. Both graphs use the same variables: the loaded
    ones, or, under `tf.distribute`, new ones of the strategy with their values.

    Args:
        loaded: Object from `tf.saved_model.load`.
        folder: String. The module's folder.
        tags: String or list of strings. Tags that the module was loaded with, or `None`.
        signature: String. Name of a signature.
    """
    import tensorflow as tf

    meta_graphs = _meta_graphs(folder)
    own_tags = frozenset([tags] if isinstance(tags, str) else tags or [])
    weights = {}  # read by both graphs; filled below
    prediction = training = _Graph(loaded, meta_graphs[own_tags], weights)
    reference = any(each.dtype != each.dtype.base_dtype for each in loaded.graph.get_collection("variables"))
    if tags is None and frozenset(["train"]) in meta_graphs and not reference:
        training = _Graph(_load_for_training(folder, loaded), meta_graphs[frozenset(["train"])], weights)
    signatures = loaded.signatures.keys() & training.loaded.signatures.keys()
    if signature not in signatures:
        raise HubError(
            f"`signature` must be one of {sorted(signatures)} for {folder}. Received: signature={signature!r}"
        )

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
        if tf.distribute.has_strategy():
            raise HubError(
                "A module with reference variables of TensorFlow 1 cannot be used under tf.distribute. "
                f"Received: {folder}"
            )
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
    """Returns the `Module` of a loaded TensorFlow 1 graph, for prediction only.

    Args:
        loaded: Object from `tf.saved_model.load` or `tensorflow_hub.load`.
        signature: String. Name of a signature. Defaults to `"default"` if it exists.
        name: String. Name of the module in error messages. Defaults to `"the module"`.
    """
    import tensorflow as tf

    if tf.distribute.has_strategy():
        raise HubError(
            "A loaded TensorFlow 1 module cannot be used under tf.distribute. Pass the module's handle instead. "
            f"Received: handle={name}"
        )
    module = open_module(loaded, signature or ("default" if "default" in loaded.signatures else None), name)
    module.resources = _resources(loaded)
    module.frozen_because = "a loaded TensorFlow 1 module lacks the graph for training. Pass the module's handle"
    return module


def _meta_graphs(folder):
    """Returns the module's stored graphs by their sets of tags."""
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    with tf.io.gfile.GFile(f"{folder}/saved_model.pb", "rb") as file:
        stored = saved_model_pb2.SavedModel.FromString(file.read())
    return {frozenset(each.meta_info_def.tags): each for each in stored.meta_graphs}


def _load_for_training(folder, loaded):
    """Loads the graph with the tag `train`, and its values only if it has variables that `loaded` lacks."""
    import tensorflow as tf

    second, *_ = load(folder, ["train"], tf.saved_model.LoadOptions(experimental_skip_checkpoint=True))
    if own := {variable.name for variable in second.variables} - {variable.name for variable in loaded.variables}:
        try:
            second.restore(f"{folder}/variables/variables")
        except tf.errors.OpError as error:
            raise HubError(
                f"All variables of the training graph of {folder} must have saved values. Pass tags=[] to train the "
                f"graph for prediction instead. Received: no values for {sorted(own)}"
            ) from error
    return second


def _weight(variable, trainable):
    """Returns the variable, or a new one with its value if `trainable` differs or a strategy must create it."""
    import tensorflow as tf

    if variable.trainable == trainable and not tf.distribute.has_strategy():
        return variable
    mean = tf.VariableAggregation.MEAN if variable.dtype.is_floating else tf.VariableAggregation.ONLY_FIRST_REPLICA
    name = variable.name.removesuffix(":0")
    return tf.Variable(variable.read_value(), trainable=trainable, name=name, aggregation=mean)


def _resources(loaded):
    """Returns the tables of a loaded module and their files as a TrackableResource, which Keras exports."""
    import tensorflow as tf

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
    import tensorflow as tf

    if isinstance(weight, tf.distribute.DistributedValues) and not tf.distribute.in_cross_replica_context():
        weight.assign(weight.read_value())


class _Graph:
    """One of a module's graphs, whose functions use other variables than the loaded ones.

    Args:
        loaded: Object from `tf.saved_model.load`.
        meta_graph: `MetaGraphDef` of the graph.
        weights: Dict from the names of the graph's variables to the variables to read.
    """

    def __init__(self, loaded, meta_graph, weights):
        self.loaded = loaded
        self.meta_graph = meta_graph
        self.weights = weights

    def function(self, signature, updates=()):
        """Returns a signature as a function of keyword arguments, which also runs the operations `updates`."""
        import tensorflow as tf

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
        import tensorflow as tf

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
        import tensorflow as tf

        self.bind(hub_modules.table_initializer(self.loaded))  # it is saved with the tables
        for device in tf.config.list_logical_devices("CPU")[1:]:
            with tf.device(device.name):
                hub_modules.fill_tables(self.loaded)


def _handle(weight):
    """Returns a variable's handle: the current replica's under tf.distribute, or the first outside replicas."""
    import tensorflow as tf

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
