"""Stages of a run, in each of which some layer groups train and the others are frozen."""

import bisect
import copy
import dataclasses
import itertools
import logging

import keras
import numpy as np

from keras_transfer.core.expect import Rule, expect, expects, integer, number
from keras_transfer.core.plots import GREY, new_axes
from keras_transfer.core.saved_arguments import SavedByArguments
from keras_transfer.keras_internals import (
    accumulation_steps,
    optimizers,
    remember_trainable,
    set_trainable,
)
from keras_transfer.training.building import build_optimizer, restart_optimizer
from keras_transfer.training.groups import layer_groups, select_groups, selection_for_config
from keras_transfer.training.progress import RunCallback, sync
from keras_transfer.training.rates import rate_of

log = logging.getLogger("keras_transfer")
LENGTH = Rule("a positive integer", lambda value: number(1).is_met(value) and value % 1 == 0, (0, 1.5, "1"))
MOST_COLUMNS = 400  # Longer runs are shown at this number of their steps.


_RATE = Rule(
    "a number at least 0 or a `LearningRateSchedule`",
    lambda value: isinstance(value, keras.optimizers.schedules.LearningRateSchedule) or number(0).is_met(value),
    number(0).wrong,
)


@keras.saving.register_keras_serializable(package="keras_transfer")
@expects(epochs=LENGTH, steps=LENGTH, fraction=number(most=1, above=0), learning_rate=_RATE)
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
        self.stage, self.schedule = None, []
        self._fitted = self._updated = None

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
        self.stage, self._rebuilt = None, False
        self._plan(self.model.optimizer)
        build_optimizer(self.model)
        optimizers.selection(self.model.optimizer, self.model.trainable_variables)  # Raises if slots are missing.
        self._flags = _flags_of(self.model)
        self._restore = remember_trainable(self.model)
        if self.restarts:
            self.progress.restarts = True

    def _decide(self):
        model, other = self.model, getattr(self.model, "deciding", None)
        if other is not None and other is not self:
            rule = "Only one callback can decide which weights train. Combine the stages in one `StagedTraining`."
            # All callbacks of a `fit` share this dict.
            expect(other.params is not self.params, rule, callbacks=[type(other).__name__, type(self).__name__])
            other.close()  # An earlier `fit` failed.
        model.deciding = self
        self._fitted = model  # On JAX, `self.model` copies all weights out of a running `fit`.

    def on_epoch_begin(self, epoch, logs=None):
        self.progress.on_epoch_begin(epoch)

    def on_train_batch_begin(self, batch, logs=None):
        self.progress.on_train_batch_begin(batch)
        epoch, steps = self.progress.epoch, self.progress.steps
        place = epoch if steps is None else epoch * steps + self.progress.first + batch
        number = self._stage_at(place)
        if number != self.stage:
            self._leave()
            self._begin(number, place)
        elif self._updated is None:
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
        self._set_back()
        if self._rebuilt:
            model.train_function = None  # It trains the weights of the last stage.
        if getattr(model, "deciding", None) is self:
            model.deciding = None
        self.stage = self._fitted = None

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
        planned = copy.copy(self)
        planned.set_model(model)
        planned.set_params({"epochs": epochs, "steps": steps_per_epoch})
        planned._plan(optimizer)
        return planned._draw(epochs * steps_per_epoch, optimizer)

    def _draw(self, total, optimizer):
        """Returns a figure of all steps, with a row for each layer group, the head at the top."""
        groups = layer_groups(self.model)
        axes = new_axes(7.2, 1.4 + 0.28 * len(groups))
        from matplotlib.colors import LogNorm

        groups = [group.name for group in groups if group.variables]
        steps = np.unique(np.linspace(0, total, min(total, MOST_COLUMNS) + 1).round().astype("int64"))
        rates = self._rates(groups, steps[:-1], optimizers.innermost(optimizer))
        shown = np.ma.masked_invalid(np.where(rates > 0, rates, np.nan))
        axes.set_facecolor("white")
        axes.patch.set(hatch="////", edgecolor="0.8")  # The hatched background shows frozen groups.
        low, high = (shown.min(), shown.max()) if shown.count() else (1e-9, 1.0)
        norm = LogNorm(min(low, high / 1.5), high)
        mesh = axes.pcolormesh(steps, np.arange(len(groups) + 1), shown, cmap="YlGnBu", norm=norm)
        for start, _ in self.schedule[1:]:
            axes.axvline(start, color=GREY, linewidth=0.8, linestyle=":")
        axes.hlines(np.arange(1, len(groups)), 0, total, color="white", linewidth=2)
        axes.set_yticks(np.arange(len(groups)) + 0.5, groups)
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel="step", xlim=(0, total), title="learning rate of each layer group; hatched: frozen")
        axes.title.set_fontsize("medium")
        axes.locator_params(axis="x", integer=True)
        axes.spines[["left", "bottom"]].set_visible(False)
        bar = axes.figure.colorbar(mesh, ax=axes, label="learning rate", pad=0.02)
        if low == high:
            bar.set_ticks([high], labels=[f"{high:.3g}"])
            bar.minorticks_off()
        return axes.figure

    def _rates(self, groups, steps, optimizer):
        """Returns the rate of each layer group in each step as an array [groups, steps], NaN while it is frozen."""
        multiples = getattr(optimizer, "rates", {})
        rates = np.full((len(groups), len(steps)), np.nan)
        begun = 0  # The optimizer counts from this step.
        ends = [*(start for start, _ in self.schedule[1:]), np.inf]
        for stage, (start, training), end in zip(self._stages, self.schedule, ends):
            begun = start if self.restarts else begun
            inside = (steps >= start) & (steps < end)
            rate = rate_of(optimizer) if stage.learning_rate is None else stage.learning_rate
            values = [float(rate(int(step) - begun)) if callable(rate) else float(rate) for step in steps[inside]]
            for row, group in enumerate(groups):
                if group in training:
                    rates[row, inside] = np.array(values) * multiples.get(group, 1.0)
        return rates

    # === One stage ===

    def _begin(self, number, place):
        """Prepares the optimizer and the functions of Keras for another stage."""
        model = self._fitted
        if self.stage is None:
            begun = {id(weight) for weights in self._weights[: number + 1] for weight in weights}
            later = [weight for weight in model.trainable_variables if id(weight) not in begun]
            optimizers.start_averages(model.optimizer, later)
        else:
            optimizers.forget_gradients(model.optimizer)
        if self.restarts and number and (self.stage is not None or place == self._starts[number]):
            restart_optimizer(model)
        self.stage = number
        self._enter()
        model.make_train_function(force=True)
        if keras.backend.backend() == "jax":  # These were compiled for the weights that trained before.
            model.test_function = model.predict_function = None
        self._rebuilt = True

    def _enter(self):
        """Freezes the weights that the stage does not train."""
        model, stage = self._fitted, self._stages[self.stage]
        optimizer, own = model.optimizer, {id(weight) for weight in self._weights[self.stage]}
        self._check_flags()
        sync(model)  # Keras on JAX divides its state by the flags.
        self._reset_rate = optimizers.set_learning_rate(optimizer, stage.learning_rate)
        self._updated = optimizers.updated_by(optimizer)
        set_trainable(model, [weight for weight in model.trainable_weights if id(weight) in own])
        self._flags = _flags_of(model)
        optimizers.update(optimizers.selection(optimizer, model.trainable_variables))

    def _leave(self):
        """Reverts the changes of `_enter`."""
        if self._updated is not None:
            self._check_flags()
            sync(self._fitted)
            self._set_back()

    def _set_back(self):
        if self._updated is not None:
            self._reset_rate()
            self._restore()
            optimizers.update(self._updated)
            self._flags, self._updated = _flags_of(self._fitted), None

    def _check_flags(self):
        model = self._fitted
        if self._flags != _flags_of(model):
            for weight, trains in zip(model.weights, self._flags):
                weight.trainable = trains  # Keras on JAX has divided its state by these flags.
            sync(model)
            self._restore()
            self.close()
            raise ValueError(
                f"`trainable` was changed during `fit()`, but {type(self).__name__} manages it. All `trainable` flags "
                "from before `fit()` are restored. Change them between two calls of `fit()`."
            )

    # === The schedule ===

    def _plan(self, optimizer):
        """Sets the stages of the run, their weights, and where they begin."""
        self._accumulated = accumulation_steps(optimizer)  # Accumulated gradients belong to one stage.
        groups, epochs, steps = layer_groups(self.model), self.params.get("epochs") or 1, self.params.get("steps")
        self._stages = self.plan(groups)
        if steps is None and any(stage.epochs is None for stage in self._stages[:-1]):
            raise ValueError(
                "Stages in steps or fractions require a known number of steps per epoch. Pass `steps_per_epoch` to "
                "`fit()`, or set `epochs`. Received: data of unknown length"
            )
        total = epochs * (steps or 1)
        lengths = stage_lengths(self._stages, total, steps or 1)
        trainable = {id(weight) for weight in self.model.trainable_weights}
        self._names, self._weights, frozen = [], [], {}
        for place, stage in enumerate(self._stages, 1):
            chosen = select_groups(groups, stage.train)
            training = [group for group in chosen if any(id(weight) in trainable for weight in group.variables)]
            if not training:
                raise ValueError(
                    f"Stage {place} of {len(self._stages)} trains nothing. Unfreeze its layer groups before `fit()`. "
                    f"Received: {[group.name for group in chosen]}, which are all frozen"
                )
            self._names.append([group.name for group in training])
            self._weights.append([weight for group in training for weight in group.variables])
            frozen |= {group.name: None for group in chosen if group not in training and group.variables}
        if frozen:
            log.warning("These layer groups were frozen before `fit()` and remain frozen: %s", list(frozen))
        self._starts = [self._next_possible(round(sum(lengths[:number]))) for number in range(len(lengths))]
        self.schedule = list(zip(self._starts, self._names, strict=True))
        if self._starts[-1] >= total or any(first >= second for first, second in itertools.pairwise(self._starts)):
            raise ValueError(
                f"Each of the {len(self._stages)} stages must have at least one step within the run. Use more `epochs` "
                f"or a smaller `batch_size`. Received: {total} {'steps' if steps else 'epochs'}, and stages that begin "
                f"at {self._starts}"
            )

    def _next_possible(self, start):
        """Returns the first step, at or after `start`, at which a stage can begin."""
        steps = self.params.get("steps")
        together = self.model.steps_per_execution  # Keras calls no callback between these steps.
        while steps is not None and (start % self._accumulated or start % steps % together):
            start += 1
        return start

    def _stage_at(self, place):
        """Returns the stage of a step, or of the first step whose gradient is accumulated together with this one."""
        stage = bisect.bisect_right(self._starts, place) - 1
        model = self._fitted
        accumulated, together = accumulation_steps(model.optimizer), model.steps_per_execution
        near = place - self._starts[stage] < accumulated * together
        if stage == 0 or accumulated == 1 or not near or self.params.get("steps") is None:
            return stage
        sync(model)
        count = optimizers.batch_count(model.optimizer)
        for back in range(0, accumulated * together, together):
            if (count - back) % accumulated == 0:
                return max(bisect.bisect_right(self._starts, place - back) - 1, 0)
        raise ValueError(
            "A stage must begin with the first batch of an accumulated gradient. Use the same number for "
            f"`steps_per_execution` and `gradient_accumulation_steps`. Received: {together} and {accumulated}, after "
            f"{count} batches"
        )


def _flags_of(model):
    return [weight.trainable for weight in model.weights]
