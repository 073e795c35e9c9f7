"""The rates of the ladder's groups, as multiples of an optimizer's."""

import dataclasses
import numbers
import re

import keras

from keras_transfer.adaptation.groups import layer_groups
from keras_transfer.adaptation.selection import select_groups
from keras_transfer.training import private


@dataclasses.dataclass
class RateGroup:
    """A group of the ladder as an optimizer knows it, by the paths of its weights."""

    name: str
    rate: float
    pretrained: bool
    paths: list


def rate_groups(model, decay=None, rates=None, groups=None):
    """Returns a `RateGroup` for each group of the ladder; `LayerwiseOptimizer` says what the arguments mean."""
    if decay is not None and not (is_number(decay) and 0 < decay <= 1):
        raise ValueError(f"`decay` is a factor from each group to the next lower one, in (0, 1]. Received: {decay!r}")
    if not isinstance(rates or {}, dict):
        raise ValueError(f"`rates` is a dict from groups to multiples of the optimizer's rate. Received: {rates!r}")
    ladder = layer_groups(model, groups)
    factors = {group.name: (decay or 1.0) ** (len(ladder) - 1 - group.depth) for group in ladder}
    said = {}
    for selection, rate in (rates or {}).items():
        if not (is_number(rate) and 0 <= rate < float("inf")):
            raise ValueError(f"a rate is a multiple of the optimizer's, at least 0. Received: {selection!r}: {rate!r}")
        for group in select_groups(ladder, selection):
            if group.name in said:
                raise ValueError(
                    f"each group has one rate. Received: {group.name!r} in {said[group.name]!r} and in {selection!r}"
                )
            said[group.name] = selection
            factors[group.name] = float(rate)
    found = [RateGroup(g.name, factors[g.name], g.pretrained, [v.path for v in g.variables]) for g in ladder]
    homes = {}
    for group in found:
        for path in group.paths:
            if path in homes:
                raise ValueError(
                    "weights are told apart by their paths: give the layers different names. Received: "
                    f"{path!r} in {homes[path].name!r} and in {group.name!r}"
                )
            homes[path] = group
    return found


def is_number(value):
    """Whether a value is a real number, and no bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def groups_of(groups, weights, built_for, model_weights):
    """Returns `(group, path)` of each weight, by its path; where layers have other names now, by its place.

    Args:
        groups: list of `RateGroup`.
        weights: list of `keras.Variable`.
        built_for: list of the paths for which the optimizer was built when it was saved; None if it was not.
        model_weights: dict from paths to the weights of the model that the groups are of; empty out of a config.

    Raises:
        ValueError: the groups are of another model.
    """
    homes = {path: group for group in groups for path in group.paths}
    if model_weights:
        found = [weight.path if model_weights.get(weight.path) is weight else None for weight in weights]
    else:
        found = [find_path(homes, weight.path) for weight in weights]
    if None in found and built_for is not None and len(built_for) == len(weights):
        found = list(built_for)
    if None in found:
        unknown = [weight.path for weight, path in zip(weights, found) if path is None]
        hint = "" if model_weights else " (Layers that Keras names have others after loading: name them yourself.)"
        raise ValueError(
            f"this optimizer was made for another model, with the weights {list(homes)}.{hint} Received: {unknown}"
        )
    return [(homes[path], path) for path in found]


def find_path(known, path):
    """Returns the one of the known paths that is `path`, or differs by a name in front alone; None if none or several.

    (A `Sequential` puts its name in front of its layers' or not, depending on how it was built.)
    """
    if path in known:
        return path
    like = [other for other in known if other.endswith(f"/{path}") or path.endswith(f"/{other}")]
    return like[0] if len(like) == 1 else None


def check_pattern(optimizer):
    """Raises a ValueError for an optimizer that cannot be made anew for each group."""
    ours = keras.optimizers.Optimizer
    if not isinstance(optimizer, ours):
        raise ValueError(f"`optimizer` must be a Keras optimizer or its name. Received: {optimizer!r}")
    if type(optimizer).apply is not ours.apply:
        raise ValueError(
            "an optimizer that wraps others goes outside: `LossScaleOptimizer(LayerwiseOptimizer(AdamW()))`. "
            f"Received: {type(optimizer).__name__}"
        )
    if isinstance(optimizer, keras.optimizers.Nadam):
        raise ValueError(
            "Nadam updates a number of its own once a step, outside `update_step`: use Adam or AdamW. Received: Nadam"
        )
    if optimizer.built:
        raise ValueError(
            f"the optimizer must be new: what it has learnt would be lost. Received: a {type(optimizer).__name__} "
            "that has been built"
        )
    config = optimizer.get_config()
    if config.get("adam_weight_decay", config["weight_decay"]) != config["weight_decay"]:  # Muon
        raise ValueError(
            "there is one `weight_decay` for all weights: give `adam_weight_decay` the same. Received: "
            f"{config['weight_decay']} and {config['adam_weight_decay']}"
        )
    if private.excludes_from_decay(optimizer):
        raise ValueError(
            "what weight decay leaves alone is said by `decay_norms_and_biases`. Received: an optimizer with "
            "`exclude_from_weight_decay`"
        )


def rate_of(optimizer):
    """The float, schedule or function that an optimizer was made with."""
    rate = private.learning_rate(optimizer)
    return float(keras.ops.convert_to_numpy(rate)) if isinstance(rate, keras.Variable) else rate


def like(kind, config, name):
    """A new optimizer of a kind; only its `update_step` will be used, which is told the rate."""
    name = "group_" + re.sub(r"\W", "_", name, flags=re.ASCII)  # as TensorFlow takes names
    return kind.from_config({**config, "learning_rate": 1.0, "name": name})


def slots_of(optimizer, variables, paths):
    """Returns what an optimizer keeps beside each weight, as a dict from ids of variables to `(path, name)`.

    The variables' own names do not always say it. But an optimizer finds a weight's slots by its number, in lists as
    long as that of the weights.

    Args:
        optimizer: a built `keras.Optimizer`.
        variables: list of its variables.
        paths: list of the paths of the weights that it was built for.
    """
    own, found = {id(variable) for variable in variables}, {}
    for name, values in vars(optimizer).items():
        # The list of all variables begins with the count of steps.
        if isinstance(values, (list, tuple)) and len(values) == len(paths) and values[0] is not variables[0]:
            found |= {id(slot): (path, name.strip("_")) for path, slot in zip(paths, values) if id(slot) in own}
    return found
