"""What pulls weights back to where they started, as terms that `LayerwiseOptimizer` adds to gradients."""

import logging
import numbers

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation.rates import find_path

log = logging.getLogger("keras_transfer")


class Pull:
    """Base of the pulls: the gradient of a penalty on the way that weights have gone since the start.

    It is no part of the loss, so that `loss` and `val_loss` stay the task's own. It is added once an update, after
    gradients are clipped, and goes through the optimizer's moments as the gradient of a loss would.
    """

    needs_distance = False

    def check(self, weights):
        """Raises a ValueError if the pull is none of these weights', the pretrained ones that train."""

    def check_complete(self):
        """Raises a ValueError if what it needs has not been loaded."""
        return None  # TensorFlow's AutoGraph cannot read a function without a line of code

    def complete(self):
        """Called when the optimizer has its variables out of a file."""

    def importance(self, weight):
        """Returns an array that the optimizer keeps beside a pretrained weight's start, or None."""
        return None

    def gradient(self, weight, start, importance, distance):
        """Returns the penalty's gradient.

        Args:
            weight: tensor, the weight now.
            start: tensor, what it was at the start; None for a weight that is not pretrained.
            importance: tensor, what `importance` returned.
            distance: scalar tensor, the norm of the way of all pretrained weights that train, if `needs_distance`.
        """
        raise NotImplementedError(f"{type(self).__name__} must say its gradient")

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable("keras_transfer")
class L2SP(Pull):
    """Pulls pretrained weights to where they started, and new ones to zero (Li et al. 2018).

    The penalty is `strength / 2 * |w - w_start|^2 + new_strength / 2 * |w_new|^2`; with `squared=False` its first part
    is `strength * |w - w_start|`, the norm of all pretrained weights that train together (Wiese et al. 2017). Give the
    optimizer no weight decay beside it.

    Args:
        strength: float, of the pull on pretrained weights (the paper's alpha).
        new_strength: float, of the pull on new weights (the paper's beta).
        squared: bool.

    Raises:
        ValueError: a strength is negative.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    pull = keras_transfer.adaptation.L2SP(0.1, 0.01)
    model.compile(keras_transfer.adaptation.LayerwiseOptimizer(keras.optimizers.SGD(0.1), model, pull=pull))
    ```

    Source: https://arxiv.org/abs/1802.01483, equation 2; https://arxiv.org/abs/1706.03610.
    """

    def __init__(self, strength=0.01, new_strength=0.01, squared=True):
        self.strength = _not_negative("strength", strength)
        self.new_strength = _not_negative("new_strength", new_strength)
        if not isinstance(squared, bool):
            raise ValueError(f"`squared` must be a bool. Received: {squared!r}")
        self.squared = squared

    @property
    def needs_distance(self):
        return not self.squared

    def gradient(self, weight, start, importance, distance):
        if start is None:
            return self.new_strength * weight
        way = weight - start
        if self.squared:
            return self.strength * way
        # The norm has no gradient at the start, where the pull is taken for none.
        return self.strength * way / ops.cast(ops.maximum(distance, 1e-12), way.dtype)

    def get_config(self):
        return {"strength": self.strength, "new_strength": self.new_strength, "squared": self.squared}


@keras.saving.register_keras_serializable("keras_transfer")
class EWC(Pull):
    """Pulls pretrained weights to where they started, the more the more an earlier task needs them (Kirkpatrick 2017).

    The penalty is `strength / 2 * sum(fisher * (w - w_start)^2)`: elastic weight consolidation. The optimizer keeps the
    Fisher information and saves it in `.keras` files.

    Args:
        fisher: dict from weight paths to arrays of the weights' shapes, as `estimate_fisher` returns; None only where
            it comes from a file. Weights that are not in it are not pulled.
        strength: float, the paper's lambda.

    Raises:
        ValueError: the strength is negative; `fisher` has negative or non-finite numbers, or knows none of the weights.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    fisher = {weight.path: np.ones(weight.shape, "float32") for weight in model.trainable_weights}
    pull = keras_transfer.adaptation.EWC(fisher, strength=100.0)
    model.compile(keras_transfer.adaptation.LayerwiseOptimizer(keras.optimizers.SGD(0.001), model, pull=pull))
    ```

    Source: https://arxiv.org/abs/1612.00796, equation 3.
    """

    def __init__(self, fisher, strength=1.0):
        self.strength = _not_negative("strength", strength)
        self.fisher = fisher
        if not isinstance(fisher or {}, dict):
            raise ValueError(f"`fisher` is a dict from paths of weights to arrays. Received: {fisher!r}")
        for path, values in (fisher or {}).items():
            if not np.all(np.isfinite(values)) or np.min(values, initial=0.0) < 0:
                raise ValueError(f"Fisher information is finite and not negative. Received: {path!r} with such values")
        self._complete = fisher is not None

    def check(self, weights):
        if self.fisher is None:
            return
        paths = [weight.path for weight in weights]
        missing = [path for path in paths if find_path(self.fisher, path) is None]
        if len(missing) == len(paths):
            raise ValueError(
                f"the Fisher information must be of pretrained weights that train: {paths}. "
                f"Received: {list(self.fisher)}"
            )
        if missing:
            log.warning("no Fisher information is there for these weights, which are not pulled: %s", missing)

    def check_complete(self):
        if not self._complete:
            raise ValueError(
                "the Fisher information is no part of a config: load the optimizer with its weights, from a `.keras` "
                "file, or make it anew. Received: an `EWC` without it"
            )

    def complete(self):
        self._complete = True

    def importance(self, weight):
        values = (self.fisher or {}).get(find_path(self.fisher or {}, weight.path))
        if values is not None and np.shape(values) != tuple(weight.shape):
            raise ValueError(
                f"the Fisher information of {weight.path!r} must have its shape, {tuple(weight.shape)}. "
                f"Received: {np.shape(values)}"
            )
        return np.zeros(weight.shape) if values is None else values

    def gradient(self, weight, start, importance, distance):
        return 0.0 * weight if start is None else self.strength * importance * (weight - start)

    def get_config(self):
        return {"fisher": None, "strength": self.strength}


def _not_negative(name, value):
    if not (isinstance(value, numbers.Real) and 0 <= value < float("inf")):
        raise ValueError(f"`{name}` must be a number, at least 0. Received: {value!r}")
    return float(value)
