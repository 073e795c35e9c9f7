"""Gradients on TensorFlow, only for trainable weights and summed for each token, and those within a step."""

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


def gradient_of(function, values):
    """Returns the gradient of the sum of a function of a tensor at some values, and the function's own values there.

    It can be used within a step on any backend. The function changes no variable.
    """
    if keras.backend.backend() == "tensorflow":
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            found = function(values)
        return tape.gradient(found, values), found
    if keras.backend.backend() == "jax":
        import jax

        found, gradient = jax.vjp(function, values)
        return gradient(keras.ops.ones_like(found))[0], found
    import torch

    with torch.enable_grad():
        values = values.detach().requires_grad_()
        found = function(values)
        return torch.autograd.grad(found.sum(), values)[0], found.detach()
