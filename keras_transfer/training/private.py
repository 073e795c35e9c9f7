"""All that rests on names private to Keras: which weights a built optimizer updates, and what `fit` does not say.

A Keras optimizer is built once, for a list of weights. It keeps its slots at fixed places, and finds a weight's by an
index. To train some of these weights for a while, its list and its index are narrowed to them; the slots stay, and with
them the moments of the others. (JAX needs it, and so do moving averages; TensorFlow and torch do without.)
"""

import dataclasses
import weakref

import keras

_views = weakref.WeakKeyDictionary()


@dataclasses.dataclass
class View:
    """What an optimizer was built with, and the list that stands in it now."""

    variables: list
    index: dict
    averages: list
    shown: list


def selection(optimizer, variables):
    """Returns what `show` takes to let a built optimizer update these variables alone.

    Raises:
        ValueError: it was not built for some of them.
    """
    selected = []
    for part in _chain(optimizer):
        view = _view(part)
        keys = [part._var_key(variable) for variable in variables]
        unknown = [variable.path for variable, key in zip(variables, keys) if key not in view.index]
        if unknown:
            raise ValueError(
                "the optimizer was built while these weights were frozen, and has no state for them: compile the model "
                f"with a new optimizer first, then thaw them. Received: {unknown}"
            )
        averages = [view.averages[view.index[key]] for key in keys] if view.averages else None
        selected.append((part, list(variables), {key: view.index[key] for key in keys}, averages))
    return selected


def show(selected):
    """Narrows an optimizer to a `selection`, or widens it again."""
    for part, variables, index, averages in selected:
        _view(part).shown = variables
        # Past Keras's own __setattr__, which would track the model's weights as the optimizer's.
        object.__setattr__(part, "_trainable_variables", variables)
        object.__setattr__(part, "_trainable_variables_indices", index)
        if averages is not None:
            object.__setattr__(part, "_model_variables_moving_average", averages)


def shown(optimizer):
    """Returns the `selection` of what a built optimizer updates now."""
    return selection(optimizer, _view(optimizer).shown)


def start_averages(optimizer, variables):
    """Starts the moving averages of these variables from what they are now.

    Keras starts averages at its first step: those of a weight that begins later would start from zero.
    """
    for _, _, _, averages in selection(optimizer, variables):
        for variable, average in zip(variables, averages or []):
            if average is not None:
                average.assign(keras.ops.convert_to_numpy(variable).copy())  # JAX donates what is shared


def first_epoch(model):
    """The epoch in which `fit` is told to begin, instead of the one that it was given; None as a rule."""
    return model._initial_epoch


def begin_in(model, epoch):
    """Lets `fit` begin in an epoch, said in `on_train_begin`, as Keras's own backup does: no public way exists."""
    model._initial_epoch = epoch


def forget_jax_state(model):
    """Lets JAX's `fit` take the variables as they are now; else it would put back what it holds itself."""
    model._jax_state = None


def learning_rate(optimizer):
    """Returns the `keras.Variable`, schedule or function that an optimizer's rate is.

    (Its config has it too, but only what is registered comes out of a config.)
    """
    return optimizer._learning_rate


def excludes_from_decay(optimizer):
    """Whether an optimizer has been told to leave weights out of weight decay."""
    names = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    return any(getattr(optimizer, name, None) for name in names)


def place_of(optimizer, variable):
    """int, the place of a variable among those that an optimizer was built for."""
    return optimizer._get_variable_index(variable)


def updated_by(optimizer):
    """The list of the variables that an optimizer updates now."""
    return optimizer._trainable_variables


def _chain(optimizer):
    while optimizer is not None:
        yield optimizer
        optimizer = getattr(optimizer, "inner_optimizer", None)


def _view(optimizer):
    view = _views.get(optimizer)
    if view is None or view.shown is not optimizer._trainable_variables:  # built, or built anew, by Keras
        variables = optimizer._trainable_variables
        averages = list(optimizer._model_variables_moving_average) if optimizer.use_ema else []
        view = View(list(variables), dict(optimizer._trainable_variables_indices), averages, variables)
        _views[optimizer] = view
    return view
