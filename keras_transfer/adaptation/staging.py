"""How a plan of stages is carried out inside one `fit`."""

import bisect
import dataclasses
import itertools
import logging

import keras

from keras_transfer.adaptation.groups import layer_groups
from keras_transfer.adaptation.selection import select_groups
from keras_transfer.training import private, steps
from keras_transfer.training.optimizer import build_optimizer
from keras_transfer.training.run_length import accumulation_steps, warn_in_epoch
from keras_transfer.training.trainable import remember_trainable

log = logging.getLogger("keras_transfer")


@dataclasses.dataclass
class Begun:
    """A stage with its place in the run: the first step, or epoch where an epoch's length is not known."""

    start: int
    names: list
    weights: list


class Staging(keras.callbacks.Callback):
    """Base of the callbacks that change what trains in the middle of `fit`; a subclass says its `plan`.

    Attributes:
        stage: int, the stage that trains now, from 0; None outside `fit`.
        schedule: list of `(first step, names of the groups that train)`, known from the beginning of `fit`; first epoch
            instead where the number of steps is not known.
    """

    def __init__(self):
        super().__init__()
        self.stage = None
        self.schedule = []
        self._steps = None

    def plan(self, ladder):
        """Returns the list of `Stage`s for a ladder."""
        raise NotImplementedError(f"{type(self).__name__} must say its plan")

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    # === fit ===

    def on_train_begin(self, logs=None):
        self._end()  # of a `fit` of another model that failed where nobody was told
        watched = steps.watch(self.model, self.params)
        if watched.staged_by is not None:
            raise ValueError(
                "one callback alone may say what trains: combine the plans in one `StagedTraining`. "
                f"Received: {type(watched.staged_by).__name__} and {type(self).__name__}"
            )
        self._unit = self.params.get("steps")  # None: the length of an epoch is not known
        self._begun = self._place(self.plan(layer_groups(self.model)))
        self.schedule = [(stage.start, stage.names) for stage in self._begun]
        build_optimizer(self.model)
        self._flags = [(weight, weight.trainable) for weight in self.model.weights]
        self._restore_flags = remember_trainable(self.model)
        self._shown = private.shown(self.model.optimizer)
        self._steps, watched.staged_by = watched, self
        watched.on_failure.append(self._end)

    def on_epoch_begin(self, epoch, logs=None):
        warn_in_epoch(self, epoch)
        self._epoch = epoch
        self._go_to(epoch, 0)

    def on_train_batch_begin(self, batch, logs=None):
        self._go_to(self._epoch, batch)
        self._steps.begin()

    def on_train_end(self, logs=None):
        self._end()

    # === The plan's places in the run ===

    def _place(self, stages):
        """The stages with their first steps (or epochs), checked against the model and the run."""
        ladder, epochs, unit = layer_groups(self.model), self.params.get("epochs") or 1, self._unit
        if unit is None and any(stage.epochs is None for stage in stages[:-1]):
            raise ValueError(
                "stages in steps, or in shares of the run, need to know how many steps an epoch has: pass "
                "`steps_per_epoch` to `fit`, or count in epochs. Received: data of unknown length"
            )
        total = epochs * (unit or 1)
        starts = [self._possible(start) for start in _starts(stages, total, unit or 1)]
        could = {id(weight) for weight in self.model.trainable_weights}
        begun, frozen = [], {}
        for number, (stage, start) in enumerate(zip(stages, starts), 1):
            groups = select_groups(ladder, stage.train)
            trains = [group for group in groups if any(id(weight) in could for weight in group.variables)]
            if not trains:
                raise ValueError(
                    f"stage {number} of {len(stages)} would train nothing: thaw its groups before `fit`. "
                    f"Received: {[group.name for group in groups]}, all frozen"
                )
            weights = [weight for group in trains for weight in group.variables]
            begun.append(Begun(start, [group.name for group in trains], weights))
            frozen |= {group.name: None for group in groups if group not in trains and group.variables}
        if frozen:
            log.warning(
                "%s names groups that were frozen before `fit`, and stay so: %s", type(self).__name__, list(frozen)
            )
        late = [stage for stage in begun if stage.start >= total]
        twice = any(first.start >= second.start for first, second in itertools.pairwise(begun))
        if late or twice:
            raise ValueError(
                f"{len(stages)} stages must fit into the run, each with a step at least. Received: {total} "
                f"{'steps' if unit else 'epochs'}, and stages that begin at {[stage.start for stage in begun]}"
            )
        return begun

    def _possible(self, start):
        """The first step from `start` on with which a stage can begin."""
        if self._unit is None:
            return start
        gathered = accumulation_steps(self.model.optimizer)  # gradients of so many batches are one stage's
        together = self.model.steps_per_execution  # Keras calls nobody in the middle of these
        epoch, batch = divmod(-(-start // gathered) * gathered, self._unit)
        return epoch * self._unit + min(-(-batch // together) * together, self._unit)

    def _go_to(self, epoch, batch):
        if any(weight.trainable != trains for weight, trains in self._flags):
            self._restore_flags()
            self._end()
            raise ValueError(
                "what trains was changed in the middle of `fit`, which this callback does; it is now as it was before. "
                f"Received: a change of `trainable` from outside {type(self).__name__}"
            )
        place = epoch if self._unit is None else epoch * self._unit + batch
        stage = bisect.bisect_right([begun.start for begun in self._begun], place) - 1
        if stage == self.stage:
            return
        steps.sync(self.model)  # Keras looks where the variables are when it makes a function
        if self.stage is None:
            begun = {id(weight) for earlier in self._begun[: stage + 1] for weight in earlier.weights}
            later = [weight for weight in self.model.trainable_variables if id(weight) not in begun]
            private.start_averages(self.model.optimizer, later)
        self._steps.train(steps.Only(self.model, self._begun[stage].weights))
        self.stage = stage

    def _end(self):
        """Lets all train again."""
        if self._steps is None:
            return
        watched, self._steps, self.stage = self._steps, None, None
        watched.staged_by = None
        private.show(self._shown)
        if watched.model.train_function is watched:  # not compiled anew since
            watched.train(None)
        watched.leave(self._end)


def _starts(stages, total, unit):
    """The first step of each stage; stages that do not say how long share evenly what the others leave."""
    lengths = []
    for stage in stages:
        if stage.epochs is not None:
            lengths.append(stage.epochs * unit)
        else:
            lengths.append(stage.steps if stage.share is None else stage.share * total)
    silent = lengths.count(None)
    if silent:
        rest = max(total - sum(length for length in lengths if length is not None), 0) / silent
        lengths = [rest if length is None else length for length in lengths]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return [round(start) for start in starts]
