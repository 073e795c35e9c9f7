"""Stages inside one `fit`: in each of them some weights train, and the others rest."""

import bisect
import contextlib
import dataclasses

import keras

from keras_transfer.training import private
from keras_transfer.training.optimizer import build_optimizer
from keras_transfer.training.run_length import warn_in_epoch
from keras_transfer.training.steps import sync, watch
from keras_transfer.training.trainable import layers_within, remember_trainable


@dataclasses.dataclass
class PlacedStage:
    """A stage with its first step, or its first epoch if the number of steps is unknown."""

    start: int
    names: list
    weights: list


class TrainableSubset:
    """A subset of a model's trainable weights. Only these weights train inside `applied()`.

    Layers with statistics (batch normalization) rest if none of their weights is in the subset.
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
        self._outside = self._inside = private.updated_by(model.optimizer)
        with self.applied():
            variables = model.trainable_variables
        self._inside = private.selection(model.optimizer, variables)

    @contextlib.contextmanager
    def applied(self):
        """Freezes the other weights, and restores every flag at the end."""
        try:
            for part in (*self._resting, *self._frozen):
                part.trainable = False
            private.update(self._inside)
            yield
        finally:
            for weight in self._frozen:
                weight.trainable = True
            for restore in self._resting.values():
                restore()
            private.update(self._outside)


class StagedFit(keras.callbacks.Callback):
    """Base of the callbacks that change what trains during `fit`. A subclass defines `place_stages`.

    Attributes:
        stage: Int. The number of the stage that trains, counted from 0. None outside `fit`.
        schedule: List of `(first step, names of the layer groups that train)`, set when `fit` begins. It contains
            first epochs if the number of steps is unknown.
    """

    def __init__(self):
        super().__init__()
        self.stage, self.schedule = None, []

    def place_stages(self):
        """Returns the list of `PlacedStage`s of the run."""
        raise NotImplementedError

    def on_train_begin(self, logs=None):
        self._steps, self.stage = watch(self.model, self.params), None
        others = [callback for callback in self._steps.contexts if isinstance(callback, StagedFit)]
        if others:
            raise ValueError(
                "Only one callback can decide which weights train. Combine the stages in one `StagedTraining`. "
                f"Received: {type(others[0]).__name__} and {type(self).__name__}"
            )
        self._placed = self.place_stages()
        self.schedule = [(stage.start, stage.names) for stage in self._placed]
        build_optimizer(self.model)
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

    def on_train_end(self, logs=None):
        self._steps.leave(self)
        self.stage = None

    def _go_to(self, batch):
        if any(weight.trainable != trains for weight, trains in self._flags):
            self._restore()
            self.on_train_end()
            raise ValueError(
                f"`trainable` was changed during `fit()`, but {type(self).__name__} manages it. All weights have the "
                "`trainable` flags from before `fit()` again."
            )
        steps = self.params.get("steps")
        place = self._epoch if steps is None else self._epoch * steps + batch
        stage = bisect.bisect_right([stage.start for stage in self._placed], place) - 1
        if stage == self.stage:
            return
        model = self._steps.model
        sync(model)
        if self.stage is None:
            begun = {id(weight) for earlier in self._placed[: stage + 1] for weight in earlier.weights}
            private.start_averages(model.optimizer, [w for w in model.trainable_variables if id(w) not in begun])
        self.stage = stage
        self._steps.contexts[self] = TrainableSubset(model, self._placed[stage].weights).applied
        self._steps.rebuild()
