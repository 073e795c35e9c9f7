"""The optimizer of a model: building it before `fit` does, and resetting its state."""

import contextlib

import keras

from keras_transfer.keras_internals import optimizers


def build_optimizer(model):
    """Builds the model's optimizer for all trainable weights, if it is not built yet.

    On JAX, weights and their moving averages are the same arrays after a `fit` with `use_ema=True`. The next `fit`
    could not donate them, so the averages become copies.
    """
    optimizer = model.optimizer
    if not optimizer.built:
        with _scope(model):
            _build(optimizer, list(model.trainable_variables))
    elif keras.backend.backend() == "jax":
        arrays = {id(variable.value) for variable in model.variables}
        for variable in optimizer.variables:
            if id(variable.value) in arrays:
                _assign_copy(variable, variable)


def labels_of_update(model):
    """Returns a variable for the number of labels in the gradients that a model's optimizer has accumulated.

    It is `None` without accumulation, for a loss that is not a mean over labels or rows, and for a
    `LossScaleOptimizer`, which does not count all batches.
    """
    optimizer = model.optimizer
    reductions = {getattr(loss, "reduction", "mean") for loss in keras.tree.flatten(model.loss)}
    if optimizer is None or optimizers.innermost(optimizer) is not optimizer:
        return None
    if optimizers.accumulation_steps(optimizer) == 1 or not reductions <= {"sum_over_batch_size", "mean"}:
        return None
    with _scope(model):
        name, one = "labels_of_update", "only_first_replica"
        return keras.Variable(0.0, dtype="float32", trainable=False, name=name, aggregation=one)


def restart_optimizer(model):
    """Resets a built optimizer to the state of a new one, except for its learning rate and its `kept_variables`.

    The moving averages start from the weights.
    """
    optimizer = model.optimizer
    weights = optimizers.built_for(optimizer)
    with _scope(model):
        new = type(optimizer).from_config(optimizer.get_config())
        _build(new, weights)
    kept = {id(variable) for variable in optimizers.kept_variables(optimizer)}
    for variable, fresh in zip(optimizer.variables, new.variables, strict=True):
        if id(variable) not in kept:
            _assign_copy(variable, fresh)
    optimizers.start_averages(optimizer, weights)


def _assign_copy(variable, source):
    variable.assign(keras.ops.convert_to_numpy(source).copy())  # JAX donates shared arrays.


def _scope(model):
    strategy = getattr(model, "distribute_strategy", None)
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def _build(optimizer, weights):
    with keras.name_scope(optimizer.name, caller=optimizer):  # The paths must be the same as if Keras built it.
        optimizer.build(weights)
