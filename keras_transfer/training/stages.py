"""Stages of a run, in each of which some layer groups train and the others are frozen."""

import bisect
import contextlib
import dataclasses
import itertools
import logging

import keras

from keras_transfer.core.expect import Rule, expect, expects, integer, number
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.keras_internals import accumulation_steps, optimizers, remember_trainable, set_trainable
from keras_transfer.training.building import build_optimizer, restart_optimizer
from keras_transfer.training.groups import layer_groups, select_groups, selection_for_config
from keras_transfer.training.progress import RunCallback, sync
from keras_transfer.training.schedules import or_schedule
from keras_transfer.training.stage_plot import plot_stages

log = logging.getLogger("keras_transfer")
COUNT = Rule(
    "a positive integer",
    lambda value: number(1).is_met(value) and value == int(value),  # `steps=1e5`, too
    (0, 1.5, "1", True),
    convert=int,
)


@keras.saving.register_keras_serializable(package="keras_transfer")
@expects(epochs=COUNT, steps=COUNT, fraction=number(most=1, above=0), learning_rate=or_schedule(number(0)))
@dataclasses.dataclass
class Stage(SavedByArguments):
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
        expect(len(given) < 2, "Pass only one of `epochs`, `steps` and `fraction`.", **given)
        self.train = selection_for_config(self.train)


@dataclasses.dataclass
class PlannedStage:
    """A stage of a particular run: its first step, the names and weights of its layer groups, and its learning rate."""

    start: int
    names: list
    weights: list
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | None


def plan_run(model, stages, optimizer, epochs, steps):
    """Returns the stages of a run as `PlannedStage`s.

    Args:
        model: Built model.
        stages: List of `Stage`s.
        optimizer: Optimizer that trains the model.
        epochs: Integer. Number of epochs of the run.
        steps: Integer. Number of steps of an epoch. `None` if it is unknown, and the stages begin with epochs.
    """
    if steps is None and any(stage.epochs is None for stage in stages[:-1]):
        raise ValueError(
            "Stages in steps or fractions require a known number of steps per epoch. Pass `steps_per_epoch` to "
            "`fit()`, or set `epochs`. Received: data of unknown length"
        )
    groups, total = layer_groups(model), epochs * (steps or 1)
    lengths = stage_lengths(stages, total, steps or 1)
    together = model.steps_per_execution  # Keras calls no callback between these steps.
    accumulated = accumulation_steps(optimizer)  # Accumulated gradients belong to one stage.
    trainable = {id(weight) for weight in model.trainable_weights}
    planned, frozen = [], {}
    for place, stage in enumerate(stages):
        chosen = select_groups(groups, stage.train)
        training = [group for group in chosen if any(id(weight) in trainable for weight in group.variables)]
        if not training:
            raise ValueError(
                f"Stage {place + 1} of {len(stages)} trains nothing. Unfreeze its layer groups before `fit()`. "
                f"Received: {[group.name for group in chosen]}, which are all frozen"
            )
        start = round(sum(lengths[:place]))
        while steps is not None and (start % accumulated or start % steps % together):
            start += 1  # A stage cannot begin there.
        names, weights = [group.name for group in training], [each for group in training for each in group.variables]
        planned.append(PlannedStage(start, names, weights, stage.learning_rate))
        frozen |= {group.name: None for group in chosen if group not in training and group.variables}
    if frozen:
        log.warning("These layer groups were frozen before `fit()` and remain frozen: %s", list(frozen))
    starts = [stage.start for stage in planned]
    if starts[-1] >= total or any(first >= second for first, second in itertools.pairwise(starts)):
        raise ValueError(
            f"Each of the {len(stages)} stages must have at least one step within the run. Use more `epochs` or a "
            f"smaller `batch_size`. Received: {total} {'steps' if steps else 'epochs'}, and stages that begin at "
            f"{starts}"
        )
    return planned


def stage_lengths(stages, total, steps_per_epoch):
    """Returns the length of each stage in steps."""
    units = {"epochs": steps_per_epoch, "steps": 1, "fraction": total}
    given = [[getattr(stage, name) * unit for name, unit in units.items() if getattr(stage, name)] for stage in stages]
    rest = max(total - sum(map(sum, given)), 0)
    return [length[0] if length else rest / given.count([]) for length in given]


