"""Penalties on the distance of weights from their start, which an optimizer adds, and a callback that logs them."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.arrays import data_digest
from keras_transfer.core.expect import FLAG, expect, expects, instance_of, number, optional
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.training.groups import is_norm_or_bias, select_groups, selection_for_config
from keras_transfer.training.rates import find_path

log = logging.getLogger("keras_transfer")


class Penalty(SavedByArguments):
    """Base class of the penalties on the distance of weights from their initial values.

    A penalty is not part of the loss, so `loss` and `val_loss` remain the task's. Its gradient is added once per
    update, after the gradients are clipped, and enters the optimizer's moments like the gradient of a loss.
    """

    needs_distance = False
    penalizes_new_weights = False  # Whether it pulls weights without a start toward 0.

    def select(self, groups: Any) -> list[Any]:
        """Returns the layer groups whose weights are penalized for their distance from their start.

        Args:
            groups: `LayerGroups` of the model.

        Returns:
            List of `LayerGroup`s.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `select`.")

    def includes(self, weight: keras.Variable) -> bool:
        """Returns whether the penalty has a term for a weight.

        Args:
            weight: `keras.Variable`.

        Returns:
            Boolean.
        """
        return True

    def check(self, weights: Sequence[keras.Variable]) -> None:
        """Raises a `ValueError` if the penalty applies to none of these weights.

        Subclasses that have values for certain weights only override this. By default, a penalty applies to all.

        Args:
            weights: List of `keras.Variable`s that have a start and are trainable.
        """

    def check_complete(self) -> None:
        """Raises a `ValueError` if data that the penalty needs has not been loaded.

        Subclasses with such data override this. By default, a penalty needs none.
        """
        return None  # TensorFlow's AutoGraph cannot convert a function without a statement.

    def complete(self) -> None:
        """Marks the penalty as complete after the optimizer has loaded its variables from a file.

        Subclasses whose data these variables are override this. By default, there is nothing to mark.
        """

    def importance(self, weight: keras.Variable) -> Any:
        """Returns the array that the optimizer stores with the start of a weight.

        Args:
            weight: `keras.Variable`.

        Returns:
            NumPy array of the shape of the weight, or `None`.
        """
        return None

    def gradient(self, weight: Any, start: Any, importance: Any, distance: Any) -> Any:
        """Returns the gradient of the penalty.

        Args:
            weight: Tensor. Current value of the weight.
            start: Tensor. Value at the start, or `None` for a weight outside of the selected layer groups.
            importance: Tensor. What `importance` returned, or `None`.
            distance: Scalar tensor. Norm of the distance over all trainable weights with a start, or `None` if
                `needs_distance` is False.

        Returns:
            Tensor of the shape of the weight.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `gradient`.")

    def value(self, weights: Sequence[Any]) -> float:
        """Returns the value of the penalty.

        Args:
            weights: List of tuples `(weight, start, importance)`, as for `gradient`.

        Returns:
            Float.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `value`.")


