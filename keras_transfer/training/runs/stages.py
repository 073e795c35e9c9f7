"""Stages inside one `fit`. In each of them, some weights train and the others are frozen."""

import bisect
import contextlib
import dataclasses
import inspect
import logging
import math

import keras

from keras_transfer.keras_internals import (
    accumulation_steps,
    layers_within,
    optimizer_state,
    remember_trainable,
    trainer,
)
from keras_transfer.training.optimizers import build_optimizer, restart_optimizer
from keras_transfer.training.runs.improvement import Improvement
from keras_transfer.training.runs.run_length import expect_restarts, warn_in_epoch
from keras_transfer.training.runs.steps import sync, watch

log = logging.getLogger("keras_transfer")


@dataclasses.dataclass
class PlacedStage:
    """A stage with its first step, or its first epoch if the number of steps is unknown.

    The start is infinite if it depends on how long an earlier stage improves. `adaptation.Stage` describes the rest.
    """

    start: float
    names: list
    weights: list
    learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | None = None
    fresh_optimizer: bool = False
    patience: int | None = None
    restore_best: bool = False
    monitor: str = "val_loss"


class TrainableSubset:
    """A subset of a model's trainable weights. Only these weights train inside `applied()`.

    Layers with statistics (batch normalization) do not update them if none of their weights is in the subset.
    """

    def __init__(self, model, weights):
        subset = {id(weight) for weight in weights}
        self._frozen = [weight for weight in model.trainable_weights if id(weight) not in subset]
        self._resting = {}
        inside = set()
        for layer, _ in layers_within(model):
            trains = any(id(weight) in subset for weight in layer.weights)
            if layer.trainable and layer.non_trainable_weights and not trains and id(layer) not in inside:
                self._resting[layer] = remember_trainable(layer)
                inside |= {id(part) for part, _ in layers_within(layer)}
        self._outside = self._inside = optimizer_state.updated_by(model.optimizer)
        with self.applied():
            variables = model.trainable_variables
        self._inside = optimizer_state.selection(model.optimizer, variables)

    @contextlib.contextmanager
    def applied(self):
        """Freezes the other weights, and restores every flag at the end."""
        try:
            for part in (*self._resting, *self._frozen):
                part.trainable = False
            optimizer_state.update(self._inside)
            yield
        finally:
            for weight in self._frozen:
                weight.trainable = True
            for restore in self._resting.values():
                restore()
            optimizer_state.update(self._outside)


def _applied(model, stage):
    """Returns a function that creates the context for the steps of a `PlacedStage`."""
    subset = TrainableSubset(model, stage.weights)

    @contextlib.contextmanager
    def applied():
        with subset.applied(), optimizer_state.learning_rate_of(model.optimizer, stage.learning_rate):
            yield

    return applied


