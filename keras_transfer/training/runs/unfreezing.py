"""Methods that decide which layer groups train when: gradual unfreezing, chain-thaw, sequential or custom stages."""

import keras

from keras_transfer.groups import depth_of
from keras_transfer.training.runs.staging import Stage, Staging, check_length


@keras.saving.register_keras_serializable("keras_transfer")
class StagedTraining(Staging):
    """Trains only certain layer groups in each stage of a run.

    The callback works in plain `fit()`, with any Keras optimizer and backend. Which weights train depends only on the
    step, so a resumed run trains the same weights as an uninterrupted run. (Stages with `patience` or `restore_best`
    also depend on the epochs that this `fit()` has seen.) Frozen layer groups below all trainable ones need no backward
    pass, and their statistics (batch normalization) do not change. The optimizer keeps the slots of frozen weights.
    With `LayerwiseOptimizer`, a layer group that begins to train late also takes first steps of the right size. Weights
    that were frozen before `fit()` remain frozen.

    Weights are frozen only inside the steps. Between steps, and after `fit()` ends for any reason, every `trainable`
    flag has its value from before `fit()`. Files written during a stage contain these flags and the whole optimizer.

    A stage can begin only with the first of `steps_per_execution` batches, and with the first of the batches that
    accumulate one gradient. Keras traces the step again in each new stage, which takes seconds.

    With `Stage(learning_rate=..., fresh_optimizer=True, patience=..., restore_best=True)`, a stage is like a separate
    run. This makes it possible to use chain-thaw as in DeepMoji's code (Felbo et al. 2017), linear probing followed by
    fine-tuning (LP-FT), and a schedule that begins again in each stage.

    Args:
        stages: List of `Stage`s.

    Raises:
        ValueError: If `stages` is not a list of `Stage`s. In `fit()`, if a stage matches no layer group, trains nothing
            or does not fit into the run, if the metric that it monitors is missing, if `trainable` is changed during
            the run, or if another callback of this kind is used.

    Example:
    ```python
    Stage = keras_transfer.adaptation.Stage
    callback = keras_transfer.adaptation.StagedTraining([Stage("head", epochs=1), Stage("all")])
    probe_then_tune = keras_transfer.adaptation.StagedTraining(
        [Stage("new", patience=2, restore_best=True), Stage("all", learning_rate=1e-5, fresh_optimizer=True)]
    )
    ```

    Source: https://arxiv.org/abs/2202.10054 (LP-FT).
    """

    def __init__(self, stages):
        super().__init__()
        if not isinstance(stages, (list, tuple)) or not stages or not all(isinstance(part, Stage) for part in stages):
            raise ValueError(f"`stages` must be a non-empty list of `Stage`s. Received: {stages!r}")
        self.stages = list(stages)

    def plan(self, groups):
        return self.stages

    def get_config(self):
        return {"stages": [keras.saving.serialize_keras_object(stage) for stage in self.stages]}

    @classmethod
    def from_config(cls, config):
        return cls([keras.saving.deserialize_keras_object(stage) for stage in config["stages"]])


class _EvenStaging(Staging):
    """Base class of methods whose stages have equal lengths, except that the last one lasts until the run ends."""

    default_fraction = None

    def __init__(self, epochs=None, steps=None, fraction=None):
        super().__init__()
        Stage("all", epochs, steps, fraction)  # raises if these are invalid
        self.epochs, self.steps, self.fraction = epochs, steps, fraction

    def _stages(self, selections):
        if self.epochs is None and self.steps is None:
            fraction = (self.fraction or self.default_fraction) / max(len(selections) - 1, 1)
            return [Stage(train, fraction=fraction) for train in selections]
        return [Stage(train, self.epochs, self.steps) for train in selections]

    def get_config(self):
        return {"epochs": self.epochs, "steps": self.steps, "fraction": self.fraction}