@keras.saving.register_keras_serializable(package="keras_transfer")
@expects(strength=number(0), new_strength=number(0), squared=FLAG, norms_and_biases=FLAG)
@dataclasses.dataclass(eq=False)
class L2SP(Penalty):
    """Penalizes the distance of pretrained weights from their initial values, and of new ones from 0 (Li et al. 2018).

    The penalty is `strength / 2 * |w - w_start|^2 + new_strength / 2 * |w_new|^2`. With `squared=False` its first term
    is `strength * |w - w_start|`, the norm over all trainable pretrained weights (Wiese et al. 2017). It cannot be
    combined with weight decay.

    Args:
        strength: Float. Strength for pretrained weights (the paper's alpha). Defaults to `0.01`.
        new_strength: Float. Strength for new weights (the paper's beta). Defaults to `0.01`.
        squared: Boolean. Whether the distance is squared. Defaults to `True`.
        groups: String, integer or list. The layer groups that count as pretrained, in any form that `select_groups`
            accepts. All others count as new. With `"all"`, a previously trained head is also penalized for its distance
            from its start. Some adapter weights have no effect at a value other than 0: copies of norms and biases
            (`Houlsby`, `BitFit`), scales (`IA3`) and magnitudes (DoRA). They count as pretrained, and their start is
            their value when they were added. Defaults to `"pretrained"`.
        norms_and_biases: Boolean. Whether the penalty includes biases and normalization weights, as in the paper's
            equation. The authors' code excludes them by default, like weight decay. Defaults to `True`.

    Raises:
        ValueError: If a strength is negative. In `LayerwiseOptimizer`, if `groups` matches nothing.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    penalty = keras_transfer.adaptation.L2SP(0.1, new_strength=0.01)
    model.compile(keras_transfer.optimizers.LayerwiseOptimizer(keras.optimizers.SGD(0.1), model, penalty=penalty))
    ```

    Source: https://arxiv.org/abs/1802.01483, equation 2; https://arxiv.org/abs/1706.03610.
    """

    penalizes_new_weights = True

    strength: float = 0.01
    _: dataclasses.KW_ONLY
    new_strength: float = 0.01
    squared: bool = True
    groups: Any = "pretrained"
    norms_and_biases: bool = True

    def __post_init__(self):
        self.groups = selection_for_config(self.groups)

    @property
    def needs_distance(self):
        """Boolean. Whether `gradient` needs the norm of the distance."""
        return not self.squared

    def select(self, groups):
        return select_groups(groups, self.groups)

    def includes(self, weight):
        return self.norms_and_biases or not is_norm_or_bias(weight)

    def gradient(self, weight, start, importance, distance):
        if start is None:
            return self.new_strength * weight
        gradient = self.strength * (weight - start)
        # The norm has no gradient at the start, where this returns zero.
        return gradient if self.squared else gradient / ops.cast(ops.maximum(distance, 1e-12), gradient.dtype)

    def value(self, weights):
        old = sum(_squares(weight - start) for weight, start, _ in weights if start is not None)
        new = sum(_squares(weight) for weight, start, _ in weights if start is None)
        return self.strength * (old / 2 if self.squared else old**0.5) + self.new_strength / 2 * new