class StagedFit(keras.callbacks.Callback):
    """Base class of callbacks that change what trains in `fit`. Subclasses define `place_stages` and `starts_after`.

    Attributes:
        stage: Int. The number of the stage that trains, counted from 0. None outside `fit`.
        schedule: List of `(first step, names of the layer groups that train)`, set when `fit` begins. It contains first
            epochs if the number of steps is unknown. If the optimizer is in the middle of accumulating a gradient, a
            stage begins with the next gradient. A start is None until it is known.
        over: Boolean. Whether the last stage ended the run, because nothing improved.
    """

    def __init__(self):
        super().__init__()
        self.stage, self.schedule, self._improvement = None, [], None
        self.over, self._ended, self._resumed = False, {}, None

    def place_stages(self):
        """Returns the list of `PlacedStage`s of the run."""
        raise NotImplementedError

    def starts_after(self, stage, place):
        """Returns the starts of all stages if the stage with this number ends before `place`."""
        raise NotImplementedError

    def on_train_begin(self, logs=None):
        self._steps, self.stage = watch(self.model, self.params), None
        others = [callback for callback in self._steps.contexts if isinstance(callback, StagedFit)]
        if others:
            raise ValueError(
                "Only one callback can decide which weights train. Combine the stages in one `StagedTraining`. "
                f"Received: {type(others[0]).__name__} and {type(self).__name__}"
            )
        self._placed, self._improvement = self.place_stages(), None
        self.over, self._ended, self._resumed = False, {}, None
        fit = trainer.arguments_of_fit(self.model, inspect.currentframe()) or {}
        self._validates = fit.get("validation_data") is not None
        self._set_schedule()
        build_optimizer(self.model)
        if any(stage.fresh_optimizer for stage in self._placed):
            expect_restarts(self.model.optimizer)
        self._flags = [(weight, weight.trainable) for weight in self.model.weights]
        self._restore = remember_trainable(self.model)
        self._steps.contexts[self] = contextlib.nullcontext

    def on_epoch_begin(self, epoch, logs=None):
        warn_in_epoch(self, epoch)
        self._epoch = epoch
        self._go_to(0)

    def on_train_batch_begin(self, batch, logs=None):
        self._go_to(batch)
        self._steps.announce()

    def on_epoch_end(self, epoch, logs=None):
        if self._improvement is None:
            return
        model, following = self._steps.model, self._place(epoch + 1)
        if self._improvement.is_over(logs or {}):
            if self.stage + 1 == len(self._placed):
                self.over = model.stop_training = True
            else:
                self._end(self.stage, epoch + 1)
        ends = epoch + 1 == self.params["epochs"] or model.stop_training
        if ends or self._stage_at(following) != self.stage:
            self._finish_stage()

    def state_dict(self):
        """Returns where stages ended because nothing improved, and how the current stage improves, as plain values."""
        improvement = None if self._improvement is None else [self.stage, self._improvement.state()]
        return {"ended": list(self._ended.items()), "over": self.over, "improvement": improvement}

    def load_state_dict(self, state):
        """Restores what `state_dict` returned."""
        for stage, epoch in state["ended"]:
            if stage < len(self._placed) - 1:
                self._end(stage, epoch)
        self.over, self._resumed = state["over"], state["improvement"]
        self._resume_improvement()

    def _end(self, stage, epoch):
        """Ends a stage before an epoch."""
        self._ended[stage] = epoch
        for placed, start in zip(self._placed, self.starts_after(stage, self._place(epoch)), strict=True):
            placed.start = start
        self._set_schedule()

    def _resume_improvement(self):
        if self._improvement is not None and self._resumed and self._resumed[0] == self.stage:
            self._improvement.restore(self._resumed[1])

    def on_train_end(self, logs=None):
        self._finish_stage()
        if unknown := [stage.names for stage in self._placed if stage.start == math.inf]:
            log.warning("The run ended before these stages began. Use more `epochs`: %s", unknown)
        self._leave()

    def _leave(self):
        self._steps.leave(self)
        self.stage = self._improvement = None

    def _finish_stage(self):
        improvement, self._improvement = self._improvement, None
        if improvement is not None:
            improvement.finish()

    def _set_schedule(self):
        self.schedule = [(None if s.start == math.inf else s.start, s.names) for s in self._placed]

    def _place(self, epoch, batch=0):
        steps = self.params.get("steps")
        return epoch if steps is None else epoch * steps + batch

    def _go_to(self, batch):
        if any(weight.trainable != trains for weight, trains in self._flags):
            self._restore()
            self._leave()
            raise ValueError(
                f"`trainable` was changed during `fit()`, but {type(self).__name__} manages it. All weights have the "
                "`trainable` flags from before `fit()` again."
            )
        place = self._place(self._epoch, batch)
        stage = self._stage_at(place)
        if stage == self.stage:
            return
        model, placed = self._steps.model, self._placed[stage]
        sync(model)
        self._finish_stage()
        if self.stage is None:
            begun = {id(weight) for earlier in self._placed[: stage + 1] for weight in earlier.weights}
            optimizer_state.start_averages(
                model.optimizer, [w for w in model.trainable_variables if id(w) not in begun]
            )
        else:
            optimizer_state.forget_gradients(model.optimizer)
        if placed.fresh_optimizer and (self.stage is not None or place == placed.start):
            restart_optimizer(model)
        self.stage = stage
        self._steps.contexts[self] = _applied(model, placed)
        self._steps.rebuild()
        if placed.patience or placed.restore_best:
            options = placed.monitor, placed.patience, placed.restore_best, self._validates
            self._improvement = Improvement(model, *options)
            self._resume_improvement()

    def _stage_at(self, place):
        """Returns the stage of a step, or of the first step whose gradient is accumulated with that of this step."""
        starts = [stage.start for stage in self._placed]
        stage = bisect.bisect_right(starts, place) - 1
        model = self._steps.model
        accumulated, together = accumulation_steps(model.optimizer), model.steps_per_execution
        near = place - starts[stage] < accumulated * together
        if stage == 0 or accumulated == 1 or not near or self.params.get("steps") is None:
            return stage
        sync(model)
        count = optimizer_state.batch_count(model.optimizer)
        for back in range(0, accumulated * together, together):
            if (count - back) % accumulated == 0:
                return max(bisect.bisect_right(starts, place - back) - 1, 0)
        raise ValueError(
            "A stage must begin with the first batch of an accumulated gradient. Use the same number for "
            f"`steps_per_execution` and `gradient_accumulation_steps`. Received: {together} and {accumulated}, after "
            f"{count} batches"
        )
