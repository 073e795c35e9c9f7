"""Stochastic gradient descent that returns the average of its last weights."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.keras_internals import optimizers


@keras.saving.register_keras_serializable(package="keras_transfer")
class NTASGD(keras.optimizers.SGD):
    """Gradient descent that averages its weights once the validation loss stops improving (Merity et al. 2018).

    Until `begin_averaging`, which `NonMonotonicTrigger` calls, it is Keras's `SGD`. From then on, it also keeps the
    mean of the weights after each step. The mean does not influence the steps. When `fit` ends, the weights become
    their mean, as with `use_ema` of Keras's optimizers. Files and training checkpoints contain the means.

    Args:
        learning_rate: Float, schedule, or function without arguments. Defaults to `30.0`, as in AWD-LSTM.
        **kwargs: Other arguments of `keras.optimizers.SGD`, such as `weight_decay` and `global_clipnorm`.

    Raises:
        ValueError: If `use_ema` is True, which keeps another mean.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(keras_transfer.optimizers.NTASGD(0.1, global_clipnorm=0.25), "mse")
    trigger = keras_transfer.callbacks.NonMonotonicTrigger(patience=5)
    x, y = np.ones((8, 4)), np.ones((8, 2))
    model.fit(x, y, validation_data=(x, y), epochs=2, callbacks=[trigger], verbose=0)
    ```

    Source: https://arxiv.org/abs/1708.02182, section 3.
    """

    def __init__(self, learning_rate: Any = 30.0, **kwargs: Any) -> None:
        if kwargs.get("use_ema"):
            raise ValueError(
                "`use_ema` must be False, because NTASGD keeps its own mean. Leave it out. Received: use_ema=True"
            )
        super().__init__(learning_rate, **kwargs)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.averages = self.add_optimizer_variables(variables, "average")
        # The number of steps before averaging began, plus one, or 0 if it has not begun.
        self._began = self.add_variable((), dtype="int32", name="began", aggregation="only_first_replica")

    @property
    def averages_weights(self) -> bool:
        """Boolean. Whether `begin_averaging` has been called."""
        return self.built and int(ops.convert_to_numpy(self._began)) > 0

    def begin_averaging(self, variables: Sequence[keras.Variable]) -> None:
        """Begins the mean with the next step. Until then, the mean equals the current weights.

        Args:
            variables: List of the trainable weights.
        """
        for variable in variables:
            self.averages[optimizers.place_of(self, variable)].assign(_copy(variable))
        self._began.assign(self.iterations + 1)

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate)
        average = self.averages[optimizers.place_of(self, variable)]
        began, step, old, new = map(ops.convert_to_tensor, (self._began, self.iterations, average, variable))
        count = ops.cast(ops.maximum(ops.cast(step, "int32") - began + 2, 1), old.dtype)
        self.assign(average, ops.where(began > 0, old + (ops.cast(new, old.dtype) - old) / count, old))

    def finalize_variable_values(self, var_list: Sequence[keras.Variable]) -> None:
        """Sets the weights to their means, if there are any. Keras calls it when `fit` ends.

        Args:
            var_list: List of the weights.
        """
        if self.averages_weights:
            for variable in var_list:
                variable.assign(_copy(self.averages[optimizers.place_of(self, variable)]))


def _copy(variable):
    """Returns the values of a variable as an array, because on JAX two variables must not share them."""
    return np.array(ops.convert_to_numpy(variable))
