"""The names private to Keras, and one of TensorFlow's variables, on which this library relies.

Keras builds an optimizer once, for a list of variables. It keeps the slots at fixed places and finds those of a
variable by an index. To train only some of the variables, the list, the index and the moving averages are narrowed to
these. The slots remain, and with them the moments of the other variables. (JAX and moving averages need this.)
"""

import contextlib
import math
import traceback
import weakref

import keras
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

_LISTS = ("_trainable_variables", "_trainable_variables_indices", "_model_variables_moving_average")
# Where Keras's callbacks keep their state.
_STATES = {
    keras.callbacks.EarlyStopping: ("best", "best_epoch", "best_weights", "stopped_epoch", "wait"),
    keras.callbacks.ModelCheckpoint: ("best", "_batches_seen_since_last_saving", "_last_batch_seen"),
    keras.callbacks.ReduceLROnPlateau: ("best", "cooldown_counter", "wait"),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
}
# Maps optimizers to the lists that Keras built, and to the narrowed list of variables that replaces one of them.
_built = weakref.WeakKeyDictionary()
# Maps optimizers to the number of contexts in which they apply changed gradients, and to their own `apply`.
_changed = weakref.WeakKeyDictionary()


def updated_by(optimizer):
    """Returns what a built optimizer updates now, for `update`."""
    return [(part, _lists(part)) for part in _chain(optimizer)]


def selection(optimizer, variables):
    """Returns what `update` needs to let a built optimizer update these variables only.

    Raises:
        ValueError: If the optimizer was not built for all of the variables.
    """
    return [(part, _narrowed(part, list(variables))) for part in _chain(optimizer)]


def update(selected):
    """Lets an optimizer update a `selection` of variables."""
    for part, lists in selected:
        _built[part] = (_lists_when_built(part), lists[_LISTS[0]])
        for name, value in lists.items():
            object.__setattr__(part, name, value)  # Keras's own `__setattr__` would track the weights as its own.


def start_averages(optimizer, variables):
    """Starts the moving averages of variables from their values.

    Keras starts all averages in its first step. The average of a weight that trains later would start from zero.
    """
    for _, lists in selection(optimizer, variables):
        for variable, average in zip(variables, lists.get(_LISTS[2], [])):
            if average is not None:
                average.assign(keras.ops.convert_to_numpy(variable).copy())  # JAX donates shared arrays.


def variables_of(optimizer):
    """Returns the list of variables that an optimizer updates now."""
    return optimizer._trainable_variables


def built_for(optimizer):
    """Returns the list of variables for which an optimizer was built, in the order of its slots."""
    return _lists_when_built(optimizer)[_LISTS[0]]


def kept_variables(optimizer):
    """Returns the variables that an optimizer and those that it wraps keep when they are restarted."""
    return [variable for part in _chain(optimizer) for variable in getattr(part, "kept_variables", list)()]


def place_of(optimizer, variable):
    """Returns the place of a variable among those for which an optimizer was built."""
    return optimizer._get_variable_index(variable)


def learning_rate(optimizer):
    """Returns the `keras.Variable`, schedule or function that is an optimizer's learning rate.

    (A config contains it too, but only registered objects can be restored from a config.)
    """
    return optimizer._learning_rate


@contextlib.contextmanager
def learning_rate_of(optimizer, rate):
    """Gives an optimizer, or the one that it wraps, another learning rate in this context. None changes nothing."""
    part = innermost(optimizer)
    before = part._learning_rate
    try:
        object.__setattr__(part, "_learning_rate", before if rate is None else rate)
        yield
    finally:
        object.__setattr__(part, "_learning_rate", before)


def moments_of(optimizer, variable):
    """Returns the two slots in which Adam keeps the moments of a variable's gradient."""
    place = optimizer._get_variable_index(variable)
    return optimizer._momentums[place], optimizer._velocities[place]