@keras.saving.register_keras_serializable("keras_transfer")
class GradualUnfreezing(_EvenStaging):
    """Unfreezes the layer groups one by one from the head down (Howard and Ruder 2018, ULMFiT).

    The first stage trains the highest layer group and all new ones. Each further stage adds the next lower layer group.
    `StagedTraining` describes what all methods have in common.

    Args:
        epochs: Integer. Number of epochs from one layer group to the next. Defaults to `None`.
        steps: Integer. Number of batches from one layer group to the next. Defaults to `None`.
        fraction: Float. Fraction of the run after which all layer groups train. Defaults to `0.5` if neither `epochs`
            nor `steps` is set.
        down_to: String or integer. Name or depth of the lowest layer group that ever trains. Defaults to `None` for
            all.

    Raises:
        ValueError: If a length is out of range, or more than one is set. In `fit()`, as for `StagedTraining`.

    Example:
    ```python
    callback = keras_transfer.adaptation.GradualUnfreezing(epochs=1, down_to="block_2")
    ```

    Source: https://arxiv.org/abs/1801.06146, section 3.3.
    """

    default_fraction = 0.5

    def __init__(self, epochs=None, steps=None, fraction=None, down_to=None):
        super().__init__(epochs, steps, fraction)
        self.down_to = down_to

    def plan(self, groups):
        lowest = 0 if self.down_to is None else depth_of(self.model, self.down_to)
        first = {group.depth for group in groups if not group.pretrained and group.depth >= lowest} | {len(groups) - 1}
        others = [depth for depth in reversed(range(lowest, len(groups))) if depth not in first]
        return self._stages([sorted({*first, *others[:count]}) for count in range(len(others) + 1)])

    def get_config(self):
        return {**super().get_config(), "down_to": self.down_to}


@keras.saving.register_keras_serializable("keras_transfer")
class ChainThaw(_EvenStaging):
    """Trains the new layer groups, then each one alone from the lowest up, then all (Felbo et al. 2017, DeepMoji).

    `StagedTraining` describes what all methods have in common.

    Args:
        epochs: Integer. Number of epochs of each stage except the last one. Defaults to `None`.
        steps: Integer. Number of batches of each stage except the last one. Defaults to `None`.
        fraction: Float. Fraction of the run before all layer groups train. Defaults to `0.75` if neither `epochs` nor
            `steps` is set.

    Raises:
        ValueError: If a length is out of range, or more than one is set. In `fit()`, as for `StagedTraining`.

    Example:
    ```python
    callback = keras_transfer.adaptation.ChainThaw(epochs=1)
    ```

    Source: https://arxiv.org/abs/1708.00524, section 3.3.
    """

    default_fraction = 0.75

    def plan(self, groups):
        new = _new(groups)
        others = [[group.depth] for group in groups if group.depth not in new]
        return self._stages([new, *others, "all"])


@keras.saving.register_keras_serializable("keras_transfer")
class SequentialUnfreezing(Staging):
    """Trains the new layer groups first, then all but the embeddings, then all (Chronopoulou et al. 2019).

    `StagedTraining` describes what all methods have in common.

    Args:
        new_epochs: Integer. Number of epochs in which only new weights train. Defaults to `1`.
        body_epochs: Integer. Number of epochs after these in which all but the embeddings train. Defaults to `1`.

    Raises:
        ValueError: If a number of epochs is not a positive integer. In `fit()`, as for `StagedTraining`.

    Example:
    ```python
    callback = keras_transfer.adaptation.SequentialUnfreezing(new_epochs=1, body_epochs=2)
    ```

    Source: https://arxiv.org/abs/1902.10547, section 3.
    """

    def __init__(self, new_epochs=1, body_epochs=1):
        super().__init__()
        check_length("new_epochs", new_epochs)
        check_length("body_epochs", body_epochs)
        self.new_epochs, self.body_epochs = new_epochs, body_epochs

    def plan(self, groups):
        body = [group.depth for group in groups if group.kind != "embeddings"]
        return [Stage(_new(groups), self.new_epochs), Stage(body, self.body_epochs), Stage("all")]

    def get_config(self):
        return {"new_epochs": self.new_epochs, "body_epochs": self.body_epochs}


def _new(groups):
    """Returns the depths of the layer groups that are not pretrained, or of the highest group if all are pretrained."""
    return [group.depth for group in groups if not group.pretrained] or [len(groups) - 1]