class Stages(RunCallback):
    """Base class of callbacks that train only some layer groups in each stage. `StagedTraining` describes them.

    A subclass defines the stages in `plan`. Positions in the run are numbers of steps, or of epochs if the number of
    steps is unknown.

    Attributes:
        stage: Integer. The number of the current stage, counted from 0. `None` outside `fit` and before the first step.
        schedule: List of `(first step, names of the layer groups that train)`, set when `fit` begins. It contains first
            epochs if the number of steps is unknown.
        restarts: Boolean. Whether the optimizer and its schedule begin again with each stage after the first.
    """

    restarts = False

    def __init__(self):
        super().__init__()
        self.stage, self.schedule, self._planned = None, [], []
        self._fitted = self._undo = None

    def plan(self, groups):
        """Returns the stages of a run.

        Args:
            groups: `LayerGroups` of the model.

        Returns:
            List of `Stage`s.
        """
        raise NotImplementedError

    # === The run ===

    def on_train_begin(self, logs=None):
        self.close()
        self._decide()
        model, self._rebuilt = self.model, False
        epochs, steps = self.params.get("epochs") or 1, self.params.get("steps")
        self._planned = plan_run(model, self.plan(layer_groups(model)), model.optimizer, epochs, steps)
        self.schedule = [(stage.start, stage.names) for stage in self._planned]
        build_optimizer(model)
        optimizers.selection(model.optimizer, model.trainable_variables)  # Raises if slots are missing.
        self._flags, self._unfreeze = _flags_of(model), remember_trainable(model)
        if self.restarts:
            self.progress.restarts = True

    def _decide(self):
        """Makes this the only callback that decides which weights of the model train."""
        model, other = self.model, getattr(self.model, "deciding", None)
        if other is not None and other is not self:
            rule = "Only one callback can decide which weights train. Combine the stages in one `StagedTraining`."
            # All callbacks of a `fit` share this dict.
            expect(other.params is not self.params, rule, callbacks=[type(other).__name__, type(self).__name__])
            other.close()  # An earlier `fit` failed.
        model.deciding = self
        self._fitted = model  # On JAX, `self.model` copies all weights out of a running `fit`.

    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_begin(batch)
        epoch, steps = self.progress.epoch, self.progress.steps
        place = epoch if steps is None else epoch * steps + self.progress.first + batch
        number = self._stage_at(place)
        if number != self.stage:
            self._leave()
            self._begin(number, place)
        if self._undo is None:
            self._enter()

    def on_epoch_end(self, epoch, logs=None):
        self._leave()

    def on_train_end(self, logs=None):
        later = [] if self.stage is None else [names for _, names in self.schedule[self.stage + 1 :]]
        if later:
            log.warning(
                "The run ended before these stages began. Use more `epochs`, or more patience if it stops early: %s",
                later,
            )
        self.close()

    def close(self):
        model = self._fitted
        if model is None:
            return
        self._take_back()
        if self._rebuilt:
            model.train_function = None  # It trains the weights of the last stage.
        if getattr(model, "deciding", None) is self:
            model.deciding = None
        self.stage = self._fitted = None

    def _stage_at(self, place):
        """Returns the stage of a step, or of the first step whose gradient is accumulated together with this one."""
        stage = self._begun_at(place)
        model = self._fitted
        accumulated, together = accumulation_steps(model.optimizer), model.steps_per_execution
        near = place - self._planned[stage].start < accumulated * together
        if stage == 0 or accumulated == 1 or not near or self.params.get("steps") is None:
            return stage
        sync(model)
        count = optimizers.batch_count(model.optimizer)
        for back in range(0, accumulated * together, together):
            if (count - back) % accumulated == 0:
                return max(self._begun_at(place - back), 0)
        raise ValueError(
            "A stage must begin with the first batch of an accumulated gradient. Use the same number for "
            f"`steps_per_execution` and `gradient_accumulation_steps`. Received: {together} and {accumulated}, after "
            f"{count} batches"
        )

    def _begun_at(self, place):
        return bisect.bisect_right(self._planned, place, key=lambda stage: stage.start) - 1

    # === One stage ===

    def _begin(self, number, place):
        """Prepares the optimizer and the functions of Keras for another stage."""
        model = self._fitted
        if self.stage is None:
            begun = {id(weight) for stage in self._planned[: number + 1] for weight in stage.weights}
            later = [weight for weight in model.trainable_variables if id(weight) not in begun]
            optimizers.start_averages(model.optimizer, later)
        else:
            optimizers.forget_gradients(model.optimizer)
        if self.restarts and number and (self.stage is not None or place == self._planned[number].start):
            restart_optimizer(model)
        self.stage = number
        self._enter()
        model.make_train_function(force=True)
        if keras.backend.backend() == "jax":  # These were compiled for the weights that trained before.
            model.test_function = model.predict_function = None
        self._rebuilt = True

    def _enter(self):
        """Freezes the weights that the stage does not train, and sets its learning rate, until `_take_back`."""
        model, stage = self._fitted, self._planned[self.stage]
        optimizer, own = model.optimizer, {id(weight) for weight in stage.weights}
        self._check_flags()
        sync(model)  # Keras on JAX divides its state by the flags.
        self._undo = contextlib.ExitStack()
        self._undo.callback(optimizers.update, optimizers.updated_by(optimizer))
        self._undo.callback(self._unfreeze)
        self._undo.callback(optimizers.set_learning_rate(optimizer, stage.learning_rate))
        set_trainable(model, [weight for weight in model.trainable_weights if id(weight) in own])
        self._flags = _flags_of(model)
        optimizers.update(optimizers.selection(optimizer, model.trainable_variables))

    def _leave(self):
        """Ends a stage, or the part of it in an epoch."""
        if self._undo is not None:
            self._check_flags()
            sync(self._fitted)
            self._take_back()

    def _take_back(self):
        """Reverts the changes of `_enter`."""
        if self._undo is not None:
            self._undo.close()
            self._flags, self._undo = _flags_of(self._fitted), None

    def _check_flags(self):
        model = self._fitted
        if self._flags != _flags_of(model):
            for weight, trains in zip(model.weights, self._flags):
                weight.trainable = trains  # Keras on JAX has divided its state by these flags.
            sync(model)
            self._unfreeze()
            self.close()
            raise ValueError(
                f"`trainable` was changed during `fit()`, but {type(self).__name__} manages it. All `trainable` flags "
                "from before `fit()` are restored. Change them between two calls of `fit()`."
            )

    # === Its picture ===

    @expects(steps_per_epoch=integer(1), epochs=integer(1))
    def plot(self, model, *, steps_per_epoch, epochs=1, optimizer=None):
        """Plots which layer groups would train in which steps of a run, and at which learning rates.

        Each layer group is a row, the head at the top. It is darker the higher its rate is, on a logarithmic scale, and
        hatched while it is frozen. Nothing is trained, and neither the model nor the callback changes.

        Args:
            model: Built model that `fit()` would train.
            steps_per_epoch: Integer. Number of batches of an epoch.
            epochs: Integer. Number of epochs. Defaults to `1`.
            optimizer: Optimizer with the rates, such as a `LayerwiseOptimizer`. Defaults to `None`, the optimizer with
                which `model` is compiled.

        Returns:
            A `matplotlib.figure.Figure`. A notebook displays it. To save it, call `figure.savefig("stages.png")`.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If an argument is invalid, or if the stages do not fit into the run.

        Example:
        ```python
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2)])
        model.compile(keras_transfer.optimizers.LayerwiseOptimizer("adam", model, decay=1 / 2.6), "mse")
        figure = keras_transfer.callbacks.GradualUnfreezing().plot(model, steps_per_epoch=18, epochs=4)
        ```
        """
        optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
        expect(
            isinstance(optimizer, keras.optimizers.Optimizer),
            "`optimizer` must be a Keras optimizer. Compile the model, or pass one. For a name, pass "
            "`keras.optimizers.get(name)`.",
            optimizer=optimizer,
        )
        groups = layer_groups(model)
        planned = plan_run(model, self.plan(groups), optimizer, epochs, steps_per_epoch)
        return plot_stages(planned, groups, epochs * steps_per_epoch, optimizer, self.restarts)


def _flags_of(model):
    return [weight.trainable for weight in model.weights]