@contextlib.contextmanager
def updating_with(optimizer, update):
    """Makes an optimizer, or the one that it wraps, update each weight with another function in this context.

    Args:
        optimizer: Keras optimizer.
        update: Function of the gradient, the variable, the learning rate, and whether the variable decays. Keras itself
            applies no weight decay in this context.
    """
    part = innermost(optimizer)
    decay, decays = part.weight_decay, part._use_weight_decay

    def update_step(gradient, variable, learning_rate):
        update(gradient, variable, learning_rate, bool(decay) and decays(variable))

    try:
        object.__setattr__(part, "update_step", update_step)
        object.__setattr__(part, "weight_decay", None)
        yield
    finally:
        object.__delattr__(part, "update_step")
        object.__setattr__(part, "weight_decay", decay)


@contextlib.contextmanager
def clipping_with(optimizer, clip):
    """Makes an optimizer with `global_clipnorm`, or the one that it wraps, clip gradients with `clip` in this context.

    Args:
        optimizer: Keras optimizer.
        clip: Function of the list of gradients, some of which may be None, and the norm. Returns the clipped list.
    """
    part = innermost(optimizer)
    if not part.global_clipnorm:
        yield
        return
    try:
        object.__setattr__(part, "_clip_gradients", lambda gradients: clip(gradients, part.global_clipnorm))
        yield
    finally:
        object.__delattr__(part, "_clip_gradients")


@contextlib.contextmanager
def applying_with(optimizer, change):
    """Makes an optimizer apply changed gradients in this context.

    The steps of several replicas overlap, so the last context to end restores the optimizer.

    Args:
        optimizer: Keras optimizer.
        change: Function of the lists of gradients and variables that returns the changed list of gradients.
    """

    contexts, inner = _changed.get(optimizer, (0, optimizer.apply))

    def apply(gradients, trainable_variables=None):
        weights = variables_of(optimizer) if trainable_variables is None else list(trainable_variables)
        return inner(change(list(gradients), weights), weights)

    try:
        if not contexts:
            object.__setattr__(optimizer, "apply", apply)
        _changed[optimizer] = contexts + 1, inner
        yield
    finally:
        contexts = _changed[optimizer][0] - 1
        _changed[optimizer] = contexts, inner
        if not contexts:
            del _changed[optimizer]
            object.__delattr__(optimizer, "apply")
            if optimizer.apply != inner:  # It was an attribute of this object.
                object.__setattr__(optimizer, "apply", inner)


@contextlib.contextmanager
def unwatched(variables):
    """Keeps TensorFlow's gradient tapes from watching variables (`tf.Variable`) in this context."""
    watched = [variable for variable in variables if variable.trainable]
    try:
        for variable in watched:
            variable._trainable = False
        yield
    finally:
        for variable in watched:
            variable._trainable = True


class ChangedPipeline(PyDatasetAdapter):
    """A data adapter for `keras.utils.PyDataset`s, which Keras's methods on TensorFlow read through another pipeline.

    Keras's methods take data adapters as `x`, and use them instead of creating one. They ignore `class_weight` and
    `shuffle` then.

    Args:
        dataset: `keras.utils.PyDataset`.
        change: Function that takes the `tf.data.Dataset` that Keras creates and returns another one.
        class_weight: As in `fit`. Defaults to `None`.
        shuffle: As in `fit`. Defaults to `False`.
    """

    def __init__(self, dataset, change, class_weight=None, shuffle=False):
        super().__init__(dataset, class_weight=class_weight, shuffle=shuffle)
        self._change = change

    def get_tf_dataset(self):
        return self._change(super().get_tf_dataset())


def is_adapter(x):
    """Returns whether `x` is a data adapter of Keras, which its methods take as `x`."""
    return isinstance(x, DataAdapter)


def batch_count(optimizer):
    """Returns the number of batches that an optimizer, or the one that it wraps, has counted, with or without updates.

    (`iterations` counts updates. If gradients are accumulated, there is one update after several batches.)
    """
    return int(keras.ops.convert_to_numpy(innermost(optimizer)._iterations))


