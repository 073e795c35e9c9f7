"""AdamW that updates each weight with one operation on TensorFlow."""

import contextlib
from collections.abc import Iterator

import keras
from keras import ops

from keras_transfer.core.lazy import tf
from keras_transfer.keras_internals import optimizers
from keras_transfer.training.gradients import add_up_rows

# On torch, this is a subclass, which Keras chooses when it creates an object: it updates all weights at once.
_AdamW = type(keras.optimizers.AdamW.__new__(keras.optimizers.AdamW))


@keras.saving.register_keras_serializable(package="keras_transfer")
class FusedAdamW(_AdamW):  # type: ignore[misc, valid-type]
    """Keras's AdamW, which updates each weight with one operation of TensorFlow instead of about 40.

    The updates equal those of `keras.optimizers.AdamW`, up to rounding. A training step is faster, because each value
    is read and written once, and so is the first step, whose graph is half as large. If a token occurs several times in
    a batch, the gradients of its row in an embedding are summed before they are clipped and squared, as on other
    backends. `compile()` and `compile("adamw")` of a task use this optimizer.

    With `amsgrad=True`, under a strategy of `tf.distribute`, and on JAX and torch, Keras updates the weights.

    Args:
        learning_rate: Float, schedule, or function without arguments. Defaults to `0.001`.
        weight_decay: Float. Multiple of the learning rate by which each step shrinks the weights. Defaults to `0.004`.
        beta_1: Float. Decay rate of the mean of the gradients. Defaults to `0.9`.
        beta_2: Float. Decay rate of the mean of the squared gradients. Defaults to `0.999`.
        epsilon: Float. Added to the root of the mean of the squared gradients. Defaults to `1e-7`.
        amsgrad: Boolean. Whether to use AMSGrad. Defaults to `False`.
        clipnorm: Float. Maximum norm of the gradient of each weight. Defaults to `None`, without clipping.
        clipvalue: Float. Maximum absolute value of gradients. Defaults to `None`, without clipping.
        global_clipnorm: Float. Maximum norm of all gradients together. Defaults to `None`, without clipping.
        use_ema: Boolean. Whether to keep an exponential moving average of the weights. Defaults to `False`.
        ema_momentum: Float. Momentum of the moving average. Defaults to `0.99`.
        ema_overwrite_frequency: Integer. Number of steps after which the weights become their moving average. Defaults
            to `None`, for only at the end of `fit`.
        loss_scale_factor: Float. Factor by which the loss is multiplied and the gradients are divided. Defaults to
            `None`, without scaling.
        gradient_accumulation_steps: Integer. Number of batches whose gradients are averaged for one update. Defaults to
            `None`, for one batch.
        name: String. Defaults to `None`, a name derived from the class.

    Raises:
        ValueError: If `weight_decay` is `None`, or if several ways of clipping are combined.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(keras_transfer.optimizers.FusedAdamW(1e-4, weight_decay=0.01), "mse")
    model.fit(np.ones((8, 4)), np.ones((8, 2)), verbose=0)
    ```

    Source: https://arxiv.org/abs/1711.05101.
    """

    _shared = None  # The scalars of a step, in the context of `one_step`.

    def apply(self, grads, trainable_variables=None):
        with self.one_step():
            super().apply(add_up_rows(grads), trainable_variables)

    @contextlib.contextmanager
    def one_step(self) -> Iterator[None]:
        """Returns a context in which all weights share the scalars of a step on TensorFlow, such as a schedule's rate.

        Returns:
            A context manager.
        """
        object.__setattr__(self, "_shared", {} if self._is_fused() else None)  # Keras would track a dict.
        try:
            yield
        finally:
            object.__setattr__(self, "_shared", None)

    @property
    def learning_rate(self):
        """The current learning rate, which a schedule computes once for each step."""
        return self._once("rate", lambda: _AdamW.learning_rate.fget(self))  # Keras's weight decay uses it each time.

    @learning_rate.setter
    def learning_rate(self, rate):
        _AdamW.learning_rate.fset(self, rate)

    def update_step(self, gradient, variable, learning_rate):
        if not self._is_fused():
            return super().update_step(gradient, variable, learning_rate)
        weight = _weight_of(variable)
        first, second = optimizers.moments_of(self, variable)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=first.value.handle,
            v=second.value.handle,
            grad=tf.cast(tf.convert_to_tensor(gradient), weight.dtype),
            use_locking=False,
            **self._scalars(learning_rate, weight.dtype),
        )

    def _apply_weight_decay(self, variables):
        if self.weight_decay is None or not self._is_fused():
            super()._apply_weight_decay(variables)
            return
        for weight in map(_weight_of, variables):
            if self._use_weight_decay(weight):  # What Keras computes, but with the same two scalars for all weights.
                rate, decay = self._once(("decay", weight.dtype), lambda dtype=weight.dtype: self._decay(dtype))
                weight.assign_sub(weight * decay * rate)

    def _decay(self, dtype):
        return tf.cast(self.learning_rate, dtype), tf.cast(self.weight_decay, dtype)

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        if not self._is_fused():
            super()._backend_update_step(grads, trainable_variables, learning_rate)
            return
        for gradient, variable in zip(grads, trainable_variables):  # without the strategy's contexts for each weight
            self.update_step(gradient, variable, learning_rate)

    def _is_fused(self):
        if keras.backend.backend() != "tensorflow" or self.amsgrad:
            return False
        return not tf.distribute.has_strategy()

    def _scalars(self, rate, dtype):
        """Returns the scalar arguments of the operation."""

        def compute():
            step = ops.cast(self.iterations + 1, dtype)
            beta_1, beta_2 = ops.cast(self.beta_1, dtype), ops.cast(self.beta_2, dtype)
            return {
                "lr": ops.cast(rate, dtype),
                "beta1": beta_1,
                "beta2": beta_2,
                "beta1_power": ops.power(beta_1, step),
                "beta2_power": ops.power(beta_2, step),
                "epsilon": ops.cast(self.epsilon, dtype),
            }, rate  # Keeping the rate alive keeps its id unique.

        return self._once((id(rate), dtype), compute)[0]

    def _once(self, key, compute):
        """Returns the result of a function, which runs once in the context of `one_step`."""
        if self._shared is None:
            return compute()
        if key not in self._shared:
            self._shared[key] = compute()
        return self._shared[key]


def _weight_of(variable):
    return variable.value if isinstance(variable, keras.Variable) else variable
