"""The steps of a running `fit`: contexts around each step, and batches that are skipped."""

import contextlib
import itertools

from keras_transfer.keras_internals import trainer


class Steps:
    """Replaces `model.train_function` and calls the function that Keras made inside the contexts of callbacks.

    Keras does not notify callbacks when `fit` raises an error. Callbacks of this library therefore change a model only
    inside a step, so the model has its original settings again, however `fit` ends. If `fit` raises an error, this
    object remains until the next step. No callback announces that step, so this object removes itself.

    Attributes:
        model: The model. (`Callback.model` copies all weights out of a running `fit` on JAX.)
        contexts: Dict from callbacks to functions that return a context manager, entered around each step.
        skipping: Bool. Whether to take the next batches from the data and do nothing with them.
        iterator: The iterator from which the last step took its batches. On torch, the batches themselves.
    """

    def __init__(self, model, run):
        self.model, self.run, self.contexts = model, run, {}
        self.skipping, self.iterator = False, None
        self._announced, self._rebuilt, self._orders = False, False, None
        model.make_train_function()
        self.function, model.train_function = model.train_function, self

    def announce(self):
        """Announces a step of this `fit`."""
        self._announced = True

    def rebuild(self):
        """Makes Keras create its function again, which is traced with the weights that train inside the contexts."""
        sync(self.model)  # With a distribution on JAX, Keras reads the placement of the weights.
        outside = _orders(self.model)
        with self._entered():
            inside = _orders(self.model)
            self.model.make_train_function(force=True)
        self.function, self.model.train_function = self.model.train_function, self
        self._rebuilt, self._orders = True, (outside, inside)

    def leave(self, callback):
        """Removes the context of a callback, and removes this object together with the last context."""
        self.contexts.pop(callback, None)
        if not self.contexts:
            self._remove()

    def _remove(self):
        if self.model.train_function is self:  # The model was not compiled again.
            self.model.train_function = None if self._rebuilt else self.function
        self.function = None  # While it exists, JAX uses its trace for a new function.

    def __call__(self, *args):
        if not self._announced:
            self._remove()
            self.model.make_train_function()
            return self.model.train_function(*args)
        self._announced, self.iterator = False, args[-1]
        *state, data = args  # Only JAX passes a state.
        if self.skipping:
            if hasattr(data, "__next__") and not list(itertools.islice(data, self.model.steps_per_execution)):
                raise StopIteration
            return ({}, *state) if state else {}
        with self._entered():
            if not state:
                return self.function(data)
            try:
                logs, new = self.function(self._reordered(state[0], inwards=True), data)
                return logs, self._reordered(new, inwards=False)
            except BaseException:
                _recover(self.model, self._reordered(state[0], inwards=True))
                raise

    @contextlib.contextmanager
    def _entered(self):
        with contextlib.ExitStack() as stack:
            for context in self.contexts.values():
                stack.enter_context(context())
            yield

    def _reordered(self, state, inwards):
        """Returns JAX's state with the trainable and other variables divided as inside or outside of a step."""
        if self._orders is None:
            return state
        before, after = self._orders if inwards else reversed(self._orders)
        trainable, others, *rest = state
        values = dict(zip([*before[0], *before[1]], [*trainable, *others], strict=True))
        return (*([values[key] for key in part] for part in after), *rest)


def _orders(model):
    return [[id(variable) for variable in part] for part in (model.trainable_variables, model.non_trainable_variables)]


def _recover(model, state):
    """Restores the values that the variables had before a failed step, because Keras on JAX took them away."""
    if any(value.is_deleted() for values in state for value in values):
        return  # XLA has already taken them. Only the values that Keras keeps are left.
    owners = model.trainable_variables, model.non_trainable_variables, model.optimizer.variables
    for variables, values in zip((*owners, model.metrics_variables), state):
        for variable, value in zip(variables, values):
            variable.assign(value)
    trainer.forget_jax_state(model)


def watch(model, run):
    """Returns the `Steps` of a running `fit`.

    Args:
        model: The model.
        run: The `params` of a callback, which all callbacks of a `fit` share.
    """
    current = model.train_function
    if isinstance(current, Steps):
        if current.run is run:
            return current
        current._remove()  # An earlier `fit` failed.
    return Steps(model, run)


def retrace(model):
    """Makes the next step train the weights that are trainable now."""
    if isinstance(model.train_function, Steps):
        model.train_function.rebuild()
    elif model.train_function is not None:
        model.make_train_function(force=True)


def sync(model):
    """Updates the variables during an epoch, in which Keras on JAX keeps their values elsewhere."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()
