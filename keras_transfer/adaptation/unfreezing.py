"""Plans of which groups train when, inside one `fit`: gradual unfreezing, chain-thaw, sequential unfreezing, or any."""

import dataclasses

import keras

from keras_transfer.adaptation.rates import is_number
from keras_transfer.adaptation.selection import depth_of
from keras_transfer.adaptation.staging import Staging


@keras.saving.register_keras_serializable("keras_transfer")
@dataclasses.dataclass
class Stage:
    """A part of a run in which certain groups of the ladder train, and no others.

    Args:
        train: what `select_groups` takes: a name, a depth, a regular expression, `"new"`, `"all"`, or a list of them.
        epochs: int, how many epochs it lasts.
        steps: int, how many batches it lasts.
        share: float, what share of the whole run it lasts. With none of the three the stage lasts for its part of what
            the others leave; if all say how long, the last one lasts to the end.

    Example:
    ```python
    stage = keras_transfer.adaptation.Stage("head", epochs=1)
    ```
    """

    train: str | int | list
    epochs: int | None = None
    steps: int | None = None
    share: float | None = None

    def __post_init__(self):
        lengths = {"epochs": self.epochs, "steps": self.steps, "share": self.share}
        given = {name: length for name, length in lengths.items() if length is not None}
        if len(given) > 1:
            raise ValueError(f"a stage lasts for `epochs`, `steps` or a `share`. Received: {given}")
        for name, length in given.items():
            _check_length(name, length)
        if isinstance(self.train, (set, tuple)):
            self.train = list(self.train)  # what a config can hold

    def get_config(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _check_length(name, length):
    number = is_number(length)
    if not number or not (0 < length <= 1 if name == "share" else length >= 1 and length % 1 == 0):
        wanted = "in (0, 1]" if name == "share" else "a whole number above 0"
        raise ValueError(f"`{name}` must be {wanted}. Received: {length!r}")


@keras.saving.register_keras_serializable("keras_transfer")
class StagedTraining(Staging):
    """Trains the groups of the ladder by a plan: each stage those it names, and no others.

    Works in plain `fit`, under any Keras optimizer and backend. What trains is a function of the step alone, so that
    a run that goes on from a checkpoint trains what it would have. Frozen groups below all that train cost no backward
    pass, and their statistics (of batch normalisation) rest. The optimizer keeps the moments of what is frozen for a
    while; with `LayerwiseOptimizer` a group that begins late also begins at the right pace. A weight that was frozen
    before `fit` stays so.

    Only the steps know of stages. Between them, and after `fit`, however it ends, the model is as it was before: its
    files, `trainable_summary` and other callbacks see all that trains in the end.

    A stage begins with a batch; with `steps_per_execution` or gradients gathered over several batches with the first of
    those. A new stage makes Keras trace its step anew, which takes seconds.

    Args:
        stages: list of `Stage`.

    Raises:
        ValueError: when built, if there are no stages; in `fit`, if a stage names no group, trains nothing, or would
            begin after the run's end; if its groups train in no other way; if another object stages this `fit`.

    Example:
    ```python
    Stage = keras_transfer.adaptation.Stage
    callback = keras_transfer.adaptation.StagedTraining([Stage("head", epochs=1), Stage("all")])
    ```
    """

    def __init__(self, stages):
        super().__init__()
        given = isinstance(stages, (list, tuple)) and len(stages) > 0
        if not given or not all(isinstance(stage, Stage) for stage in stages):
            raise ValueError(f"`stages` must be a list of `Stage`s. Received: {stages!r}")
        self.stages = list(stages)

    def plan(self, ladder):
        return self.stages

    def get_config(self):
        return {"stages": [keras.saving.serialize_keras_object(stage) for stage in self.stages]}

    @classmethod
    def from_config(cls, config):
        return cls([keras.saving.deserialize_keras_object(stage) for stage in config["stages"]])


class _EvenStaging(Staging):
    """Stages that each last `epochs` or `steps`, or an even part of a `share` of the run; the last one to the end."""

    usual_share = None  # where nothing is said

    def __init__(self, epochs, steps, share):
        super().__init__()
        Stage("all", epochs, steps, share)  # complains about lengths that are none, and about two of them
        self.epochs, self.steps, self.share = epochs, steps, share

    def _stages(self, selections):
        if self.epochs is None and self.steps is None:
            share = (self.share or self.usual_share) / max(len(selections) - 1, 1)
            return [Stage(train, share=share) for train in selections]
        return [Stage(train, self.epochs, self.steps) for train in selections]

    def get_config(self):
        return {"epochs": self.epochs, "steps": self.steps, "share": self.share}


@keras.saving.register_keras_serializable("keras_transfer")
class GradualUnfreezing(_EvenStaging):
    """Thaws the groups one by one from the head down (Howard and Ruder 2018, ULMFiT).

    The first stage trains the top group and all that is new; each further one also trains the next lower group. All
    that is said of `StagedTraining` holds.

    Args:
        epochs: int, epochs from one group to the next.
        steps: int, batches from one group to the next.
        share: float, all groups train after this share of the run, thawed in even steps; 0.5 where none of the three is
            given.
        down_to: name or depth of the lowest group that ever trains; None for all.

    Raises:
        ValueError: as `StagedTraining`.

    Example:
    ```python
    callback = keras_transfer.adaptation.GradualUnfreezing(epochs=1, down_to="block_2")
    ```

    Source: https://arxiv.org/abs/1801.06146, section 3.3.
    """

    usual_share = 0.5

    def __init__(self, epochs=None, steps=None, share=None, down_to=None):
        super().__init__(epochs, steps, share)
        self.down_to = down_to

    def plan(self, ladder):
        lowest = 0 if self.down_to is None else depth_of(self.model, self.down_to)
        new = {group.depth for group in ladder if not group.pretrained and group.depth >= lowest}
        thawed = new | {len(ladder) - 1}
        selections = [sorted(thawed)]
        for depth in reversed(range(lowest, len(ladder))):
            if depth not in thawed:
                thawed = thawed | {depth}
                selections.append(sorted(thawed))
        return self._stages(selections)

    def get_config(self):
        return {**super().get_config(), "down_to": self.down_to}


@keras.saving.register_keras_serializable("keras_transfer")
class ChainThaw(_EvenStaging):
    """Trains what is new, then each group alone from the lowest up, then all (Felbo et al. 2017, DeepMoji).

    All that is said of `StagedTraining` holds.

    Args:
        epochs: int, epochs of each stage before the last.
        steps: int, batches of each stage before the last.
        share: float, the share of the run before all train, in even stages; 0.75 where none of the three is given.

    Raises:
        ValueError: as `StagedTraining`.

    Example:
    ```python
    callback = keras_transfer.adaptation.ChainThaw(epochs=1)
    ```

    Source: https://arxiv.org/abs/1708.00524, section 3.3.
    """

    usual_share = 0.75

    def __init__(self, epochs=None, steps=None, share=None):
        super().__init__(epochs, steps, share)

    def plan(self, ladder):
        new = [group.depth for group in ladder if not group.pretrained] or [len(ladder) - 1]
        others = [[group.depth] for group in ladder if group.depth not in new]
        return self._stages([new, *others, [group.depth for group in ladder]])


@keras.saving.register_keras_serializable("keras_transfer")
class SequentialUnfreezing(Staging):
    """Trains what is new for some epochs, then all but the embeddings, then all (Chronopoulou et al. 2019).

    All that is said of `StagedTraining` holds.

    Args:
        new_epochs: int, epochs in which only the new weights train.
        body_epochs: int, epochs after these in which all but the embeddings train.

    Raises:
        ValueError: as `StagedTraining`.

    Example:
    ```python
    callback = keras_transfer.adaptation.SequentialUnfreezing(new_epochs=1, body_epochs=2)
    ```

    Source: https://arxiv.org/abs/1902.10547, section 3.
    """

    def __init__(self, new_epochs=1, body_epochs=1):
        super().__init__()
        _check_length("new_epochs", new_epochs)
        _check_length("body_epochs", body_epochs)
        self.new_epochs, self.body_epochs = new_epochs, body_epochs

    def plan(self, ladder):
        new = [group.depth for group in ladder if not group.pretrained] or [len(ladder) - 1]
        body = [group.depth for group in ladder if group.kind != "embeddings"]
        return [Stage(new, epochs=self.new_epochs), Stage(body, epochs=self.body_epochs), Stage("all")]

    def get_config(self):
        return {"new_epochs": self.new_epochs, "body_epochs": self.body_epochs}
