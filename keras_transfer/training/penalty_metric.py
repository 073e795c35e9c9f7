"""A callback that logs the value of a penalty together with the metrics of `fit`."""

import keras

from keras_transfer.training.layerwise import LayerwiseOptimizer


@keras.saving.register_keras_serializable(package="keras_transfer")
class PenaltyLogger(keras.callbacks.Callback):
    """Logs the value of the penalty of a `LayerwiseOptimizer` at the end of each epoch.

    The penalty is not part of the loss. This callback adds its value to the logs of the epoch, and so to the `History`
    that `fit()` returns. Callbacks after it in the list, such as `CSVLogger` or `TensorBoard`, see the value, too. The
    value includes frozen weights if the optimizer was built for them.

    Args:
        name: String. Name of the value in the logs. Defaults to `"penalty"`.

    Raises:
        ValueError: If the model's optimizer has no penalty, in `fit()`.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    penalty = keras_transfer.adaptation.L2SP(0.1, new_strength=0.01)
    optimizer = keras_transfer.optimizers.LayerwiseOptimizer(keras.optimizers.Adam(1e-3), model, penalty=penalty)
    model.compile(optimizer, "mse")
    callbacks = [keras_transfer.callbacks.PenaltyLogger()]
    history = model.fit(np.ones((8, 4)), np.ones((8, 2)), callbacks=callbacks, verbose=0)
    print(history.history["penalty"])
    ```
    """

    def __init__(self, *, name: str = "penalty") -> None:
        super().__init__()
        self.name = name

    def on_train_begin(self, logs=None):
        optimizer = _unwrapped(self.model.optimizer)
        if not isinstance(optimizer, LayerwiseOptimizer) or optimizer.penalty is None:
            raise ValueError(
                "`PenaltyLogger` requires a `LayerwiseOptimizer` with a `penalty`. Remove the callback, or pass such "
                f"an optimizer to `compile`. Received: {type(optimizer).__name__} without one"
            )

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs[self.name] = _unwrapped(self.model.optimizer).penalty_value()

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _unwrapped(optimizer):
    return getattr(optimizer, "inner_optimizer", optimizer)
