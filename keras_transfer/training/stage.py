"""A stage of a run: its trainable layer groups, its length, and its learning rate."""

import dataclasses
import math
from typing import Any, Self

import keras

from keras_transfer.training.groups import selection_for_config
from keras_transfer.training.rates import is_number


@keras.saving.register_keras_serializable(package="keras_transfer")
@dataclasses.dataclass
class Stage:
    """A part of a run in which only some layer groups train.

    Args:
        train: String, integer or list. The layer groups to train, in any form that `select_groups` accepts.
        epochs: Integer. Length of the stage in epochs. Defaults to `None`.
        steps: Integer. Length of the stage in batches. Defaults to `None`.
        fraction: Float. Length of the stage as a fraction of the run. Stages without a length share the rest of the run
            evenly. The last stage always lasts until the end of the run. Defaults to `None`.
        learning_rate: Float or `LearningRateSchedule`. Learning rate of the optimizer in this stage. Other callbacks
            cannot change it. A schedule counts the optimizer's steps. Defaults to `None`, the optimizer's own learning
            rate.

    Raises:
        ValueError: If more than one length is given, or an argument is out of range.

    Example:
    ```python
    stage = keras_transfer.callbacks.Stage("head", epochs=1, learning_rate=1e-2)
    ```
    """

    train: str | int | list
    _: dataclasses.KW_ONLY
    epochs: int | None = None
    steps: int | None = None
    fraction: float | None = None
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | None = None

    def __post_init__(self):
        lengths = {"epochs": self.epochs, "steps": self.steps, "fraction": self.fraction}
        given = {name: length for name, length in lengths.items() if length is not None}
        if len(given) > 1:
            raise ValueError(f"Pass only one of `epochs`, `steps` and `fraction`. Received: {given}")
        for name, length in given.items():
            check_length(name, length)
        rate = self.learning_rate
        is_schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
        if rate is not None and not is_schedule and not (is_number(rate) and 0 <= rate < math.inf):
            raise ValueError(
                "`learning_rate` must be a number of at least 0 or a `LearningRateSchedule`. "
                f"Received: learning_rate={rate!r}"
            )
        self.train = selection_for_config(self.train)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the stage.

        Returns:
            Dict of plain values.
        """
        config = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**config, "learning_rate": keras.saving.serialize_keras_object(self.learning_rate)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Returns a stage from its config.

        Args:
            config: Dict that `get_config` returned.

        Returns:
            `Stage`.
        """
        rate = keras.saving.deserialize_keras_object(config.get("learning_rate"))
        return cls(**{**config, "learning_rate": rate})


def check_length(name, length):
    """Raises a ValueError if a length is not a positive integer or, for a fraction, not a number in (0, 1]."""
    fraction = name == "fraction"
    if not is_number(length) or not (0 < length <= 1 if fraction else length >= 1 and length % 1 == 0):
        expected = "a float in (0, 1]" if fraction else "a positive integer"
        raise ValueError(f"`{name}` must be {expected}. Received: {length!r}")


def stage_lengths(stages, total, steps_per_epoch):
    """Returns the length of each stage in steps."""
    lengths = []
    for stage in stages:
        if stage.epochs is not None:
            lengths.append(stage.epochs * steps_per_epoch)
        else:
            lengths.append(stage.steps if stage.fraction is None else stage.fraction * total)
    rest = max(total - sum(length for length in lengths if length is not None), 0)
    return [rest / lengths.count(None) if length is None else length for length in lengths]
