"""The names private to Keras on which this library relies.

Keras builds an optimizer once, for a list of variables. It keeps the slots at fixed places and finds those of a
variable by an index. To train some of the variables, the list, the index and the moving averages are narrowed to them.
The slots stay, and with them the moments of the other variables. (JAX and moving averages need this.)
"""

import math
import traceback
import weakref

import keras

_LISTS = ("_trainable_variables", "_trainable_variables_indices", "_model_variables_moving_average")
# Where Keras's callbacks keep their state.
_STATES = {
    keras.callbacks.EarlyStopping: ("best", "best_epoch", "best_weights", "stopped_epoch", "wait"),
    keras.callbacks.ModelCheckpoint: ("best", "_batches_seen_since_last_saving", "_last_batch_seen"),
    keras.callbacks.ReduceLROnPlateau: ("best", "cooldown_counter", "wait"),
    keras.callbacks.SwapEMAWeights: ("_ema_weights_in_model",),
}
# Optimizers to the lists that Keras built, and to the narrowed list of variables that stands there now.
_built = weakref.WeakKeyDictionary()


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
            object.__setattr__(part, name, value)  # Keras's own would track the model's weights as the optimizer's


def start_averages(optimizer, variables):
    """Starts the moving averages of variables from their values.

    Keras starts all averages in its first step. Those of a weight that trains later would start from zero.
    """
    for _, lists in selection(optimizer, variables):
        for variable, average in zip(variables, lists.get(_LISTS[2], [])):
            if average is not None:
                average.assign(keras.ops.convert_to_numpy(variable).copy())  # JAX donates what is shared


def variables_of(optimizer):
    """Returns the list of variables that an optimizer updates now."""
    return optimizer._trainable_variables


def place_of(optimizer, variable):
    """Returns the place of a variable among those for which an optimizer was built."""
    return optimizer._get_variable_index(variable)


def learning_rate(optimizer):
    """Returns the `keras.Variable`, schedule or function that is an optimizer's learning rate.

    (A config contains it too, but only registered objects can be restored from a config.)
    """
    return optimizer._learning_rate


def excludes_from_decay(optimizer):
    """Returns whether an optimizer excludes weights from weight decay."""
    names = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    return any(getattr(optimizer, name, None) for name in names)


def initial_epoch(model):
    """Returns the epoch in which `fit` begins instead of its argument `initial_epoch`, usually None."""
    return model._initial_epoch


def set_initial_epoch(model, epoch):
    """Lets `fit` begin in an epoch, if called in `on_train_begin`. Keras's `BackupAndRestore` does the same."""
    model._initial_epoch = epoch


def forget_jax_state(model):
    """Lets `fit` on JAX take the variables as they are now, instead of overwriting them with what it holds."""
    model._jax_state = None


def arguments_of_fit(model, frame):
    """Returns the arguments and other variables of the model's `fit` that called the code in a frame, or None.

    Keras gives callbacks neither the data nor the other callbacks, and does not tell them when `fit` raises.
    """
    for caller, _ in traceback.walk_stack(frame):
        if caller.f_code.co_name == "fit" and caller.f_locals.get("self") is model:
            return caller.f_locals
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


def _chain(optimizer):
    while optimizer is not None:
        yield optimizer
        optimizer = getattr(optimizer, "inner_optimizer", None)


def _lists(optimizer):
    return {name: getattr(optimizer, name) for name in _LISTS if hasattr(optimizer, name)}


def _lists_when_built(optimizer):
    lists, narrowed = _built.get(optimizer, (None, None))
    return lists if narrowed is optimizer._trainable_variables else _lists(optimizer)  # Keras built it since


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
