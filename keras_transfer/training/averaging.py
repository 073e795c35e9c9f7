"""Means of weights: the optimizer `NTASGD`, when it begins to average, and which weights are validated and kept."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.keras_internals import optimizers
from keras_transfer.training.progress import RunCallback, sync

# Callbacks of Keras that put other weights into the model at the end of an epoch, or keep those that are there.
_KEEP_OTHER_WEIGHTS = (keras.callbacks.SwapEMAWeights, keras.callbacks.BackupAndRestore)


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

    @expects()
    def __init__(self, learning_rate: Any = 30.0, **kwargs: Any) -> None:
        ema, rule = kwargs.get("use_ema"), "`use_ema` must be False, because NTASGD keeps its own mean. Leave it out."
        expect(not ema, rule, use_ema=ema)
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


class ValidatedAverages(RunCallback):
    """Gives a model the means that its optimizer keeps, from the end of each epoch until the next batch is trained.

    The weights that `fit` returns are these means. So that what is validated is what callbacks keep and what `fit`
    returns, the model has them during validation and for all callbacks at the end of an epoch. If one of these sets
    other weights, the run continues with those, and their means start from them.
    """

    def __init__(self):
        super().__init__()
        self._fits, self._trained, self._means = False, None, None

    def on_train_begin(self, logs=None):
        self._fits, self._trained, self._means = True, None, None
        callbacks = self.progress.callbacks or []
        others = [callback for callback in callbacks if isinstance(callback, _KEEP_OTHER_WEIGHTS)]
        expect(
            not others or not optimizers.keeps_averages(self.model.optimizer),
            "This `fit` itself validates and keeps the means of the weights. Leave `SwapEMAWeights` out, and use "
            "`callbacks.TrainingCheckpoint` instead of `BackupAndRestore`.",
            callbacks=[type(callback).__name__ for callback in others],
        )

    def on_train_end(self, logs=None):
        self._fits, self._trained, self._means = False, None, None

    def on_test_begin(self, logs=None):
        if self._fits and self._trained is None:
            pairs = optimizers.averages(self.model.optimizer)
            sync(self.model)
            self._trained, self._means = [_copy(weight) for weight, _ in pairs], [_copy(mean) for _, mean in pairs]
            for (weight, _), mean in zip(pairs, self._means):
                weight.assign(mean)

    def on_epoch_end(self, epoch, logs=None):
        self.on_test_begin()  # Without validation, nothing has called it.

    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_begin(batch)
        self._train_again()

    def _train_again(self):
        """Gives the model the weights back that trained, if it has their means."""
        if self._trained:
            sync(self.model)
            self._keep_changes()
            for (weight, _), trained in zip(optimizers.averages(self.model.optimizer), self._trained):
                weight.assign(trained)
        self._trained = self._means = None

    def close(self):
        self._train_again()  # `fit` failed, or it has ended and this does nothing.

    def _keep_changes(self):
        """If weights are no longer the means, starts the means from them, and forgets the weights that trained."""
        pairs = optimizers.averages(self.model.optimizer)
        if self._means and any(_copy(w).tobytes() != mean.tobytes() for (w, _), mean in zip(pairs, self._means)):
            optimizers.start_averages(self.model.optimizer, self.model.variables)
            self._trained = self._means = []

    def state_dict(self):
        """Returns the weights that trained, while the model has their means.

        Returns:
            Dict with a list of arrays or `None`, `"trained"`.
        """
        self._keep_changes()
        return {"trained": self._trained}

    def load_state_dict(self, state):
        """Restores a state.

        Args:
            state: Dict that `state_dict` returned.
        """
        self._trained, self._means = state.get("trained"), None


@keras.saving.register_keras_serializable(package="keras_transfer")
class NonMonotonicTrigger(SavedByArguments, ValidatedAverages):
    """Begins the mean of `NTASGD` when the validation has not improved for several epochs (Merity et al. 2018).

    It begins after an epoch whose value is worse than the best value of all epochs at least `patience` epochs earlier.
    From then on, the validation of `fit` evaluates the means, and until the next epoch begins, the model has them, so
    that `EarlyStopping` and `ModelCheckpoint` keep what was validated.

    Args:
        patience: Integer, at least 1. Number of epochs, the paper's n. Defaults to `5`.
        monitor: String. Name of a value in the logs that should fall. Defaults to `"val_loss"`.

    Raises:
        ValueError: If `patience` is not a positive integer. In `fit()`, if the optimizer is not an `NTASGD`, or if the
            logs do not contain `monitor`.

    Example:
    ```python
    keras_transfer.callbacks.NonMonotonicTrigger(patience=3, monitor="val_perplexity")
    ```

    Source: https://arxiv.org/abs/1708.02182, algorithm 1.
    """

    @expects(patience=integer(1))
    def __init__(self, patience: int = 5, monitor: str = "val_loss") -> None:
        super().__init__()
        self.patience, self.monitor = int(patience), monitor
        self.values = []

    def on_train_begin(self, logs=None):
        if not isinstance(self.model.optimizer, NTASGD):
            raise ValueError(
                "`NonMonotonicTrigger` requires `compile(NTASGD(...))`. "
                f"Received: an optimizer of type {type(self.model.optimizer).__name__}"
            )
        super().on_train_begin()
        self.values = []

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch)
        value = (logs or {}).get(self.monitor)
        rule = "`NonMonotonicTrigger` requires the value that it monitors. Pass `validation_data` to `fit()`."
        expect(value is not None, f"{rule} Expected one of {sorted(logs or {})}.", monitor=self.monitor)
        before, optimizer = self.values[: -self.patience], self.model.optimizer
        if before and value > min(before) and not optimizer.averages_weights:
            sync(self.model)
            optimizer.begin_averaging(optimizers.built_for(optimizer))
        self.values.append(float(value))

    def state_dict(self) -> dict[str, Any]:
        """Returns the values of `monitor` so far, and the weights that trained, while the model has their means.

        Returns:
            Dict with a list of floats, `"values"`, and a list of arrays or `None`, `"trained"`.
        """
        return {"values": self.values, **super().state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.values = list(state["values"])


def _copy(variable):
    return np.array(ops.convert_to_numpy(variable))  # JAX donates shared arrays.
