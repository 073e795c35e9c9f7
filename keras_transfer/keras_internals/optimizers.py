"""The variables that a built optimizer updates, its slots, and what else it keeps without a public name.

Keras builds an optimizer once, for a list of variables. It keeps the slots at fixed places and finds those of a
variable by an index. To train only some of the variables, the list, the index and the moving averages are narrowed to
these. The slots remain, and with them the moments of the other variables. Only JAX and moving averages need this:
elsewhere, `optimizer.apply(gradients, variables)` takes some of the variables, and nothing is narrowed.
"""

import weakref

import keras

from keras_transfer.core.names import listed

_LISTS = ("_trainable_variables", "_trainable_variables_indices", "_model_variables_moving_average")
# Maps optimizers to the lists that Keras built, and to the narrowed list of variables that replaces one of them.
_built = weakref.WeakKeyDictionary()


def updated_by(optimizer):
    """Returns what a built optimizer updates now, for `update`."""
    return [(part, _lists(part)) for part in _chain(optimizer)]


def selection(optimizer, variables):
    """Returns what `update` needs to let a built optimizer update these variables only."""
    return [(part, _narrowed(part, list(variables))) for part in _chain(optimizer)]


def update(selected):
    """Lets an optimizer update a `selection` of variables."""
    for part, lists in selected:
        if keras.backend.backend() != "jax" and not part.use_ema:
            continue  # `apply(gradients, variables)` takes some of the variables.
        _built[part] = (_lists_when_built(part), lists[_LISTS[0]])
        for name, value in lists.items():
            object.__setattr__(part, name, value)  # Keras's own `__setattr__` would track the weights as its own.


def keeps_averages(optimizer):
    """Returns whether an optimizer keeps means of the weights, or may begin to."""
    return any(part.use_ema or hasattr(part, "averages_weights") for part in _chain(optimizer))


def averages(optimizer):
    """Returns `(weight, mean)` for all weights whose means an optimizer sets as the weights when `fit` ends.

    These are the moving averages of Keras, and the means of an optimizer whose `averages_weights` is True.
    """
    found = []
    for part in _chain(optimizer):
        lists = _lists_when_built(part) if part.built else {}
        means = part.averages if getattr(part, "averages_weights", False) else lists.get(_LISTS[2], [])
        found += [pair for pair in zip(lists.get(_LISTS[0], []), means) if pair[1] is not None]
    return found


def start_averages(optimizer, variables):
    """Starts the means of variables from their values.

    Keras starts all averages in its first step. The average of a weight that trains later would start from zero.
    """
    own = {id(variable) for variable in variables}
    for variable, average in averages(optimizer):
        if id(variable) in own:
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


def set_learning_rate(optimizer, rate):
    """Gives an optimizer, or the one that it wraps, another learning rate, and returns a function that sets it back.

    The variable of its own rate stays as it is, among the variables of the optimizer.

    Args:
        rate: Float, `LearningRateSchedule`, or None to change nothing.
    """
    part = innermost(optimizer)
    before = part._learning_rate
    object.__setattr__(part, "_learning_rate", before if rate is None else rate)
    return lambda: object.__setattr__(part, "_learning_rate", before)


def moments_of(optimizer, variable):
    """Returns the two slots in which Adam keeps the moments of a variable's gradient."""
    place = optimizer._get_variable_index(variable)
    return optimizer._momentums[place], optimizer._velocities[place]


def slots_of(optimizer, variables, paths):
    """Returns the slots of an optimizer as a dict from the ids of its variables to `(path of the weight, name)`.

    The names of the variables do not always contain both. However, an optimizer keeps its slots in lists with one
    element for each weight.
    """
    own, found = {id(variable) for variable in variables}, {}
    for name, values in vars(optimizer).items():
        # The list of all variables begins with `iterations` and can have the same length.
        if isinstance(values, (list, tuple)) and len(values) == len(paths) and values[0] is not variables[0]:
            found |= {id(slot): (path, name.strip("_")) for path, slot in zip(paths, values) if id(slot) in own}
    return found


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


