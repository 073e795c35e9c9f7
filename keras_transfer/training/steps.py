"""What stands in `model.train_function` while a callback of ours watches a `fit`.

Keras tells callbacks when a step begins and ends, not when it fails, and has no way to pass over a batch without
training on it, or to train some weights for a while. `Steps` calls the function that Keras made, and adds these three.
"""

import contextlib
import dataclasses
import itertools

from keras_transfer.training import private
from keras_transfer.training.trainable import layers_within


class Steps:
    """A train function that can pass over batches, train some weights only, and says when it fails.

    Args:
        model: the model whose train function it is.

    Attributes:
        function: the train function that Keras made.
        only: `Only`, what alone trains in these steps; None for all that trains.
        staged_by: the callback that says so, or None.
        skipping: bool, take the next batches from the data and do nothing with them.
        on_failure: list of functions without arguments, called when a step raises.
        iterator: what the last step took its batches from; on torch the batches.
    """

    def __init__(self, model):
        self.model = model
        self.function = model.train_function
        self.only = self.staged_by = self.fit = None
        self.skipping = False
        self.on_failure = []
        self.iterator = None
        self._begun = False

    def begin(self):
        """Says that a step of the `fit` that is watched is about to be taken."""
        self._begun = True

    def __call__(self, *args):
        if not self._begun:
            # A `fit` that ended in an error outside a step told nobody; this step is of another, and trains everything.
            self.fail()
            unwatch(self.model)
            self.model.make_train_function(force=True)
            return self.model.train_function(*args)
        self._begun, self.iterator = False, args[-1]
        try:
            if self.skipping:
                return self._skip(*args)
            return self.function(*args) if self.only is None else self.only.run(self.function, *args)
        except BaseException as error:
            if isinstance(error, StopIteration) or type(error).__name__ == "OutOfRangeError":
                raise  # the end of the data, the second where TensorFlow does not know their length
            if len(args) == 2:
                _recover(self.model, args[0])
            self.fail()
            raise

    def fail(self):
        """Calls what is to be done when a step raises, once."""
        while self.on_failure:
            self.on_failure.pop()()

    def leave(self, function):
        """Takes a function off `on_failure`, and these steps off the model where nobody needs them any more."""
        self.on_failure = [told for told in self.on_failure if told != function]
        if self.model.train_function is self and not self.on_failure and not self.skipping:
            unwatch(self.model)

    def train(self, only):
        """Trains other weights from now on: Keras makes its function anew, as it traces what trains."""
        self.only = only
        with contextlib.nullcontext() if only is None else only.applied():
            self.model.make_train_function(force=True)
        self.function, self.model.train_function = self.model.train_function, self

    def _skip(self, *args):
        *state, iterator = args  # JAX: (state, iterator); TensorFlow: (iterator,); torch: (batch,)
        reads = hasattr(iterator, "__next__")
        if reads and not list(itertools.islice(iterator, self.model.steps_per_execution)):
            raise StopIteration
        return ({}, *state) if state else {}


@dataclasses.dataclass
class Division:
    """What an optimizer updates, and the variables that are trainable and that are not."""

    selection: list
    trainable: list
    others: list


class Only:
    """Some weights train inside a step, and no others; between steps the model is as it was.

    So nothing that happens between steps (a file is written, a callback or the user ends `fit`) meets it half frozen.
    Layers that keep statistics, and are none of those that train, rest in the step: `layer.trainable` is False.

    Args:
        model: a compiled model whose optimizer is built.
        weights: list of its weights, of which those train that do without this.
    """

    def __init__(self, model, weights):
        inside = {id(weight) for weight in weights}
        self.model = model
        self._frozen = [weight for weight in model.trainable_weights if id(weight) not in inside]
        layers = layers_within(model)
        composed = {id(around) for _, around in layers}
        self._resting = [
            layer
            for layer, _ in layers
            if layer.trainable
            and layer.non_trainable_weights
            and id(layer) not in composed
            and not any(id(weight) in inside for weight in layer.weights)
        ]
        touched = [*self._frozen, *(weight for layer in self._resting for weight in layer.weights)]
        self._flags = [(weight, weight.trainable) for weight in touched]
        self._outside = self._as_now()
        self._inside = None
        with self.applied():
            self._inside = self._as_now()

    def run(self, function, *args):
        """Takes a step with a function that Keras made inside `applied`."""
        with self.applied():
            if len(args) == 1:  # TensorFlow and torch
                return function(*args)
            # JAX hands over the values of the trainable and of the other variables, as they are outside.
            state, iterator = args
            logs, state = function(_divided(state, self._outside, self._inside), iterator)
            return logs, _divided(state, self._inside, self._outside)

    @contextlib.contextmanager
    def applied(self):
        """The model as it is in a step."""
        for layer in self._resting:
            layer.trainable = False
        for weight in self._frozen:
            weight.trainable = False
        if self._inside is not None:
            private.show(self._inside.selection)
        try:
            yield
        finally:
            for layer in self._resting:
                layer.trainable = True
            for weight, trainable in self._flags:
                weight.trainable = trainable
            private.show(self._outside.selection)

    def _as_now(self):
        variables = self.model.trainable_variables, self.model.non_trainable_variables
        places = [[id(variable) for variable in part] for part in variables]
        return Division(private.selection(self.model.optimizer, variables[0]), *places)


def _divided(state, before, after):
    """JAX's state with the model's variables divided otherwise into trainable and others."""
    trainable, others, *rest = state
    values = dict(zip(before.trainable + before.others, [*trainable, *others], strict=True))
    return ([values[key] for key in after.trainable], [values[key] for key in after.others], *rest)


def watch(model, fit=None):
    """Returns the `Steps` in the model's train function, a new one if there is none.

    Args:
        model: the model.
        fit: the `params` of a callback, which all callbacks of a `fit` share; another's `Steps` are ended.
    """
    current = model.train_function
    if isinstance(current, Steps) and None not in (fit, current.fit) and current.fit is not fit:
        current.fail()  # an earlier `fit` ended in an error outside a step, which told nobody
        unwatch(model)
    if not isinstance(model.train_function, Steps):
        model.make_train_function()
        model.train_function = Steps(model)
    model.train_function.fit = fit if fit is not None else model.train_function.fit
    return model.train_function


def make_anew(model):
    """Lets the next step train what trains now: Keras traces it into its function."""
    if isinstance(model.train_function, Steps):
        model.train_function.train(model.train_function.only)
    elif model.train_function is not None:
        model.make_train_function(force=True)


def unwatch(model):
    """Takes the `Steps` off again."""
    if isinstance(model.train_function, Steps):
        model.train_function = model.train_function.function


def _recover(model, state):
    """Gives the variables back what the failed step was to start from: JAX's `fit` has taken their values away."""
    if any(value.is_deleted() for values in state for value in values):
        return  # the step failed after XLA had taken them; what Keras keeps is all there is
    trainable, others, optimizer, metrics = state
    variables = [model.trainable_variables, model.non_trainable_variables, model.optimizer.variables]
    for references, values in zip([*variables, model.metrics_variables], (trainable, others, optimizer, metrics)):
        for reference, value in zip(references, values):
            reference.assign(value)
    private.forget_jax_state(model)  # which may be divided otherwise


def sync(model):
    """Gives the model's variables their values in the middle of an epoch, which only JAX keeps elsewhere."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
