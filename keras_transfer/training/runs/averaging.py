"""A callback that decides from the validation results when the weights of a run should be averaged."""

from typing import Any

import keras

from keras_transfer.integers import check_integer
from keras_transfer.training.optimizers import NTASGD
from keras_transfer.training.runs.run import sync


@keras.saving.register_keras_serializable(package="keras_transfer")
class NonMonotonicTrigger(keras.callbacks.Callback):
    """Begins the mean of `NTASGD` when the validation has not improved for several epochs (Merity et al. 2018).

    It begins after an epoch whose value is worse than the best value of all epochs at least `patience` epochs earlier.
    From then on, the validation of `fit` evaluates the means.

    Args:
        patience: Integer, at least 1. Number of epochs, the paper's n. Defaults to `5`.
        monitor: String. Name of a value in the logs that should fall. Defaults to `"val_loss"`.

    Raises:
        ValueError: If `patience` is not a positive integer. In `fit()`, if the optimizer is not an `NTASGD`, or if the
            logs do not contain `monitor`.

    Example:
    ```python
    keras_transfer.adaptation.NonMonotonicTrigger(patience=3, monitor="val_perplexity")
    ```

    Source: https://arxiv.org/abs/1708.02182, algorithm 1.
    """

    def __init__(self, patience: int = 5, monitor: str = "val_loss") -> None:
        super().__init__()
        self.patience, self.monitor = check_integer("patience", patience, 1), monitor
        self.values, self._fits, self._swapped = [], False, False

    def on_train_begin(self, logs=None):
        if not isinstance(self.model.optimizer, NTASGD):
            raise ValueError(
                "`NonMonotonicTrigger` requires `compile(NTASGD(...))`. "
                f"Received: an optimizer of type {type(self.model.optimizer).__name__}"
            )
        self.values, self._fits, self._swapped = [], True, False

    def on_train_end(self, logs=None):
        self._fits = False

    def on_test_begin(self, logs=None):
        if self._fits and self.model.optimizer.averages_weights:
            self._swap()
            self._swapped = True

    def on_test_end(self, logs=None):
        if self._swapped:
            self._swap()
            self._swapped = False

    def _swap(self):
        sync(self.model)
        self.model.optimizer.swap_averages(self.model.trainable_variables)

    def on_epoch_end(self, epoch, logs=None):
        value = (logs or {}).get(self.monitor)
        if value is None:
            raise ValueError(
                "`NonMonotonicTrigger` requires the value that it monitors. Pass `validation_data` to `fit()`. "
                f"Expected one of {sorted(logs or {})}. Received: monitor={self.monitor!r}"
            )
        before, optimizer = self.values[: -self.patience], self.model.optimizer
        if before and value > min(before) and not optimizer.averages_weights:
            sync(self.model)
            optimizer.begin_averaging(self.model.trainable_variables)
        self.values.append(float(value))

    def state_dict(self) -> dict[str, Any]:
        """Returns the values of `monitor` so far.

        Returns:
            Dict with a list of floats, `"values"`.
        """
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state.

        Args:
            state: Dict that `state_dict` returned.
        """
        self.values = list(state["values"])

    def get_config(self):
        return {"patience": self.patience, "monitor": self.monitor}

    @classmethod
    def from_config(cls, config):
        return cls(**config)