@keras.saving.register_keras_serializable(package="keras_transfer")
class EWC(Penalty):
    """Elastic weight consolidation: protects the weights that an earlier task depends on (Kirkpatrick et al. 2017).

    The penalty is `strength / 2 * sum(fisher * (w - w_start)^2)`. The optimizer stores the Fisher information and saves
    it in `.keras` files. Weight decay applies to the other layer groups only, such as a new head.

    Args:
        fisher: Dict from weight paths to arrays of the same shapes, as `estimate_fisher` returns it. Weights that it
            does not contain have no penalty. Pass `None` only if a file provides the values.
        strength: Float. The paper's lambda. Defaults to `1.0`.
        groups: String, integer or list. The layer groups to protect, in any form that `select_groups` accepts. With a
            new head for another task, pass `"pretrained"`. Defaults to `None`, which protects everything that `fisher`
            contains, including the head, for tasks that share one output layer.

    Raises:
        ValueError: If `strength` is negative, or if `fisher` has negative or non-finite values. In
            `LayerwiseOptimizer`, if `groups` matches nothing, if `fisher` contains none of the weights, or if it
            contains one with another shape.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    fisher = {weight.path: np.ones(weight.shape, "float32") for weight in model.trainable_weights}
    penalty = keras_transfer.adaptation.EWC(fisher, strength=100.0)
    model.compile(keras_transfer.optimizers.LayerwiseOptimizer(keras.optimizers.SGD(0.001), model, penalty=penalty))
    ```

    Source: https://arxiv.org/abs/1612.00796, equation 3.
    """

    @expects(fisher=optional(instance_of(dict, "a dict from weight paths to arrays")), strength=number(0))
    def __init__(self, fisher: dict[str, Any] | None, strength: float = 1.0, *, groups: Any = None) -> None:
        self.strength = float(strength)
        self.fisher = fisher
        for path, values in (fisher or {}).items():
            rule = "The values of `fisher` must be finite and at least 0. Estimate them again with `estimate_fisher`."
            expect(np.all(np.isfinite(values)) and np.min(values, initial=0.0) >= 0, rule, path=path)
        self.groups = selection_for_config(groups)
        self._complete = fisher is not None

    def __repr__(self):
        """Returns the arguments, with a digest of the Fisher information, by which `compare` recognizes its runs."""
        return f"EWC(fisher={data_digest(self.fisher or {})}, strength={self.strength}, groups={self.groups!r})"

    def select(self, groups):
        chosen = list(groups) if self.groups is None else select_groups(groups, self.groups)
        known, paths, covered = set(), [], []
        for group in chosen:
            paths += [weight.path for weight in group.variables]
            found = [weight.path for weight in group.variables if self._values(weight) is not None]
            covered += found
            known |= {group.name} if found else set()
        shared = sorted({path for path in covered if covered.count(path) > 1})
        rule = (
            "The weights in `fisher` must have unique paths, which the heads of several tasks do not have. Pass "
            "`groups='pretrained'`, or use unique layer names."
        )
        expect(not shared, rule, duplicates=shared)
        rule = f"`fisher` must contain at least one weight of the layer groups. Expected some of {paths}."
        expect(self.fisher is None or known, rule, fisher=list(self.fisher or ()))
        if self.groups is not None:
            return chosen
        # `check` warns about pretrained weights that `fisher` lacks. A new head is not part of the earlier task.
        return [group for group in chosen if group.pretrained or group.name in known]

    def check(self, weights):
        if self.fisher is None:
            return
        paths = [weight.path for weight in weights]
        missing = [path for path in paths if find_path(self.fisher, path) is None]
        rule = f"`fisher` must contain at least one weight that trains. Expected some of {paths}."
        expect(len(missing) < len(paths), rule, fisher=list(self.fisher))
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
        values = self._values(weight)
        return np.zeros(weight.shape) if values is None else values

    def _values(self, weight):
        values = (self.fisher or {}).get(find_path(self.fisher or {}, weight.path))
        if values is not None and np.shape(values) != tuple(weight.shape):
            raise ValueError(
                f"The values of `fisher` for {weight.path!r} must have the weight's shape, {tuple(weight.shape)}. If "
                f"it belongs to a new head, pass `groups='pretrained'`. Received: shape {np.shape(values)}"
            )
        return values

    def gradient(self, weight, start, importance, distance):
        return 0.0 * weight if start is None else self.strength * importance * (weight - start)

    def value(self, weights):
        pulled = [(weight - start, importance) for weight, start, importance in weights if start is not None]
        return self.strength / 2 * sum(_squares(change * ops.sqrt(importance)) for change, importance in pulled)

    def get_config(self):
        """Returns the arguments of the penalty, without the Fisher information, which the optimizer saves.

        Returns:
            Dict of plain values.
        """
        return {"fisher": None, "strength": self.strength, "groups": self.groups}


@keras.saving.register_keras_serializable(package="keras_transfer")
class PenaltyLogger(SavedByArguments, keras.callbacks.Callback):
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
        if getattr(optimizer, "penalty", None) is None:
            raise ValueError(
                "`PenaltyLogger` requires a `LayerwiseOptimizer` with a `penalty`. Remove the callback, or pass such "
                f"an optimizer to `compile`. Received: {type(optimizer).__name__} without one"
            )

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs[self.name] = _unwrapped(self.model.optimizer).penalty_value()


def _unwrapped(optimizer):
    return getattr(optimizer, "inner_optimizer", optimizer)


def _squares(values):
    return float(ops.convert_to_numpy(ops.sum(ops.square(ops.cast(values, "float32")))))
