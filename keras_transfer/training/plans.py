"""Plans of a run: gradual unfreezing, chain-thaw, sequential unfreezing and custom stages."""

from collections.abc import Sequence

import keras

from keras_transfer.core.expect import Rule, expects, list_of
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.training.groups import depth_in
from keras_transfer.training.stages import COUNT, Stage, Stages


@keras.saving.register_keras_serializable(package="keras_transfer")
class StagedTraining(SavedByArguments, Stages):
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

    @expects(stages=list_of(Rule("a `Stage`", lambda value: isinstance(value, Stage)), 1))
    def __init__(self, stages: Sequence[Stage]) -> None:
        super().__init__()
        self.stages = list(stages)

    def plan(self, groups):
        return self.stages


class _OfEqualLength(SavedByArguments, Stages):
    """Base class of callbacks whose stages have equal lengths, except that the last one lasts until the run ends."""

    def __init__(self, epochs, steps, fraction):
        Stage("all", epochs=epochs, steps=steps, fraction=fraction)  # Raises if the lengths are invalid.
        super().__init__()
        self.epochs, self.steps, self.fraction = epochs, steps, fraction

    def _stages_that_train(self, selections, fraction):
        """Returns the stages that train these layer groups, by default in a fraction of the run before the last one."""
        if self.epochs is None and self.steps is None:
            share = (self.fraction or fraction) / max(len(selections) - 1, 1)
            return [Stage(train, fraction=share) for train in selections]
        return [Stage(train, epochs=self.epochs, steps=self.steps) for train in selections]


@keras.saving.register_keras_serializable(package="keras_transfer")
class GradualUnfreezing(_OfEqualLength):
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

    @expects()
    def __init__(
        self,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        fraction: float | None = None,
        below: str | int | None = None,
    ) -> None:
        super().__init__(epochs, steps, fraction)
        self.below = below

    def plan(self, groups):
        lowest, highest = 0 if self.below is None else depth_in(groups, self.below), groups[-1].depth
        first = {group.depth for group in groups if not group.pretrained and group.depth >= lowest} | {highest}
        others = [depth for depth in range(highest, lowest - 1, -1) if depth not in first]
        trained = [sorted({*first, *others[:count]}) for count in range(len(others) + 1)]
        return self._stages_that_train(trained, 0.5)


@keras.saving.register_keras_serializable(package="keras_transfer")
class ChainThaw(_OfEqualLength):
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

    @expects()
    def __init__(self, *, epochs: int | None = None, steps: int | None = None, fraction: float | None = None) -> None:
        super().__init__(epochs, steps, fraction)

    def plan(self, groups):
        new = _new(groups)
        others = [[group.depth] for group in groups if group.depth not in new]
        return self._stages_that_train([new, *others, "all"], 0.75)


@keras.saving.register_keras_serializable(package="keras_transfer")
class SequentialUnfreezing(SavedByArguments, Stages):
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

    @expects(new_epochs=COUNT, body_epochs=COUNT)
    def __init__(self, *, new_epochs: int = 1, body_epochs: int = 1) -> None:
        super().__init__()
        self.new_epochs, self.body_epochs = new_epochs, body_epochs

    def plan(self, groups):
        body = [group.depth for group in groups if group.kind != "embeddings"]
        return [Stage(_new(groups), epochs=self.new_epochs), Stage(body, epochs=self.body_epochs), Stage("all")]


class LinearProbe(Stages):
    """Trains the new layer groups, then all with an optimizer and a schedule that begin again (LP-FT), for a recipe."""

    restarts = True

    def __init__(self, *, learning_rate, fraction=0.5):
        super().__init__()
        self.probe = Stage("new", fraction=fraction, learning_rate=learning_rate)

    def plan(self, groups):
        return [self.probe, Stage("all")]


def _new(groups):
    """Returns the depths of the layer groups that are not pretrained, or of the highest group if all are pretrained."""
    return [group.depth for group in groups if not group.pretrained] or [groups[-1].depth]
