"""Stages of a run, described by layer groups, and the steps at which they begin."""

import dataclasses
import itertools
import logging
import math

import keras

from keras_transfer.groups import layer_groups, select_groups, selection_for_config
from keras_transfer.keras_internals import accumulation_steps
from keras_transfer.training.optimizers import is_number
from keras_transfer.training.runs.stages import PlacedStage, StagedFit

log = logging.getLogger("keras_transfer")


@keras.saving.register_keras_serializable("keras_transfer")
@dataclasses.dataclass
class Stage:
    """A part of a run in which only certain layer groups train.

    Args:
        train: String, integer or list. The layer groups that train, in any form that `select_groups` takes.
        epochs: Integer. Length of the stage in epochs. Defaults to `None`.
        steps: Integer. Length of the stage in batches. Defaults to `None`.
        fraction: Float. Length of the stage as a fraction of the run. Defaults to `None`. Stages without a length share
            the rest of the run evenly. The last stage always lasts until the end of the run.
        learning_rate: Float or `LearningRateSchedule`. Learning rate of the optimizer in this stage. During the stage,
            callbacks such as `LearningRateScheduler` have no effect. A schedule counts the optimizer's steps, which
            `fresh_optimizer` restarts. Defaults to `None`, the optimizer's own learning rate.
        fresh_optimizer: Boolean. Whether the optimizer begins the stage in the state of a new one, without moments and
            at step 0, so that its schedule starts again. The start values of a penalty remain. Defaults to `False`.
        patience: Integer. Number of epochs without improvement of `monitor` after which the stage ends, as with
            `EarlyStopping`. Then the next stage begins, or the run ends if this is the last stage. Defaults to `None`.
        restore_best: Boolean. Whether the stage ends with the weights of its best epoch. Defaults to `False`.
        monitor: String. Name of the metric for `patience` and `restore_best`. Defaults to `"val_loss"`.

    Raises:
        ValueError: If more than one length is given, or an argument is out of range.

    Example:
    ```python
    stage = keras_transfer.adaptation.Stage("head", epochs=1)
    until_best = keras_transfer.adaptation.Stage("all", learning_rate=1e-4, patience=2, restore_best=True)
    ```
    """

    train: str | int | list
    epochs: int | None = None
    steps: int | None = None
    fraction: float | None = None
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | None = None
    fresh_optimizer: bool = False
    patience: int | None = None
    restore_best: bool = False
    monitor: str = "val_loss"

    def __post_init__(self):
        lengths = {"epochs": self.epochs, "steps": self.steps, "fraction": self.fraction}
        given = {name: length for name, length in lengths.items() if length is not None}
        if len(given) > 1:
            raise ValueError(f"Only one of `epochs`, `steps` and `fraction` can be set. Received: {given}")
        for name, length in given.items():
            check_length(name, length)
        if self.patience is not None:
            check_length("patience", self.patience)
        for name in ("fresh_optimizer", "restore_best"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"`{name}` must be a boolean. Received: {name}={getattr(self, name)!r}")
        if not isinstance(self.monitor, str):
            raise ValueError(f"`monitor` must be the name of a metric. Received: monitor={self.monitor!r}")
        rate = self.learning_rate
        is_schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
        if rate is not None and not is_schedule and not (is_number(rate) and 0 <= rate < math.inf):
            raise ValueError(
                "`learning_rate` must be a number of at least 0 or a `LearningRateSchedule`. "
                f"Received: learning_rate={rate!r}"
            )
        self.train = selection_for_config(self.train)

    def get_config(self):
        config = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**config, "learning_rate": keras.saving.serialize_keras_object(self.learning_rate)}

    @classmethod
    def from_config(cls, config):
        rate = keras.saving.deserialize_keras_object(config.get("learning_rate"))
        return cls(**{**config, "learning_rate": rate})


def check_length(name, length):
    """Raises a ValueError if a length is not a positive integer or, for a fraction, not a number in (0, 1]."""
    fraction = name == "fraction"
    if not is_number(length) or not (0 < length <= 1 if fraction else length >= 1 and length % 1 == 0):
        expected = "a float in (0, 1]" if fraction else "a positive integer"
        raise ValueError(f"`{name}` must be {expected}. Received: {length!r}")


class Staging(StagedFit):
    """Base class of the unfreezing methods. A subclass defines `plan`."""

    def plan(self, groups):
        """Returns the list of `Stage`s for the list of layer groups of a model."""
        raise NotImplementedError(f"{type(self).__name__} must define `plan`.")

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def place_stages(self):
        groups, epochs, steps = layer_groups(self.model), self.params.get("epochs") or 1, self.params.get("steps")
        stages = self.plan(groups)
        if steps is None and any(stage.epochs is None and stage.patience is None for stage in stages[:-1]):
            raise ValueError(
                "Stages in steps or fractions require a known number of steps per epoch. Pass `steps_per_epoch` to "
                "`fit()`, or set `epochs`. Received: data of unknown length"
            )
        total = epochs * (steps or 1)
        self._lengths = _lengths(stages, total, steps or 1)
        starts = self._starts()
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
            names = [group.name for group in training]
            options = stage.fresh_optimizer, stage.patience, stage.restore_best, stage.monitor
            placed.append(PlacedStage(start, names, weights, stage.learning_rate, *options))
            frozen |= {group.name: None for group in chosen if group not in training and group.variables}
        if frozen:
            log.warning("These layer groups were frozen before `fit()` and remain frozen: %s", list(frozen))
        known = [start for start in starts if start < math.inf]
        if known[-1] >= total or any(first >= second for first, second in itertools.pairwise(known)):
            raise ValueError(
                f"Each of the {len(stages)} stages must have at least one step within the run. "
                f"Received: {total} {'steps' if steps else 'epochs'}, and stages that begin at {starts}"
            )
        return placed

    def starts_after(self, stage, place):
        self._lengths[stage] = place - sum(self._lengths[:stage])
        return self._starts()

    def _starts(self):
        sums = [sum(self._lengths[:number]) for number in range(len(self._lengths))]
        return [start if start == math.inf else self._next_possible(round(start)) for start in sums]

    def _next_possible(self, start):
        """Returns the first step, at or after `start`, at which a stage can begin."""
        steps = self.params.get("steps")
        if steps is None:
            return start
        accumulated = accumulation_steps(self.model.optimizer)  # Accumulated gradients belong to one stage.
        together = self.model.steps_per_execution  # Keras calls no callback between these steps.
        while start % accumulated or start % steps % together:
            start += 1
        return start


def _lengths(stages, total, steps_per_epoch):
    """Returns the length of each stage in steps, which is infinite if the stage lasts until nothing improves."""
    lengths = []
    for stage in stages:
        if stage.epochs is not None:
            lengths.append(stage.epochs * steps_per_epoch)
        elif stage.steps is None and stage.fraction is None and stage.patience is not None:
            lengths.append(math.inf)
        else:
            lengths.append(stage.steps if stage.fraction is None else stage.fraction * total)
    known = sum(length for length in lengths if length is not None)
    if known == math.inf and None in lengths[:-1]:
        raise ValueError(
            "Stages beside one that has `patience` and no length cannot divide what remains. Set their `epochs`. "
            f"Received: {stages[lengths.index(None)]}"
        )
    rest = max(total - known, 0)
    return [rest / lengths.count(None) if length is None else length for length in lengths]
