"""A training step of a model with a batch of another model that is inside it, on each backend."""

import functools

import keras

from keras_transfer.core.lazy import tf
from keras_transfer.training.gradients import train_step


def step_of_part(model, part, weights, weigh, spec):
    """Returns the function of a training step of a task inside a model, which is traced or compiled at its first batch.

    Args:
        model: Compiled Keras model, whose metrics the step returns.
        part: Compiled `Task` with the same optimizer.
        weights: List of the variables to train.
        weigh: Function that returns the loss to minimize, given the loss of the part.
        spec: Structure of the `tf.TensorSpec`s of a batch, on TensorFlow.

    Returns:
        Function of a batch, on JAX of the state of the model and a batch, that returns what Keras's train function
        returns.
    """
    options = {"weights": weights, "weigh": weigh}
    if keras.backend.backend() == "torch":
        return functools.partial(_on_torch, model, part, **options)
    if keras.backend.backend() == "jax":
        step = functools.partial(_on_jax, model, part, **options)
        if model.run_eagerly:
            return step
        import jax

        return jax.jit(lambda state, data: step(state, data), donate_argnums=0)

    strategy = model.distribute_strategy
    replicas = strategy.num_replicas_in_sync

    def train(data):
        train_step(part, data, part.labels.weight_of, **options)

    if model.jit_compile and not model.run_eagerly:
        train = tf.function(train, jit_compile=True, autograph=False)

    def on_replica(data):
        if replicas > 1:
            data = keras.tree.map_structure(lambda column: _rows_of_replica(column, replicas), data)
        train(data)

    def step(data):
        strategy.run(on_replica, args=(data,))
        return model.get_metrics_result()  # Of all replicas.

    return step if model.run_eagerly else tf.function(step, input_signature=[spec], autograph=False)


def weighed_step(model, *args, weigh):
    """Runs a training step of a task on JAX or torch as `keras.Model.train_step` does, but minimizes `weigh(loss)`."""
    step = _on_jax if keras.backend.backend() == "jax" else _on_torch
    return step(model, model, *args, weights=model.trainable_variables, weigh=weigh)


def _rows_of_replica(column, replicas):
    """Returns the rows of a batch that a replica of TensorFlow trains on."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    rows = tf.shape(column)[0]
    return column[replica * rows // replicas : (replica + 1) * rows // replicas]


def _on_jax(model, part, state, data, weights, weigh):
    """Runs a training step on JAX, and returns the metrics and the new state, as `train_step` of a model does."""
    import jax

    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    optimizer = model.optimizer
    parts = [model.trainable_variables, model.non_trainable_variables, optimizer.variables, model.metrics_variables]
    variables = [variable for part in parts for variable in part]

    def after(run, values):
        """Returns what a function returns if the variables have these values, and their values afterwards."""
        with keras.StatelessScope(state_mapping=list(zip(variables, values)), collect_losses=True) as scope:
            found = run()
        return found, [scope.get_current_value(variable) for variable in variables]

    def loss_of(own, values):
        values = {id(variable): value for variable, value in zip(variables, values)}
        values |= {id(variable): value for variable, value in zip(weights, own)}

        def run():
            outputs = part(x, training=True)
            loss = part.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight)
            return optimizer.scale_loss(weigh(loss)), loss, outputs

        (scaled, loss, outputs), values = after(run, [values[id(variable)] for variable in variables])
        return scaled, (loss, outputs, values)

    values = [value for part in state for value in part]
    places = {id(variable): place for place, variable in enumerate(variables)}
    own = [values[places[id(weight)]] for weight in weights]
    (_, (loss, outputs, values)), gradients = jax.value_and_grad(loss_of, has_aux=True)(own, values)

    def update():
        optimizer.apply(gradients, weights)
        part.metrics[0].update_state(loss, sample_weight=len(keras.tree.flatten(x)[0]))
        part.compute_metrics(x, y, outputs, sample_weight=sample_weight)
        return model.get_metrics_result()

    logs, values = after(update, values)
    values = iter(values)
    return logs, tuple([next(values) for _ in part] for part in parts)


def _on_torch(model, part, data, weights, weigh):
    """Runs a training step on torch, and returns the metrics."""
    import torch

    data = keras.tree.map_structure(lambda part: None if part is None else keras.ops.convert_to_tensor(part), data)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    outputs = part(x, training=True)
    loss = part.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight)
    for weight in weights:
        weight.value.grad = None
    model.optimizer.scale_loss(weigh(loss)).backward()
    with torch.no_grad():
        model.optimizer.apply([weight.value.grad for weight in weights], weights)
        part.metrics[0].update_state(loss, sample_weight=len(keras.tree.flatten(x)[0]))
        part.compute_metrics(x, y, outputs, sample_weight=sample_weight)
        return model.get_metrics_result()