def forget_gradients(optimizer):
    """Resets the gradients that an optimizer accumulates. On JAX, those of a newly frozen weight would remain."""
    for part in _chain(optimizer):
        for gradient in getattr(part, "_accumulated_gradients", []):
            gradient.assign(keras.ops.zeros(gradient.shape, gradient.dtype))


def excludes_from_decay(optimizer):
    """Returns whether an optimizer excludes weights from weight decay."""
    names = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    return any(getattr(optimizer, name, None) for name in names)


def initial_epoch(model):
    """Returns the epoch in which `fit` begins, which overrides its argument `initial_epoch`. Usually, it is None."""
    return model._initial_epoch


def set_initial_epoch(model, epoch):
    """Makes `fit` begin in an epoch if called in `on_train_begin`. Keras's `BackupAndRestore` does the same."""
    model._initial_epoch = epoch


def forget_jax_state(model):
    """Makes `fit` on JAX read the current values of the variables instead of overwriting them with its own state."""
    model._jax_state = None


def build_metrics(model, labels):
    """Creates the metrics that were given to `compile` by name, without replicas on TensorFlow.

    Keras would create them in the first trace of a step. TensorFlow would therefore trace the step twice. The same
    holds for the variables of metrics whose `build_for(true_shape, shape)` creates them for labels and outputs.

    Args:
        model: Compiled functional model.
        labels: Array of labels, or its `tf.TensorSpec`.
    """
    metrics = getattr(model, "_compile_metrics", None)
    alone = keras.backend.backend() == "tensorflow" and model._distribute_strategy is None
    if alone and metrics is not None and not metrics.built:
        dtype = keras.backend.standardize_dtype(labels.dtype)
        shape = (None, *labels.shape[1:])
        metrics.build(keras.KerasTensor(shape, dtype), model.output)
        for metric in metrics.metrics:
            if hasattr(metric, "build_for"):
                metric.build_for(shape, model.output.shape)


def keep_values(model):
    """Returns a function that restores the values of a model's variables on JAX after a method has failed.

    Keras takes the values out of the variables while it runs, and puts them back only if nothing fails.
    """
    if keras.backend.backend() != "jax":
        return lambda: None
    if any(variable._value is None for variable in model.variables):
        model.jax_state_sync()  # in the middle of an epoch of `fit`
    forget_jax_state(model)  # An earlier method may have left its state.
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *(optimizer.variables if optimizer is not None else ()), *model.metrics_variables]
    kept = [(variable, variable.value) for variable in variables]

    def restore():
        model.jax_state_sync()  # This sets the values after the last step, if there was one.
        for variable, value in kept:
            if variable._value is None and not value.is_deleted():
                variable.assign(value)
        if any(variable._value is None for variable in model.metrics_variables):  # Keras has created them since.
            model.reset_metrics()
        forget_jax_state(model)
        model._jax_state_synced = True  # An outer `fit` takes the variables as they are now.

    return restore


class NotCloned:
    """A mixin for a model that `keras.models.clone_model` would silently turn into a plain functional model."""

    def _run_through_graph(self, inputs, operation_fn=lambda operation: operation, call_fn=None):
        def checked(operation):
            found = operation_fn(operation)
            if isinstance(found, keras.Layer):  # Only cloning a model returns layers for symbolic inputs.
                name = type(self).__name__
                raise ValueError(
                    f"`clone_model` cannot clone a `{name}`. Use `{name}.from_config(model.get_config())`, which has "
                    f"new weights, and `set_weights(model.get_weights())` to copy them. Received: model={self!r}"
                )
            return found

        is_symbolic = any(isinstance(value, keras.KerasTensor) for value in keras.tree.flatten(inputs))
        return super()._run_through_graph(inputs, checked if is_symbolic else operation_fn, call_fn)


