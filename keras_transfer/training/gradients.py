"""Training steps for some weights, on TensorFlow with the summed gradients of tokens that occur several times."""

import warnings

import keras

from keras_transfer.core.lazy import tf
from keras_transfer.distribute import first_rows, own_rows, track_loss


def add_up_rows(gradients):
    """Returns a list of gradients in which the sparse gradients of TensorFlow's embeddings are dense.

    A sparse gradient has a row for each token of a batch. If a token occurs several times, Keras's optimizers would
    clip and square each of its rows instead of their sum.

    Args:
        gradients: Iterable of tensors, `tf.IndexedSlices` and `None`.
    """
    if keras.backend.backend() != "tensorflow":
        return gradients
    return [
        tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient for gradient in gradients
    ]


def train_step(model, data, weight_of, weights=None, weigh=lambda loss: loss):
    """Runs a training step on TensorFlow as `keras.Model.train_step` does, with the summed gradients of each token.

    It watches only the trainable weights. Keras's step would also trace the gradients of frozen weights, and TensorFlow
    would drop most of them again when it optimizes the graph.

    Args:
        model: Compiled Keras model.
        data: Tuple of inputs and, possibly, labels and sample weights.
        weight_of: Function that returns the number of values in the mean that is the loss of a batch, given inputs,
            labels and sample weights.
        weights: List of the variables to train. Defaults to `None`, all trainable weights of the model.
        weigh: Function that returns the loss to minimize, given the loss of the model. Defaults to the identity.

    Returns:
        Dict from the names of the loss and the metrics to their values.
    """
    data, own = own_rows(data)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    weights = model.trainable_weights if weights is None else weights
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([weight.value for weight in weights])
        y_pred = model(x, training=True)
        loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        weight, count = weight_of(x, y, sample_weight), own
        if own is None:
            count = tf.shape(next(value for value in keras.tree.flatten(x) if value is not None))[0]
        else:
            weight = tf.cast(weight, "float32") * tf.cast(own > 0, "float32")
        loss = track_loss(model, loss, weight, count)
        loss = model.optimizer.scale_loss(weigh(loss))
    if weights:
        gradients = tape.gradient(loss, [weight.value for weight in weights])
        model.optimizer.apply(add_up_rows(gradients), weights)
    else:
        warnings.warn("The model does not have any trainable weights.", stacklevel=2)
    if own is not None:
        x, y, y_pred, sample_weight = first_rows((x, y, y_pred, sample_weight), own)
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def train_part_on_torch(model, part, data, weights, weigh):
    """Runs a training step as `train_part` does, on torch. Its arguments and its result have no state."""
    import torch

    data = keras.tree.map_structure(keras.ops.convert_to_tensor, data)
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


def train_part(model, part, state, data, weights, weigh):
    """Runs a training step of a model on JAX, with a batch of a model inside it.

    Args:
        model: Compiled Keras model, whose state it is.
        part: Compiled Keras model with the same optimizer.
        state: Tuple of lists of arrays, as `train_step` of a model on JAX accepts it.
        data: Tuple of inputs and, possibly, labels and sample weights.
        weights: List of the variables to train.
        weigh: Function that returns the loss to minimize, given the loss of the part.

    Returns:
        Dict from the names of the metrics of the model to their values, and the new state.
    """
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
