"""Stages of a run, said in layer groups, and the steps in which they begin."""

import dataclasses
import itertools
import logging

import keras

from keras_transfer.adaptation.groups import layer_groups
from keras_transfer.adaptation.rates import is_number
from keras_transfer.adaptation.selection import select_groups
from keras_transfer.training.run_length import accumulation_steps
from keras_transfer.training.stages import PlacedStage, StagedFit

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable("keras_transfer")
@dataclasses.dataclass
class Stage:
    """A part of a run in which only certain layer groups train.

    Args:
        train: String, integer or list. The layer groups that train, in any form that `select_groups` takes.
        epochs: Integer. Length of the stage in epochs. Defaults to `None`.
        steps: Integer. Length of the stage in batches. Defaults to `None`.
        fraction: Float. Length of the stage as a fraction of the run. Defaults to `None`. Stages without a length
            divide evenly what the other stages leave. The last stage always lasts until the end of the run.

    Raises:
        ValueError: If more than one length is given, or a length is out of range.

    Example:
    ```python
    stage = keras_transfer.adaptation.Stage("head", epochs=1)
    ```
    """

    train: str | int | list
    epochs: int | None = None
    steps: int | None = None
    fraction: float | None = None

    def __post_init__(self):
        lengths = {"epochs": self.epochs, "steps": self.steps, "fraction": self.fraction}
        given = {name: length for name, length in lengths.items() if length is not None}
        if len(given) > 1:
            raise ValueError(f"Only one of `epochs`, `steps` and `fraction` can be set. Received: {given}")
        for name, length in given.items():
            check_length(name, length)
        if isinstance(self.train, (set, tuple)):
            self.train = list(self.train)  # a config has no sets and tuples

    def get_config(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def check_length(name, length):
    """Raises a ValueError if a length is not a positive integer or, for a fraction, not a number in (0, 1]."""
    fraction = name == "fraction"
    if not is_number(length) or not (0 < length <= 1 if fraction else length >= 1 and length % 1 == 0):
        expected = "a float in (0, 1]" if fraction else "a positive integer"
        raise ValueError(f"`{name}` must be {expected}. Received: {length!r}")


class Staging(StagedFit):
    """Base of the unfreezing methods: a subclass defines `plan`."""

    def plan(self, groups):
        """Returns the list of `Stage`s for the list of layer groups of a model."""
        raise NotImplementedError(f"{type(self).__name__} must define `plan`.")

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def place_stages(self):
        groups, epochs, steps = layer_groups(self.model), self.params.get("epochs") or 1, self.params.get("steps")
        stages = self.plan(groups)
        if steps is None and any(stage.epochs is None for stage in stages[:-1]):
            raise ValueError(
                "Stages in steps or fractions require a known number of steps per epoch. Pass `steps_per_epoch` to "
                "`fit()`, or set `epochs`. Received: data of unknown length"
            )
        total = epochs * (steps or 1)
        starts = [self._next_possible(start) for start in _starts(stages, total, steps or 1)]
        trainable = {id(weight) for weight in self.model.trainable_weights}
        placed, frozen = [], {}
        for number, (stage, start) in enumerate(zip(stages, starts), 1):
            chosen = select_groups(groups, stage.train)
            training = [group for group in chosen if any(id(weight) in trainable for weight in group.variables)]
            if not training:
                raise ValueError(
                    f"Stage {number} of {len(stages)} trains nothing. Unfreeze its layer groups before `fit()`. "
                    f"Received: {[group.name for group in chosen]}, which are all frozen"
                )
            weights = [weight for group in training for weight in group.variables]
            placed.append(PlacedStage(start, [group.name for group in training], weights))
            frozen |= {group.name: None for group in chosen if group not in training and group.variables}
        if frozen:
            log.warning("These layer groups were frozen before `fit()` and remain frozen: %s", list(frozen))
        if starts[-1] >= total or any(first >= second for first, second in itertools.pairwise(starts)):
            raise ValueError(
                f"Each of the {len(stages)} stages must have at least one step within the run. "
                f"Received: {total} {'steps' if steps else 'epochs'}, and stages that begin at {starts}"
            )
        return placed

    def _next_possible(self, start):
        """The first step from `start` on in which a stage can begin."""
        steps = self.params.get("steps")
        if steps is None:
            return start
        accumulated = accumulation_steps(self.model.optimizer)  # the gradients of these belong to one stage
        together = self.model.steps_per_execution  # Keras calls no callback between these
        epoch, batch = divmod(-(-start // accumulated) * accumulated, steps)
        return epoch * steps + min(-(-batch // together) * together, steps)


def _starts(stages, total, steps_per_epoch):
    """The first step of each stage."""
    lengths = []
    for stage in stages:
        if stage.epochs is not None:
            lengths.append(stage.epochs * steps_per_epoch)
        else:
            lengths.append(stage.steps if stage.fraction is None else stage.fraction * total)
    rest = max(total - sum(length for length in lengths if length is not None), 0)
    lengths = [rest / lengths.count(None) if length is None else length for length in lengths]
    return [round(sum(lengths[:number])) for number in range(len(lengths))]