def left_over(optimizer):
    """Returns the number of batches whose gradients an optimizer has accumulated since its last update."""
    return batch_count(optimizer) % accumulation_steps(optimizer) if innermost(optimizer).built else 0


def drop_gradients(optimizer):
    """Resets the gradients that an optimizer accumulates, and counts as if their batches had not been."""
    if count := left_over(optimizer):
        forget_gradients(optimizer)
        innermost(optimizer)._iterations.assign_sub(count)


def weigh_batch(optimizer, total, count):
    """Returns the factor for the loss of a batch with which an update is that of one batch of all its rows.

    If the loss of batch k is a mean over n_k labels, the gradient of the large batch is `sum(n_k * g_k) / sum(n_k)`.
    Keras adds up the gradients of K batches and divides by K. So each loss is multiplied by n_k. The sum is known with
    the last batch, in which the loss and the accumulated gradients are multiplied by `K / sum(n_k)`, too. Gradients
    that were accumulated without their numbers of labels, as in older files, are dropped.

    Args:
        total: `keras.Variable` for the sum of the n_k, to which this function adds `count`.
        count: Scalar. Number of labels of the batch, n_k.
    """
    ops, steps = keras.ops, accumulation_steps(optimizer)
    place, count = optimizer._iterations % steps, ops.cast(count, "float32")
    before = ops.where(place == 0, 0.0, ops.convert_to_tensor(total))
    total.assign(before + count)
    is_last = place == steps - 1
    factor = ops.where(is_last, steps / ops.maximum(before + count, 1e-7), 1.0)
    kept = ops.where(before > 0, factor, 0.0)

    def scale():
        for gradient in optimizer._accumulated_gradients:
            if gradient is not None:
                gradient.assign(gradient * ops.cast(kept, gradient.dtype))

    if keras.backend.backend() == "jax":  # A condition of JAX cannot assign, and XLA adds the factor to its loops.
        scale()
    else:
        ops.cond(ops.logical_and(place > 0, ops.logical_or(is_last, before == 0)), scale, lambda: None)
    return count * factor


def apply_gradients(optimizer, variables, total=None):
    """Updates variables with the gradients that an optimizer has accumulated, if there are any, as one large batch.

    Keras would wait for more batches, and divide by their number. `total` is the variable of `weigh_batch`, if any.
    Without it, the update is the mean of the batches.
    """
    count, steps, part = left_over(optimizer), accumulation_steps(optimizer), innermost(optimizer)
    if not count:
        return
    labels = (0 if total is None else float(keras.ops.convert_to_numpy(total))) or count
    for variable, gradient in zip(built_for(part), part._accumulated_gradients, strict=True):
        if gradient is not None and not getattr(variable, "overwrite_with_gradient", False):  # Scales are no gradients.
            gradient.assign(keras.ops.multiply(gradient, steps / labels))
    done, rate = batch_count(part), part._learning_rate
    is_schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    set_back = set_learning_rate(part, float(rate(done - 1)) if is_schedule else None)  # that of the last batch
    part._iterations.assign_add(steps - count - 1)
    part.apply([keras.ops.zeros(variable.shape, variable.dtype) for variable in variables], variables)
    set_back()


def excludes_from_decay(optimizer):
    """Returns whether an optimizer excludes weights from weight decay."""
    names = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    return any(getattr(optimizer, name, None) for name in names)


def innermost(optimizer):
    """Returns an optimizer, or the one that it wraps."""
    *_, part = _chain(optimizer)
    return part


def accumulation_steps(optimizer):
    """Returns the number of batches over which an optimizer, or one that it wraps, accumulates gradients."""
    return max(part.gradient_accumulation_steps or 1 for part in _chain(optimizer))


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
            "a new optimizer before you unfreeze them: `model.compile(...)`, then `unfreeze(model)`, then `fit`. "
            f"Received: {listed(unknown, 3)}"
        )
    values = [variables, {key: index[key] for key in keys}]
    if _LISTS[2] in lists:
        values.append([lists[_LISTS[2]][index[key]] for key in keys])
    return dict(zip(_LISTS, values))
