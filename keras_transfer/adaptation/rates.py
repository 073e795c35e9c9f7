"""The rates of the ladder's groups, as multiples of an optimizer's."""

import dataclasses

import keras

from keras_transfer.adaptation.groups import layer_groups
from keras_transfer.adaptation.selection import select_groups


@dataclasses.dataclass
class RateGroup:
    """A group of the ladder as an optimizer knows it, by the paths of its weights."""

    name: str
    rate: float
    pretrained: bool
    paths: list


def rate_groups(model, decay=None, rates=None, groups=None):
    """Returns a `RateGroup` for each group of the ladder; `LayerwiseOptimizer` says what the arguments mean."""
    if decay is not None and not 0 < decay <= 1:
        raise ValueError(f"`decay` is a factor from each group to the next lower one, in (0, 1]. Received: {decay}")
    ladder = layer_groups(model, groups)
    factors = {group.name: (decay or 1.0) ** (len(ladder) - 1 - group.depth) for group in ladder}
    said = {}
    for selection, rate in (rates or {}).items():
        if not 0 <= rate < float("inf"):
            raise ValueError(f"a rate is a multiple of the optimizer's, at least 0. Received: {selection!r}: {rate}")
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
            if homes.setdefault(path, group) is not group:
                raise ValueError(
                    "weights are told apart by their paths: give the layers different names. Received: "
                    f"{path!r} in {homes[path].name!r} and in {group.name!r}"
                )
    return found


def groups_of(groups, weights, built_for):
    """Returns `(group, path)` of each weight, by its path; where layers have other names now, by its place.

    Args:
        groups: list of `RateGroup`.
        weights: list of `keras.Variable`.
        built_for: list of the paths for which the optimizer was built when it was saved; None if it was not.

    Raises:
        ValueError: the groups are of another model.
    """
    homes = {path: group for group in groups for path in group.paths}
    found = [find_path(homes, weight.path) for weight in weights]
    if None in found and built_for is not None and len(built_for) == len(weights):
        found = list(built_for)
    if None in found:
        unknown = [weight.path for weight, path in zip(weights, found) if path is None]
        raise ValueError(f"this optimizer was made for a model with the weights {list(homes)}. Received: {unknown}")
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
    if getattr(optimizer, "_exclude_from_weight_decay", None) or getattr(
        optimizer, "_exclude_from_weight_decay_pattern", None
    ):
        raise ValueError(
            "what weight decay leaves alone is said by `decay_norms_and_biases`. Received: an optimizer with "
            "`exclude_from_weight_decay`"
        )


def like(kind, config, name):
    """A new optimizer of a kind; only its `update_step` will be used, which is told the rate."""
    return kind.from_config({**config, "learning_rate": 1.0, "name": name})
