"""Plans of a run: gradual unfreezing, chain-thaw, sequential unfreezing and custom stages."""

import functools
from collections.abc import Sequence

import keras

from keras_transfer.core.expect import Rule, expects, list_of
from keras_transfer.training.groups import select_groups
from keras_transfer.training.stages import LENGTH, Stage, Stages


def gradual(groups, epochs=None, steps=None, fraction=0.5, below=None):
    """Returns the stages of gradual unfreezing. `GradualUnfreezing` describes them."""
    found = groups[:1] if below is None else select_groups(groups, below)
    if len(found) != 1:
        names = [group.name for group in found]
        raise ValueError(f"Expected a single layer group. Received: {below!r}, which matches {names}")
    lowest, highest = found[0].depth, groups[-1].depth
    first = {group.depth for group in groups if not group.pretrained and group.depth >= lowest} | {highest}
    others = [depth for depth in range(highest, lowest - 1, -1) if depth not in first]
    trained = [sorted({*first, *others[:count]}) for count in range(len(others) + 1)]
    return _of_equal_length(trained, epochs, steps, fraction)


def chain_thaw(groups, epochs=None, steps=None, fraction=0.75):
    """Returns the stages of chain-thaw. `ChainThaw` describes them."""
    new = _new(groups)
    others = [[group.depth] for group in groups if group.depth not in new]
    return _of_equal_length([new, *others, "all"], epochs, steps, fraction)


def sequential(groups, new_epochs=1, body_epochs=1):
    """Returns the stages of sequential unfreezing. `SequentialUnfreezing` describes them."""
    body = [group.depth for group in groups if group.kind != "embeddings"]
    return [Stage(_new(groups), epochs=new_epochs), Stage(body, epochs=body_epochs), Stage("all")]


def linear_probe(groups, learning_rate, fraction=0.5):
    """Returns the stages of linear probing and fine-tuning. `LinearProbe` describes them."""
    return [Stage("new", fraction=fraction, learning_rate=learning_rate), Stage("all")]


def _of_equal_length(trained, epochs, steps, fraction):
    """Returns stages of equal length, except that the last one lasts until the run ends."""
    if epochs is None and steps is None:
        return [Stage(train, fraction=fraction / max(len(trained) - 1, 1)) for train in trained]
    return [Stage(train, epochs=epochs, steps=steps) for train in trained]


def _new(groups):
    """Returns the depths of the layer groups that are not pretrained, or of the highest group if all are pretrained."""
    return [group.depth for group in groups if not group.pretrained] or [groups[-1].depth]


@keras.saving.register_keras_serializable(package="keras_transfer")
class StagedTraining(Stages):
    """Trains only some layer groups in each stage of a run.

    The callback works in plain `fit()`, with any Keras optimizer and backend. Which weights train depends only on the
    step, so a resumed run trains the same weights as an uninterrupted run. Frozen layer groups below all trainable ones
    need no backward pass, and their statistics (batch normalization) do not change. The optimizer keeps the slots of
    frozen weights. With `LayerwiseOptimizer`, the first steps of a layer group that begins to train late also have the
    right size. Weights that were frozen before `fit()` remain frozen.

    A stage sets the `trainable` flags when it begins. At the end of each epoch, and after `fit()` of a task ends for
    any reason, every flag has its value from before `fit()`. Files that are written between epochs therefore contain
    these flags and the whole optimizer. If `fit()` of another model may fail, use the callback as a context manager,
    which restores the flags: `with callback: model.fit(..., callbacks=[callback])`. Put the callback first in the list
    of callbacks.

    A stage can begin only with the first of `steps_per_execution` batches, and with the first of the batches that
    accumulate one gradient. Keras traces the step again in each new stage, which takes seconds.

    If a stage shall have its own optimizer, or end when nothing improves (`keras.callbacks.EarlyStopping`), call
    `freeze_to` or `unfreeze`, and then another `fit()`.

    Args:
        stages: List of `Stage`s, in order.

    Raises:
        ValueError: If `stages` is not a list of `Stage`s. In `fit()`, if a stage matches no layer group, trains nothing
            or does not fit into the run, if `trainable` is changed during the run, or if another callback of this kind
            is used.

    Example:
    ```python
    Stage = keras_transfer.callbacks.Stage
    callback = keras_transfer.callbacks.StagedTraining([Stage("head", epochs=1), Stage("all")])
    ```
    """

    stages: list[Stage]

    @expects(stages=list_of(Rule("a `Stage`", lambda value: isinstance(value, Stage)), 1))
    def __init__(self, stages: Sequence[Stage]) -> None:
        super().__init__(lambda groups: self.stages)
        self.stages = list(stages)

    def get_config(self):
        return {"stages": [keras.saving.serialize_keras_object(stage) for stage in self.stages]}

    @classmethod
    def from_config(cls, config):
        return cls([keras.saving.deserialize_keras_object(stage) for stage in config["stages"]])


