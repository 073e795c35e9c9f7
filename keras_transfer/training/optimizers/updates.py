"""Adam's update of a weight as one operation of TensorFlow, for optimizers and tasks, which cannot import TensorFlow.

Keras builds Adam's update from about 40 operations for each weight. They make up half of what TensorFlow traces and
optimizes before the first training step of a Transformer, and they allocate several copies of each weight. To clip by
the global norm, Keras also squares each gradient, and first makes the gradients of embeddings dense.
"""

import contextlib

import keras
from keras import ops

from keras_transfer.keras_internals import optimizer_state, optimizer_steps

# The optimizers that update a weight as TensorFlow's operation does.
FUSIBLE = (keras.optimizers.Adam, keras.optimizers.AdamW)


@contextlib.contextmanager
def fused_updates(model):
    """A context in which the steps of a compiled model clip gradients and update weights with few operations.

    Whatever the optimizer, the gradients of a token that occurs several times in a batch are added up first.

    Args:
        model: Compiled Keras model.
    """
    outer = getattr(model, "optimizer", None)
    optimizer = optimizer_state.innermost(outer) if isinstance(outer, keras.optimizers.Optimizer) else None
    if optimizer is None or getattr(optimizer, "adds_up_rows", False) or keras.backend.backend() != "tensorflow":
        yield
        return
    if not adds_up_rows(optimizer, [optimizer]):
        with optimizer_steps.applying_with(outer, add_up_rows):
            yield
        return
    adam, decay = AdamUpdates(optimizer), optimizer.weight_decay

    def update(gradient, variable, rate, decays):
        adam(gradient, variable, rate, decay if decays else None)

    with (
        optimizer_steps.updating_with(optimizer, update),
        optimizer_steps.clipping_with(optimizer, clip_by_global_norm),
    ):
        yield


def fused_clipping(optimizer, parts):
    """Returns a context in which an optimizer clips gradients with few operations, if possible.

    Args:
        optimizer: Keras optimizer.
        parts: Iterable of the optimizers that update its weights.
    """
    fusible = all(is_fusible(part) for part in parts)
    return optimizer_steps.clipping_with(optimizer, clip_by_global_norm) if fusible else contextlib.nullcontext()


def updates_of(optimizer):
    """Returns the function with which an optimizer updates weights in a step that begins now.

    Its arguments are the gradient, the variable, the learning rate and the weight decay, or None, as for `AdamUpdates`.
    """
    if is_fusible(optimizer):
        return AdamUpdates(optimizer)

    def update(gradient, variable, rate, decay):
        if decay is not None:
            optimizer.assign_sub(variable, variable * (rate * decay))
        optimizer.update_step(gradient, variable, rate)

    return update


