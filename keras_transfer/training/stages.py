"""Stages of a run, in each of which some layer groups train and the others are frozen."""

import bisect
import copy
import itertools
import logging
import math
import sys
from typing import Any

import keras
import numpy as np

from keras_transfer.core.integers import check_integer
from keras_transfer.core.plots import GREY, new_axes
from keras_transfer.keras_internals import (
    accumulation_steps,
    keras_callbacks,
    optimizers,
    remember_trainable,
    set_trainable,
)
from keras_transfer.training.building import build_optimizer, restart_optimizer
from keras_transfer.training.groups import layer_groups, select_groups
from keras_transfer.training.rates import rate_of
from keras_transfer.training.run import RunCallback, sync
from keras_transfer.training.run_length import expect_restarts, warn_in_epoch
from keras_transfer.training.stage import stage_lengths

log = logging.getLogger("keras_transfer")

MOST_COLUMNS = 400  # Longer runs are shown at this number of their steps.


class Stages(RunCallback):
    """Trains only some layer groups in each stage of a run, according to a plan. `StagedTraining` describes it.

    Positions in the run are numbers of steps, or of epochs if the number of steps is unknown.

    Args:
        plan: Function that returns a list of `Stage`s, given the `LayerGroups` of the model.

    Attributes:
        stage: Integer. The number of the current stage, counted from 0. `None` outside `fit` and before the first step.
        schedule: List of `(first step, names of the layer groups that train)`, set when `fit` begins. It contains first
            epochs if the number of steps is unknown. A start is `None` until it is known.
        over: Boolean. Whether the last stage ended the run, because nothing improved.
        has_restored: Boolean. Whether the run ended with the weights of the best epoch of its last stage.
    """

    def __init__(self, plan):
        super().__init__()
        self.plan = plan
        self.stage, self.schedule, self.over, self.has_restored = None, [], False, False
        self._fitted, self._undo = None, []

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    # === The run ===

    def on_train_begin(self, logs=None):
        self.close()
        self._decide()
        self.stage, self.over, self._improvement, self._epoch, self._done = None, False, None, 0, 0
        self._ended, self._resumed, self._resumed_at, self._rebuilt = {}, None, (0, 0), False
        self._plan(self.model.optimizer)
        build_optimizer(self.model)
        optimizers.selection(self.model.optimizer, self.model.trainable_variables)  # Raises if slots are missing.
        self._flags, self._restore = _flags_of(self.model), remember_trainable(self.model)
        if any(stage.fresh_optimizer for stage in self._stages):
            expect_restarts(self)

    def _decide(self):
        model, other = self.model, getattr(self.model, "deciding", None)
        if other is not None and other is not self:
            if other.params is self.params:  # All callbacks of a `fit` share this dict.
                raise ValueError(
                    "Only one callback can decide which weights train. Combine the stages in one `StagedTraining`. "
                    f"Received: {type(other).__name__} and {type(self).__name__}"
                )
            other.close()  # An earlier `fit` failed.
        model.deciding = self
        self._fitted = model  # On JAX, `self.model` copies all weights out of a running `fit`.

    def on_epoch_begin(self, epoch, logs=None):
        warn_in_epoch(self, epoch)
        self._epoch = epoch
        self._done = self._resumed_at[1] if epoch == self._resumed_at[0] else 0
        self._before = self._done

    def on_train_batch_begin(self, batch, logs=None):
        if self._before and self._before + batch >= (self.params.get("steps") or math.inf):
            return  # A resumed epoch ends before this batch.
        place = self._place(self._epoch, self._before + batch)
        number = self._stage_at(place)
        if number != self.stage:
            self._leave()
            self._begin(number, place)
        if not self._undo:
            self._enter()

    def on_train_batch_end(self, batch, logs=None):
        self._done = self._before + batch + 1

    def on_epoch_end(self, epoch, logs=None):
        self._leave()
        self._epoch, self._done = epoch + 1, 0
        if self._improvement is None:
            return
        model = self._fitted
        if self._improvement.is_over(logs or {}):
            if self.stage + 1 == len(self._stages):
                self.over = model.stop_training = True
            else:
                self._end(self.stage, epoch + 1)
        ends = epoch + 1 == self.params["epochs"] or model.stop_training
        if ends or self._stage_at(self._place(epoch + 1)) != self.stage:
            self._finish_stage()

    def on_train_end(self, logs=None):
        self._finish_stage()
        self.has_restored = self.stage is not None and self._stages[self.stage].restore_best
        begun = math.inf if self.stage is None else self.stage
        later = [names for number, (start, names) in enumerate(self.schedule) if start is None or number > begun]
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
        self.stage = self._improvement = self._fitted = None

    # === Its picture ===

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
            ValueError: If there is no Keras optimizer, if the stages do not fit into the run, or if a stage lasts until
                nothing improves, so that its length is not known.

        Example:
        ```python
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2)])
        model.compile(keras_transfer.optimizers.LayerwiseOptimizer("adam", model, decay=1 / 2.6), "mse")
        figure = keras_transfer.callbacks.GradualUnfreezing().plot(model, steps_per_epoch=18, epochs=4)
        ```
        """
        optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
        if optimizer is None:
            raise ValueError(
                "The learning rates are those of an optimizer. Compile the model, or pass `optimizer`. Received: "
                "optimizer=None, and a model that is not compiled"
            )
        steps, epochs = check_integer("steps_per_epoch", steps_per_epoch, 1), check_integer("epochs", epochs, 1)
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            raise ValueError(
                "`optimizer` must be a Keras optimizer. For a name, pass `keras.optimizers.get(name)`. "
                f"Received: optimizer={optimizer!r:.100}"
            )
        planned = copy.copy(self)
        planned.set_model(model)
        planned.set_params({"epochs": epochs, "steps": steps})
        planned._plan(optimizer)
        if math.inf in planned._starts:
            raise ValueError(
                "A stage that lasts until nothing improves has no length that a plot could show. Set its `epochs`, "
                f"`steps` or `fraction`. Received: {planned._stages}"
            )
        return draw_stages(model, planned._stages, planned._starts, planned._names, epochs * steps, optimizer)

    # === One stage ===

    def _begin(self, number, place):
        """Prepares the optimizer and the functions of Keras for another stage."""
        model, stage = self._fitted, self._stages[number]
        self._finish_stage()
        if self.stage is None:
            begun = {id(weight) for weights in self._weights[: number + 1] for weight in weights}
            later = [weight for weight in model.trainable_variables if id(weight) not in begun]
            optimizers.start_averages(model.optimizer, later)
        else:
            optimizers.forget_gradients(model.optimizer)
        if stage.fresh_optimizer and (self.stage is not None or place == self._starts[number]):
            restart_optimizer(model)
        self.stage = number
        self._enter()
        model.make_train_function(force=True)
        if keras.backend.backend() == "jax":  # These were compiled for the weights that trained before.
            model.test_function = model.predict_function = None
        self._rebuilt = True
        if stage.improves:
            validates = None if self.run is None else self.run.validates
            self._improvement = Improvement(model, stage.monitor, stage.patience, stage.restore_best, validates)
            self._resume_improvement()

    def _enter(self):
        """Freezes the weights that the stage does not train."""
        model, stage = self._fitted, self._stages[self.stage]
        optimizer, own = model.optimizer, {id(weight) for weight in self._weights[self.stage]}
        self._check_flags()
        sync(model)  # Keras on JAX divides its state by the flags.
        updated, flags = optimizers.updated_by(optimizer), self._flags
        self._undo = [lambda: optimizers.update(updated), self._restore, lambda: setattr(self, "_flags", flags)]
        set_trainable(model, [weight for weight in model.trainable_weights if id(weight) in own])
        self._flags = _flags_of(model)
        optimizers.update(optimizers.selection(optimizer, model.trainable_variables))
        self._undo.append(optimizers.set_learning_rate(optimizer, stage.learning_rate))

    def _leave(self):
        """Reverts the changes of `_enter`."""
        if self._undo:
            self._check_flags()
            sync(self._fitted)
            self._set_back()

    def _set_back(self):
        while self._undo:
            self._undo.pop()()

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

    def _finish_stage(self):
        improvement, self._improvement = self._improvement, None
        if improvement is not None:
            improvement.finish()
            if self._stages[self.stage].restore_best:  # `fit` ends with the averages.
                optimizers.start_averages(self._fitted.optimizer, self._fitted.variables)

    # === The schedule ===

    def _plan(self, optimizer):
        """Sets the stages of the run, their weights, and where they begin."""
        self._accumulated = accumulation_steps(optimizer)  # Accumulated gradients belong to one stage.
        groups, epochs, steps = layer_groups(self.model), self.params.get("epochs") or 1, self.params.get("steps")
        self._stages = self.plan(groups)
        if steps is None and any(stage.epochs is None and stage.patience is None for stage in self._stages[:-1]):
            raise ValueError(
                "Stages in steps or fractions require a known number of steps per epoch. Pass `steps_per_epoch` to "
                "`fit()`, or set `epochs`. Received: data of unknown length"
            )
        total = epochs * (steps or 1)
        self._lengths = stage_lengths(self._stages, total, steps or 1)
        trainable = {id(weight) for weight in self.model.trainable_weights}
        self._names, self._weights, frozen = [], [], {}
        for number, stage in enumerate(self._stages, 1):
            chosen = select_groups(groups, stage.train)
            training = [group for group in chosen if any(id(weight) in trainable for weight in group.variables)]
            if not training:
                raise ValueError(
                    f"Stage {number} of {len(self._stages)} trains nothing. Unfreeze its layer groups before `fit()`. "
                    f"Received: {[group.name for group in chosen]}, which are all frozen"
                )
            self._names.append([group.name for group in training])
            self._weights.append([weight for group in training for weight in group.variables])
            frozen |= {group.name: None for group in chosen if group not in training and group.variables}
        if frozen:
            log.warning("These layer groups were frozen before `fit()` and remain frozen: %s", list(frozen))
        self._set_starts()
        known = [start for start in self._starts if start < math.inf]
        if known[-1] >= total or any(first >= second for first, second in itertools.pairwise(known)):
            raise ValueError(
                f"Each of the {len(self._stages)} stages must have at least one step within the run. Use more `epochs` "
                f"or a smaller `batch_size`. Received: {total} {'steps' if steps else 'epochs'}, and stages that begin "
                f"at {self._starts}"
            )

    def _set_starts(self):
        sums = [sum(self._lengths[:number]) for number in range(len(self._lengths))]
        self._starts = [start if start == math.inf else self._next_possible(round(start)) for start in sums]
        starts = [None if start == math.inf else start for start in self._starts]
        self.schedule = list(zip(starts, self._names, strict=True))

    def _next_possible(self, start):
        """Returns the first step, at or after `start`, at which a stage can begin."""
        steps = self.params.get("steps")
        if steps is None:
            return start
        together = self.model.steps_per_execution  # Keras calls no callback between these steps.
        while start % self._accumulated or start % steps % together:
            start += 1
        return start

    def _end(self, stage, epoch):
        """Ends a stage before an epoch."""
        self._ended[stage] = epoch
        self._lengths[stage] = self._place(epoch) - sum(self._lengths[:stage])
        self._set_starts()

    def _place(self, epoch, batch=0):
        steps = self.params.get("steps")
        return epoch if steps is None else epoch * steps + batch

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

    # === Resuming ===

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the run, where stages ended, and the improvement of the current stage.

        Returns:
            Dict of plain values and arrays.
        """
        improvement = None if self._improvement is None else [self.stage, self._improvement.state_dict()]
        place, ended = [self._epoch, self._done], [list(pair) for pair in self._ended.items()]
        return {"place": place, "ended": ended, "over": self.over, "improvement": improvement}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state.

        Args:
            state: Dict that `state_dict` returned.
        """
        for stage, epoch in state["ended"]:
            if stage < len(self._stages) - 1:
                self._end(stage, epoch)
        self._resumed_at, self.over, self._resumed = tuple(state["place"]), state["over"], state["improvement"]
        self._resume_improvement()

    def _resume_improvement(self):
        if self._improvement is not None and self._resumed and self._resumed[0] == self.stage:
            self._improvement.load_state_dict(self._resumed[1])


def _flags_of(model):
    return [weight.trainable for weight in model.weights]


class Improvement:
    """Keras's `EarlyStopping` for one stage of a run.

    Args:
        model: The model to train.
        monitor: String. Name of the metric.
        patience: Integer or `None`. Number of epochs without improvement after which the stage is over.
        restore_best: Boolean. Whether `finish` restores the weights of the best epoch.
        validates: Boolean. Whether the run validates, possibly not in each epoch. Defaults to `None`, if it is
            unknown.
    """

    def __init__(self, model, monitor, patience, restore_best, validates=None):
        self._model, self._validates = model, validates
        self._watch = keras.callbacks.EarlyStopping(
            monitor, patience=patience or sys.maxsize, restore_best_weights=restore_best
        )
        self._watch.set_model(model)
        self._watch.on_train_begin()

    def is_over(self, logs):
        """Returns whether the stage is over, given the logs of its next epoch."""
        monitor, stops = self._watch.monitor, self._model.stop_training
        validated = any(name.startswith("val_") for name in logs)
        # `validation_freq` may skip the validation of an epoch.
        if monitor not in logs and not validated and self._validates is not False:
            if self._validates is None:
                log.warning("A stage waits for %r, but this epoch was not validated. Pass `validation_data`.", monitor)
            return False
        if monitor not in logs:
            raise ValueError(
                "A stage with `patience` or `restore_best` requires the metric that it monitors. Pass "
                f"`validation_data` to `fit()`. Expected one of {sorted(logs)}. Received: monitor={monitor!r}"
            )
        try:
            self._watch.on_epoch_end(1, logs)  # `EarlyStopping` never stops in epoch 0.
        except ValueError as error:
            raise ValueError(
                "`monitor` must be a loss, or a metric for which Keras knows whether it should rise or fall. "
                f"Received: monitor={monitor!r}"
            ) from error
        self._model.stop_training = stops  # Only the stage is over, not the run.
        return self._watch.stopped_epoch > 0

    def state_dict(self):
        """Returns the epochs without improvement, and the best weights."""
        return {name: getattr(self._watch, name) for name in keras_callbacks.callback_attributes(self._watch)}

    def load_state_dict(self, state):
        """Restores what `state_dict` returned."""
        vars(self._watch).update(state)

    def finish(self):
        """Restores the best weights if `restore_best` is True."""
        self._watch.on_train_end()


def draw_stages(model, stages, starts, names, total, optimizer):
    """Returns a figure with a row for each layer group, the head at the top, which is dark where its rate is high.

    Args:
        model: Built model.
        stages: List of the `Stage`s of the run.
        starts: List of the first step of each stage.
        names: List of lists. Names of the layer groups that train in each stage.
        total: Integer. Number of steps of the run.
        optimizer: Optimizer whose rates are shown.
    """
    groups = layer_groups(model)
    axes = new_axes(7.2, 1.4 + 0.28 * len(groups))
    from matplotlib.colors import LogNorm

    groups = [group.name for group in groups if group.variables]
    steps = np.unique(np.linspace(0, total, min(total, MOST_COLUMNS) + 1).round().astype("int64"))
    rates = _rates(groups, stages, starts, names, steps[:-1], optimizers.innermost(optimizer))
    shown = np.ma.masked_invalid(np.where(rates > 0, rates, np.nan))
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="0.8")  # The hatched background shows frozen groups.
    low, high = (shown.min(), shown.max()) if shown.count() else (1e-9, 1.0)
    norm = LogNorm(min(low, high / 1.5), high)
    mesh = axes.pcolormesh(steps, np.arange(len(groups) + 1), shown, cmap="YlGnBu", norm=norm)
    for start in starts[1:]:
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


def _rates(groups, stages, starts, names, steps, optimizer):
    """Returns the rate of each layer group in each step as an array [groups, steps], NaN while it is frozen."""
    multiples = getattr(optimizer, "rates", {})
    rates = np.full((len(groups), len(steps)), np.nan)
    begun = 0  # The optimizer counts from this step.
    for stage, start, end, training in zip(stages, starts, [*starts[1:], np.inf], names):
        begun = start if stage.fresh_optimizer else begun
        inside = (steps >= start) & (steps < end)
        rate = rate_of(optimizer) if stage.learning_rate is None else stage.learning_rate
        values = [float(rate(int(step) - begun)) if callable(rate) else float(rate) for step in steps[inside]]
        for row, group in enumerate(groups):
            if group in training:
                rates[row, inside] = np.array(values) * multiples.get(group, 1.0)
    return rates
