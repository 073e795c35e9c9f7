"""Penalties on the distance of weights from their start, as terms that `LayerwiseOptimizer` adds to the gradients."""

import logging
import numbers

import keras
import numpy as np
from keras import ops

from keras_transfer.adaptation.rates import find_path

log = logging.getLogger("keras_transfer")


class Penalty:
    """Base of the penalties: the gradient of a penalty on the distance of weights from their initial values.

    The penalty is not part of the loss, so `loss` and `val_loss` remain those of the task. Its gradient is added once
    per update, after the gradients are clipped, and enters the optimizer's moments like the gradient of a loss.
    """

    needs_distance = False

    def check(self, weights):
        """Raises a `ValueError` if the penalty fits none of these weights, the pretrained ones that train."""

    def check_complete(self):
        """Raises a `ValueError` if data that the penalty needs has not been loaded."""
        return None  # TensorFlow's AutoGraph cannot read a function without a statement.

    def complete(self):
        """Called when the optimizer has loaded its variables from a file."""

    def importance(self, weight):
        """Returns an array that the optimizer stores with the start of a pretrained weight, or None."""
        return None

    def gradient(self, weight, start, importance, distance):
        """Returns the gradient of the penalty.

        Args:
            weight: Tensor. Current value of the weight.
            start: Tensor. Value at the start, or None for a weight that is not pretrained.
            importance: Tensor. What `importance` returned.
            distance: Scalar tensor. Norm of the distance of all pretrained weights that train, or None unless
                `needs_distance`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `gradient`.")

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable("keras_transfer")
class L2SP(Penalty):
    """Penalizes the distance of pretrained weights from their initial values, and of new ones from 0 (Li et al. 2018).

    The penalty is `strength / 2 * |w - w_start|^2 + new_strength / 2 * |w_new|^2`. With `squared=False` its first term
    is `strength * |w - w_start|`, the norm over all pretrained weights that train (Wiese et al. 2017). It cannot be
    combined with weight decay.

    Args:
        strength: Float. Strength for pretrained weights (the paper's alpha). Defaults to `0.01`.
        new_strength: Float. Strength for new weights (the paper's beta). Defaults to `0.01`.
        squared: Boolean. Whether the distance is squared. Defaults to `True`.

    Raises:
        ValueError: If a strength is negative.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    penalty = keras_transfer.adaptation.L2SP(0.1, 0.01)
    model.compile(keras_transfer.adaptation.LayerwiseOptimizer(keras.optimizers.SGD(0.1), model, penalty=penalty))
    ```

    Source: https://arxiv.org/abs/1802.01483, equation 2; https://arxiv.org/abs/1706.03610.
    """

    def __init__(self, strength=0.01, new_strength=0.01, squared=True):
        self.strength = _not_negative("strength", strength)
        self.new_strength = _not_negative("new_strength", new_strength)
        if not isinstance(squared, bool):
            raise ValueError(f"`squared` must be a boolean. Received: squared={squared!r}")
        self.squared = squared

    @property
    def needs_distance(self):
        return not self.squared

    def gradient(self, weight, start, importance, distance):
        if start is None:
            return self.new_strength * weight
        gradient = self.strength * (weight - start)
        # The norm has no gradient at the start, where this returns zero.
        return gradient if self.squared else gradient / ops.cast(ops.maximum(distance, 1e-12), gradient.dtype)

    def get_config(self):
        return {"strength": self.strength, "new_strength": self.new_strength, "squared": self.squared}


@keras.saving.register_keras_serializable("keras_transfer")
class EWC(Penalty):
    """Elastic weight consolidation: protects the weights that an earlier task depends on (Kirkpatrick et al. 2017).

    The penalty is `strength / 2 * sum(fisher * (w - w_start)^2)` over the pretrained weights. The optimizer stores the
    Fisher information and saves it in `.keras` files.

    Args:
        fisher: Dict from paths of weights to arrays of the same shapes, as `estimate_fisher` returns it. Weights that
            are not in it have no penalty. `None` only if a file provides it.
        strength: Float. The paper's lambda. Defaults to `1.0`.

    Raises:
        ValueError: If `strength` is negative, if `fisher` has negative or non-finite values, or if none of the weights
            is in it.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    fisher = {weight.path: np.ones(weight.shape, "float32") for weight in model.trainable_weights}
    penalty = keras_transfer.adaptation.EWC(fisher, strength=100.0)
    model.compile(keras_transfer.adaptation.LayerwiseOptimizer(keras.optimizers.SGD(0.001), model, penalty=penalty))
    ```

    Source: https://arxiv.org/abs/1612.00796, equation 3.
    """

    def __init__(self, fisher, strength=1.0):
        self.strength = _not_negative("strength", strength)
        self.fisher = fisher
        if not isinstance(fisher or {}, dict):
            raise ValueError(f"`fisher` must be a dict from weight paths to arrays. Received: fisher={fisher!r:.100}")
        for path, values in (fisher or {}).items():
            if not np.all(np.isfinite(values)) or np.min(values, initial=0.0) < 0:
                raise ValueError(
                    f"The values of `fisher` must be finite and at least 0. Received: invalid values for {path!r}"
                )
        self._complete = fisher is not None

    def check(self, weights):
        if self.fisher is None:
            return
        paths = [weight.path for weight in weights]
        missing = [path for path in paths if find_path(self.fisher, path) is None]
        if len(missing) == len(paths):
            raise ValueError(
                "`fisher` must contain at least one trainable pretrained weight. "
                f"Expected some of {paths}. Received: {list(self.fisher)}"
            )
        if missing:
            log.warning("The penalty does not apply to these weights, for which `fisher` has no values: %s", missing)

    def check_complete(self):
        if not self._complete:
            raise ValueError(
                "`EWC` requires `fisher`, which a config does not contain. Load the optimizer with its weights from a "
                "`.keras` file, or create a new one. Received: fisher=None"
            )

    def complete(self):
        self._complete = True

    def importance(self, weight):
        values = (self.fisher or {}).get(find_path(self.fisher or {}, weight.path))
        if values is not None and np.shape(values) != tuple(weight.shape):
            raise ValueError(
                f"The values of `fisher` for {weight.path!r} must have the weight's shape, {tuple(weight.shape)}. "
                f"Received: shape {np.shape(values)}"
            )
        return np.zeros(weight.shape) if values is None else values

    def gradient(self, weight, start, importance, distance):
        return 0.0 * weight if start is None else self.strength * importance * (weight - start)

    def get_config(self):
        return {"fisher": None, "strength": self.strength}


def _not_negative(name, value):
    if not (isinstance(value, numbers.Real) and 0 <= value < float("inf")):
        raise ValueError(f"`{name}` must be a number of at least 0. Received: {name}={value!r}")
    return float(value)