def is_fusible(optimizer):
    """Returns whether `AdamUpdates` can update weights as an optimizer does."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return type(optimizer) in FUSIBLE and not optimizer.amsgrad and not tf.distribute.has_strategy()


def adds_up_rows(optimizer, parts):
    """Returns whether the fused functions add up the rows of sparse gradients before anything else reads them.

    Args:
        optimizer: Keras optimizer that clips the gradients.
        parts: Iterable of the optimizers that update its weights.
    """
    others = optimizer.clipnorm, optimizer.clipvalue, optimizer.loss_scale_factor
    return all(is_fusible(part) for part in parts) and not any(others)


def add_up_rows(gradients, weights):
    """Returns gradients without the sparse ones of TensorFlow's embeddings, whose rows are added up.

    A sparse gradient has a row for each token of a batch. If a token occurs several times, Keras's optimizers would
    clip and square each of its rows instead of their sum.

    Args:
        gradients: List of tensors, `tf.IndexedSlices` and None.
        weights: List of the variables, in the same order.
    """
    if keras.backend.backend() != "tensorflow":
        return gradients
    import tensorflow as tf

    def dense(gradient, weight):
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, weight.shape[0])

    return [dense(gradient, weight) for gradient, weight in zip(gradients, weights, strict=True)]


def clip_by_global_norm(gradients, norm):
    """Returns the gradients, scaled so that the norm of all of them is at most `norm`. Sparse ones remain sparse.

    If the norm is not finite, all gradients become NaN, as in Keras.

    Args:
        gradients: List of tensors, `tf.IndexedSlices` and None.
        norm: Float.
    """
    import tensorflow as tf

    found = [None if gradient is None else _merge_rows(gradient) for gradient in gradients]
    squares = tf.add_n([tf.cast(tf.nn.l2_loss(pair[0]), "float32") for pair in found if pair is not None])
    own = tf.sqrt(2 * squares)
    scale = norm * tf.minimum(1 / own, 1 / norm) + (own - own)

    def scaled(gradient, pair):
        if pair is None:
            return None
        values, rows = pair
        values = values * tf.cast(scale, values.dtype)
        return values if rows is None else tf.IndexedSlices(values, rows, gradient.dense_shape)

    return [scaled(gradient, pair) for gradient, pair in zip(gradients, found)]


def _merge_rows(gradient):
    """Returns `(gradients, rows)` of a sparse gradient, or `(gradient, None)` of a dense one.

    Gradients of the same row are added up. The remaining places hold zeros for row 0, so that the shapes do not change.
    """
    import tensorflow as tf

    if not isinstance(gradient, tf.IndexedSlices):
        return gradient, None
    order = tf.argsort(gradient.indices)
    rows = tf.gather(gradient.indices, order)
    places = tf.cumsum(tf.cast(rows != tf.roll(rows, 1, 0), "int32"))
    places -= places[0]  # It is 1 if the first row differs from the last one.
    count = rows.shape[0] or tf.size(rows)
    values = tf.math.unsorted_segment_sum(tf.gather(gradient.values, order), places, count)
    return values, tf.maximum(tf.math.unsorted_segment_max(rows, places, count), 0)


class AdamUpdates:
    """The updates of all weights in one step of Keras's Adam or AdamW, without replicas.

    All weights share the scalars of the step.

    Args:
        optimizer: Built `keras.optimizers.Adam` or `AdamW` for which `is_fusible` is true.
    """

    def __init__(self, optimizer):
        self._optimizer, self._shared = optimizer, {}

    def __call__(self, gradient, variable, rate, decay=None, rows=None):
        """Updates a weight and its moments.

        Args:
            gradient: Tensor, `tf.IndexedSlices`, or the tensor [number of rows, ...] of the gradients of `rows`.
            variable: `tf.Variable`.
            rate: Scalar. Learning rate.
            decay: Float. Weight decay, which the learning rate scales. Defaults to `None`.
            rows: Tensor of the indices, without duplicates, of the only rows to update. Defaults to `None`, all rows.
        """
        import tensorflow as tf

        def scalars():
            step = ops.cast(self._optimizer.iterations + 1, variable.dtype)
            names = ("beta_1", "beta_2", "epsilon")
            beta_1, beta_2, epsilon = (ops.cast(getattr(self._optimizer, name), variable.dtype) for name in names)
            powers = ops.power(beta_1, step), ops.power(beta_2, step)
            return {"beta1_power": powers[0], "beta2_power": powers[1], "beta1": beta_1, "beta2": beta_2}, epsilon

        betas, epsilon = self._once((variable.dtype,), scalars)
        lr = self._once((variable.dtype, id(rate)), lambda: ops.cast(rate, variable.dtype))
        shrinking = self._once((variable.dtype, id(rate), decay), lambda: lr * decay) if decay else None
        gradient = tf.cast(gradient, variable.dtype)
        moments = [slot.value for slot in optimizer_state.moments_of(self._optimizer, variable)]
        if rows is not None:
            return _update_rows(gradient, variable, lr, betas, epsilon, shrinking, moments, rows)
        if isinstance(gradient, tf.IndexedSlices):
            gradient = tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
        if shrinking is not None:
            variable.assign_sub(variable * shrinking)
        m, v = (moment.handle for moment in moments)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle, m=m, v=v, lr=lr, epsilon=epsilon, grad=gradient, use_locking=False, **betas
        )

    def _once(self, key, compute):
        if key not in self._shared:
            self._shared[key] = compute()
        return self._shared[key]


def _update_rows(gradient, variable, lr, betas, epsilon, shrinking, moments, rows):
    import tensorflow as tf

    def set_rows(target, values):
        target.scatter_update(tf.IndexedSlices(values, rows))
        return values

    first, second = (tf.gather(moment, rows) for moment in moments)
    first = set_rows(moments[0], first + (gradient - first) * (1 - betas["beta1"]))
    second = set_rows(moments[1], second + (tf.square(gradient) - second) * (1 - betas["beta2"]))
    alpha = lr * tf.sqrt(1 - betas["beta2_power"]) / (1 - betas["beta1_power"])
    values = tf.gather(variable, rows)
    values = values if shrinking is None else values - values * shrinking
    set_rows(variable, values - first * alpha / (tf.sqrt(second) + epsilon))


def check_sparse(optimizer, penalty):
    """Raises a `ValueError` if an optimizer cannot update only the rows of embeddings that occur in a batch.

    Args:
        optimizer: Keras optimizer.
        penalty: Penalty on the distance of the weights from their start, or None.
    """
    backend, kind = keras.backend.backend(), type(optimizer)
    wrong = {
        "backend": backend != "tensorflow" and backend,
        "optimizer": kind not in FUSIBLE and kind.__name__,
        "amsgrad": getattr(optimizer, "amsgrad", False),
        "gradient_accumulation_steps": optimizer.gradient_accumulation_steps,
        "penalty": penalty is not None and type(penalty).__name__,
    }
    if any(wrong.values()):
        raise ValueError(
            "`sparse_embeddings=True` requires TensorFlow, and Adam or AdamW without AMSGrad, gradient accumulation "
            f"and a penalty. Received: {', '.join(f'{name}={value}' for name, value in wrong.items() if value)}"
        )


def gather_rows(gradient):
    """Returns `(gradients, rows)` of a sparse gradient, each row once, or `(gradient, None)` of a dense one.

    Raises:
        ValueError: If a strategy of `tf.distribute` is active.
    """
    import tensorflow as tf

    if tf.distribute.has_strategy():
        name = type(tf.distribute.get_strategy()).__name__
        raise ValueError(f"`sparse_embeddings=True` does not support replicas. Received: {name}")
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient, None
    rows, places = tf.unique(gradient.indices)
    return tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows)), rows