class _Planned(Stages):
    """Base class of callbacks with the arguments of their plan. Arguments that are `None` use the plan's defaults."""

    def __init__(self, plan, **arguments):
        given = {name: value for name, value in arguments.items() if value is not None}
        super().__init__(functools.partial(plan, **given))
        self._arguments = arguments

    def get_config(self):
        return dict(self._arguments)


@keras.saving.register_keras_serializable(package="keras_transfer")
class GradualUnfreezing(_Planned):
    """Unfreezes the layer groups one at a time from the head down (Howard and Ruder 2018, ULMFiT).

    The first stage trains the highest layer group and all new ones. Each subsequent stage adds the next lower layer
    group. `StagedTraining` describes what all these methods have in common.

    Args:
        epochs: Integer. Number of epochs between two layer groups. Defaults to `None`.
        steps: Integer. Number of batches between two layer groups. Defaults to `None`.
        fraction: Float. Fraction of the run after which all layer groups train. Defaults to `None`, for `0.5` if
            neither `epochs` nor `steps` is set.
        below: String or integer. Name or depth of the lowest layer group that ever trains. Defaults to `None`, for the
            lowest group of the model.

    Raises:
        ValueError: If a length is out of range, or if more than one is set. In `fit()`, if a stage does not fit into
            the run or trains nothing.

    Example:
    ```python
    callback = keras_transfer.callbacks.GradualUnfreezing(epochs=1, below="block_2")
    ```

    Source: https://arxiv.org/abs/1801.06146, section 3.3.
    """

    def __init__(
        self,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        fraction: float | None = None,
        below: str | int | None = None,
    ) -> None:
        Stage("all", epochs=epochs, steps=steps, fraction=fraction)  # Raises if the lengths are invalid.
        super().__init__(gradual, epochs=epochs, steps=steps, fraction=fraction, below=below)


@keras.saving.register_keras_serializable(package="keras_transfer")
class ChainThaw(_Planned):
    """Trains the new layer groups, then each one alone from the lowest up, then all (Felbo et al. 2017, DeepMoji).

    `StagedTraining` describes what all these methods have in common. DeepMoji's code trains each stage until the
    validation loss stops improving. For this, give each stage a `fit()` of its own.

    Args:
        epochs: Integer. Number of epochs of each stage except for the last one. Defaults to `None`.
        steps: Integer. Number of batches of each stage except for the last one. Defaults to `None`.
        fraction: Float. Fraction of the run before all layer groups train. Defaults to `None`, for `0.75` if neither
            `epochs` nor `steps` is set.

    Raises:
        ValueError: If a length is out of range, or if more than one is set. In `fit()`, if a stage does not fit into
            the run or trains nothing.

    Example:
    ```python
    callback = keras_transfer.callbacks.ChainThaw(epochs=1)
    ```

    Source: https://arxiv.org/abs/1708.00524, section 3.3.
    """

    def __init__(self, *, epochs: int | None = None, steps: int | None = None, fraction: float | None = None) -> None:
        Stage("all", epochs=epochs, steps=steps, fraction=fraction)  # Raises if the lengths are invalid.
        super().__init__(chain_thaw, epochs=epochs, steps=steps, fraction=fraction)


@keras.saving.register_keras_serializable(package="keras_transfer")
class SequentialUnfreezing(_Planned):
    """Trains the new layer groups first, then all but the embeddings, then all (Chronopoulou et al. 2019).

    `StagedTraining` describes what all these methods have in common.

    Args:
        new_epochs: Integer. Number of epochs in which only new weights train. Defaults to `1`.
        body_epochs: Integer. Number of epochs after that in which all but the embeddings train. Defaults to `1`.

    Raises:
        ValueError: If a number of epochs is not a positive integer. In `fit()`, if a stage does not fit into the run or
            trains nothing.

    Example:
    ```python
    callback = keras_transfer.callbacks.SequentialUnfreezing(new_epochs=1, body_epochs=2)
    ```

    Source: https://arxiv.org/abs/1902.10547, section 3.
    """

    @expects(new_epochs=LENGTH, body_epochs=LENGTH)
    def __init__(self, *, new_epochs: int = 1, body_epochs: int = 1) -> None:
        super().__init__(sequential, new_epochs=new_epochs, body_epochs=body_epochs)


class LinearProbe(_Planned):
    """Trains the new layer groups, then all with an optimizer and a schedule that begin again (LP-FT), for a recipe."""

    restarts = True

    def __init__(self, *, learning_rate, fraction=None):
        super().__init__(linear_probe, learning_rate=learning_rate, fraction=fraction)
