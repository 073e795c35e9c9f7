"""How an optimizer updates its variables in the steps of a context."""

import contextlib
import weakref

from keras_transfer.keras_internals.optimizer_state import innermost, variables_of

# Maps optimizers to the number of contexts in which they apply changed gradients, and to their own `apply`.
_changed = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def updating_with(optimizer, update):
    """Makes an optimizer, or the one that it wraps, update each weight with another function in this context.

    Args:
        optimizer: Keras optimizer.
        update: Function of the gradient, the variable, the learning rate, and whether the variable decays. Keras itself
            applies no weight decay in this context.
    """
    part = innermost(optimizer)
    decay, decays = part.weight_decay, part._use_weight_decay

    def update_step(gradient, variable, learning_rate):
        update(gradient, variable, learning_rate, bool(decay) and decays(variable))

    try:
        object.__setattr__(part, "update_step", update_step)
        object.__setattr__(part, "weight_decay", None)
        yield
    finally:
        object.__delattr__(part, "update_step")
        object.__setattr__(part, "weight_decay", decay)


@contextlib.contextmanager
def clipping_with(optimizer, clip):
    """Makes an optimizer with `global_clipnorm`, or the one that it wraps, clip gradients with `clip` in this context.

    Args:
        optimizer: Keras optimizer.
        clip: Function of the list of gradients, some of which may be None, and the norm. Returns the clipped list.
    """
    part = innermost(optimizer)
    if not part.global_clipnorm:
        yield
        return
    try:
        object.__setattr__(part, "_clip_gradients", lambda gradients: clip(gradients, part.global_clipnorm))
        yield
    finally:
        object.__delattr__(part, "_clip_gradients")


@contextlib.contextmanager
def applying_with(optimizer, change):
    """Makes an optimizer apply changed gradients in this context.

    The steps of several replicas overlap, so the last context to end restores the optimizer.

    Args:
        optimizer: Keras optimizer.
        change: Function of the lists of gradients and variables that returns the changed list of gradients.
    """

    contexts, inner = _changed.get(optimizer, (0, optimizer.apply))

    def apply(gradients, trainable_variables=None):
        weights = variables_of(optimizer) if trainable_variables is None else list(trainable_variables)
        return inner(change(list(gradients), weights), weights)

    try:
        if not contexts:
            object.__setattr__(optimizer, "apply", apply)
        _changed[optimizer] = contexts + 1, inner
        yield
    finally:
        contexts = _changed[optimizer][0] - 1
        _changed[optimizer] = contexts, inner
        if not contexts:
            del _changed[optimizer]
            object.__delattr__(optimizer, "apply")
            if optimizer.apply != inner:  # It was an attribute of this object.
                object.__setattr__(optimizer, "apply", inner)
