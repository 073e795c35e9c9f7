"""How a plan of stages is carried out inside one `fit`."""

import bisect
import dataclasses
import itertools
import weakref

import keras

from keras_transfer.adaptation import active, steps
from keras_transfer.adaptation.groups import layer_groups
from keras_transfer.adaptation.selection import select_groups

# Who stages the `fit` of a model now: two would undo each other's stages.
_staged_by = weakref.WeakKeyDictionary()


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

    def plan(self, ladder):
        """Returns the list of `Stage`s for a ladder."""
        raise NotImplementedError(f"{type(self).__name__} must say its plan")

    # === fit ===

    def on_train_begin(self, logs=None):
        other = _staged_by.get(self.model)
        if other is not None and other() not in (None, self) and other().stage is not None:
            raise ValueError(
                "one callback alone may say what trains: combine the plans in one `StagedTraining`. "
                f"Received: {type(other()).__name__} and {type(self).__name__}"
            )
        self._end()  # of a `fit` that failed where nobody was told
        self._outside = list(self.model.trainable_weights)
        self._unit = self.params.get("steps")  # None: the length of an epoch is not known
        self._begun = self._place(self.plan(layer_groups(self.model)))
        self.schedule = [(stage.start, stage.names) for stage in self._begun]
        _staged_by[self.model] = weakref.ref(self)
        active.build(self.model)
        steps.watch(self.model).on_failure.append(self._end)
        self._epoch = None

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._go_to(epoch, 0)

    def on_train_batch_begin(self, batch, logs=None):
        self._go_to(self._epoch, batch)
        steps.watch(self.model).begin()

    def on_train_end(self, logs=None):
        last = list(self.model.trainable_variables)
        self._end()
        active.finish_averages(self.model.optimizer, last)

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
        starts = _starts(stages, total, unit or 1)
        could = {id(weight) for weight in self._outside}
        begun = []
        for number, (stage, start) in enumerate(zip(stages, starts), 1):
            groups = select_groups(ladder, stage.train)
            names = [group.name for group in groups]
            weights = [weight for group in groups for weight in group.variables if id(weight) in could]
            if not weights:
                raise ValueError(
                    f"stage {number} of {len(stages)} would train nothing: thaw its groups before `fit`. "
                    f"Received: {names}, all frozen"
                )
            begun.append(Begun(start, names, weights))
        late = [stage for stage in begun if stage.start >= total]
        twice = any(first.start >= second.start for first, second in itertools.pairwise(begun))
        if late or twice:
            raise ValueError(
                f"{len(stages)} stages must fit into the run, each with a step at least. Received: {total} "
                f"{'steps' if unit else 'epochs'}, and stages that begin at {[stage.start for stage in begun]}"
            )
        return begun

    def _go_to(self, epoch, batch):
        place = epoch if self._unit is None else epoch * self._unit + batch
        if self._unit is not None:  # gradients gathered over several batches belong to one stage
            place -= place % active.accumulation_steps(self.model.optimizer)
        stage = bisect.bisect_right([begun.start for begun in self._begun], place) - 1
        if stage != self.stage:
            self._train(self._begun[stage].weights)
            self.stage = stage

    # === What trains ===

    def _train(self, weights):
        """Makes exactly these train from the next step on."""
        model, wanted = self.model, {id(weight) for weight in weights}
        if self.stage is not None and {id(w) for w in model.trainable_weights} != self._wanted:
            self._end()
            raise ValueError(
                "what trains was changed in the middle of `fit`, which this callback does. Received: a change of "
                f"`trainable` from outside {type(self).__name__}"
            )
        steps.sync(model)  # by the division into trainable and other weights that was
        # Single weights only, and a task is told: a file written now should know the model, not the stage.
        if hasattr(model, "frozen_in_files"):
            trained = {id(weight) for weight in self._outside}
            model.frozen_in_files = tuple(weight.path for weight in model.weights if id(weight) not in trained)
        for weight in self._outside:
            weight.trainable = id(weight) in wanted
        self._wanted = wanted
        active.select(model.optimizer, model.trainable_variables)
        steps.renew(model)

    def _end(self):
        """Lets train what did before `fit`."""
        if self.stage is None:
            return
        self.stage = None
        steps.sync(self.model)
        for weight in self._outside:
            weight.trainable = True
        if hasattr(self.model, "frozen_in_files"):
            self.model.frozen_in_files = None
        active.select(self.model.optimizer, self.model.trainable_variables)
        watched = steps.watch(self.model)
        watched.on_failure = [function for function in watched.on_failure if function != self._end]
        steps.renew(self.model)
        if not watched.on_failure and not watched.skipping:
            steps.unwatch(self.model)


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