class Call:
    """A call of a layer or an operation in the graph of a functional model, which `calls_of` returns.

    Attributes:
        operation: The layer or operation.
        inputs, outputs: Lists of symbolic tensors.
    """

    def __init__(self, node):
        self.operation, self.inputs, self.outputs = node.operation, node.input_tensors, node.outputs
        self._arguments = node.arguments

    def repeat(self, tensors):
        """Repeats the call with other tensors, a dict from the ids of `inputs`, and returns the list of outputs."""
        args, kwargs = self._arguments.fill_in(tensors)
        return keras.tree.flatten(self.operation(*args, **kwargs))


def calls_of(model):
    """Returns the `Call`s of a functional model, each after the calls whose outputs it takes."""
    nodes = model._nodes_by_depth
    return [Call(node) for depth in sorted(nodes, reverse=True) for node in nodes[depth] if not node.is_input]


def arguments_of_fit(model, frame):
    """Returns the arguments and other variables of the model's `fit` that called the code in a frame, or None.

    Keras gives callbacks neither the data nor the other callbacks, and does not tell them when `fit` raises. In the
    place of a data adapter is the `keras.utils.PyDataset` that it reads.
    """
    for caller, _ in traceback.walk_stack(frame):
        if caller.f_code.co_name == "fit" and caller.f_locals.get("self") is model:
            found = dict(caller.f_locals)
            x = found.get("x")
            return found | {"x": x.py_dataset} if isinstance(x, PyDatasetAdapter) else found
    return None


def callback_attributes(callback):
    """Returns the names of the attributes in which one of Keras's callbacks keeps its state."""
    return next((names for kind, names in _STATES.items() if isinstance(callback, kind)), ())


def pause_saving(callback, paused):
    """Keeps a `ModelCheckpoint` that saves after a number of batches from saving, or lets it count from 0."""
    callback._batches_seen_since_last_saving = -math.inf if paused else 0


class BuildsFromOneReplica:
    """A mixin for a model that Keras builds from the first replica's part of the first batch, not from an average."""

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync > 1:
            _, _, batches = next(iter(iterator))
            data_batch = keras.tree.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], next(batches)
            )
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)


def innermost(optimizer):
    """Returns an optimizer, or the one that it wraps."""
    *_, part = _chain(optimizer)
    return part


def _chain(optimizer):
    while optimizer is not None:
        yield optimizer
        optimizer = getattr(optimizer, "inner_optimizer", None)


def _lists(optimizer):
    return {name: getattr(optimizer, name) for name in _LISTS if hasattr(optimizer, name)}


def _lists_when_built(optimizer):
    lists, narrowed = _built.get(optimizer, (None, None))
    return lists if narrowed is optimizer._trainable_variables else _lists(optimizer)  # Keras has built it since.


def _narrowed(optimizer, variables):
    lists = _lists_when_built(optimizer)
    index, keys = lists[_LISTS[1]], [optimizer._var_key(variable) for variable in variables]
    unknown = [variable.path for variable, key in zip(variables, keys) if key not in index]
    if unknown:
        raise ValueError(
            "The optimizer was built while these weights were frozen and has no slots for them. Compile the model with "
            f"a new optimizer before you unfreeze them. Received: {unknown}"
        )
    values = [variables, {key: index[key] for key in keys}]
    if _LISTS[2] in lists:
        values.append([lists[_LISTS[2]][index[key]] for key in keys])
    return dict(zip(_LISTS, values))


@contextlib.contextmanager
def unlocked(layer):
    """Allows adding layers to a built layer in this context, as Keras does for `Dense.enable_lora`."""
    tracker = layer._tracker
    locked = tracker.locked
    try:
        tracker.unlock()
        yield
    finally:
        tracker.locked = locked


def forget(layer, part):
    """Removes `part` from the layers that `layer` tracks."""
    layer._tracker.untrack(part)
