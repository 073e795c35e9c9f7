"""Learning rates of layer groups, as multiples of an optimizer's learning rate."""

import collections
import dataclasses

import keras

from keras_transfer.core.expect import expect, number
from keras_transfer.keras_internals import optimizers
from keras_transfer.training.fused_adamw import FusedAdamW
from keras_transfer.training.groups import select_groups

# Up to this version of Keras, except on JAX, its step reads a slot after having changed it.
_SCHEDULE_FREE_IS_WRONG = (3, 15, 1)
# They divide by the rate, decay some weights differently, and keep state outside of `update_step`.
UNSUPPORTED = (keras.optimizers.Ftrl, keras.optimizers.Muon, keras.optimizers.Nadam)


@dataclasses.dataclass
class RateGroup:
    """A layer group with its rate, which refers to its weights by path.

    If several weights have the same path, such as the weights of a generator and its encoder, all except the first have
    a number appended. If `has_start` is False, only the weights in `starts` are penalized for their distance from their
    start.
    """

    name: str
    rate: float
    has_start: bool
    paths: list
    starts: list = dataclasses.field(default_factory=list)

    def starts_at(self, path):
        """Returns whether a weight of the group is penalized for its distance from its start."""
        return self.has_start or path in self.starts


def rate_groups(groups, decay=None, rates=None, with_start=()):
    """Returns a `RateGroup` for each layer group.

    Args:
        groups: The `LayerGroups` of a model.
        decay: Float or `None`, as for `LayerwiseOptimizer`.
        rates: Dict or `None`, as for `LayerwiseOptimizer`.
        with_start: List of the layer groups that `Penalty.select` returns. Defaults to `()`.
    """
    factors = {group.name: (decay or 1.0) ** (len(groups) - 1 - group.depth) for group in groups}
    selections = {}
    for selection, rate in (rates or {}).items():
        expect(number(0).is_met(rate), "The values of `rates` must be at least 0.", rates={selection: rate})
        for group in select_groups(groups, selection):
            if group.name in selections:
                raise ValueError(
                    f"`rates` must select each layer group only once. Received: {group.name!r}, which matches both "
                    f"{selections[group.name]!r} and {selection!r}"
                )
            selections[group.name] = selection
            factors[group.name] = float(rate)
    covered, numbered = {group.name for group in with_start}, _numbering()
    return [
        RateGroup(group.name, factors[group.name], group.name in covered, [numbered(v.path) for v in group.variables])
        for group in groups
    ]


def _numbering():
    """Returns a function that returns a path unchanged the first time, and later with a number appended."""
    counts = collections.Counter()

    def numbered(path):
        counts[path] += 1
        return path if counts[path] == 1 else f"{path}#{counts[path] - 1}"

    return numbered


def groups_of(groups, weights, built_for, model_weights):
    """Returns `(group, path)` for each weight, found by its path, or by its position if layers have new names.

    Args:
        groups: List of `RateGroup`s.
        weights: List of `keras.Variable`s.
        built_for: List of the paths that a saved optimizer was built for or, if it was not built and some paths are not
            unique, would have been built for. Otherwise `None`.
        model_weights: Dict from paths, as in the groups, to weights of their model. Empty if the groups come from a
            config.
    """
    groups_by_path = {path: group for group in groups for path in group.paths}
    if model_weights:
        known = {id(weight): path for path, weight in model_weights.items()}
        found = [known.get(id(weight)) for weight in weights]
    else:
        numbered = _numbering()
        found = [find_path(groups_by_path, numbered(weight.path)) for weight in weights]
    # If weights are frozen, the first trainable weight with a path may not be the first weight with that path.
    ambiguous = not model_weights and have_same_paths(groups)
    if (None in found or ambiguous) and built_for is not None and len(built_for) == len(weights):
        found, ambiguous = list(built_for), False
    if None in found:
        unknown = [weight.path for weight, path in zip(weights, found) if path is None]
        hint = "" if model_weights else " Name each layer, because Keras renames unnamed layers on loading."
        raise ValueError(
            f"The optimizer was created for a model with the weights {list(groups_by_path)}.{hint} Received: {unknown}"
        )
    if ambiguous:
        raise ValueError(
            "If weights have the same path, an optimizer from a config must be built for the weights that were "
            "trainable when the config was made. Freeze the same weights, or create a new optimizer. "
            f"Expected: {len(built_for or ())} weights. Received: {len(weights)} weights"
        )
    return [(groups_by_path[path], path) for path in found]


def have_same_paths(groups):
    """Returns whether some weights of `RateGroup`s have the same path, so that some paths have a number appended."""
    paths = {path for group in groups for path in group.paths}
    return any(path.rpartition("#")[0] in paths for path in paths)


def find_path(known, path):
    """Returns the known path that equals `path` or differs only by a prefix, or `None` if it is not unique.

    A `Sequential` may or may not add its own name as a prefix, depending on how it was built.
    """
    if path in known:
        return path
    similar = [other for other in known if other.endswith(f"/{path}") or path.endswith(f"/{other}")]
    return similar[0] if len(similar) == 1 else None


def check_schedule_free(optimizer):
    """Raises a `ValueError` for a `ScheduleFreeAdamW` of Keras whose steps are wrong on this backend."""
    kind = getattr(keras.optimizers, "ScheduleFreeAdamW", ())
    if keras.backend.backend() == "jax" or not isinstance(optimizers.innermost(optimizer), kind):
        return
    if tuple(map(int, keras.__version__.split(".")[:3])) <= _SCHEDULE_FREE_IS_WRONG:
        raise ValueError(
            "`ScheduleFreeAdamW` computes wrong steps on TensorFlow and torch up to Keras "
            f"{'.'.join(map(str, _SCHEDULE_FREE_IS_WRONG))}, from the second one on. Use `AdamW` with a schedule. "
            f"Received: ScheduleFreeAdamW of Keras {keras.__version__} on {keras.backend.backend()}"
        )


def check_pattern(optimizer):
    """Raises a `ValueError` for an optimizer that cannot be cloned for each layer group."""
    base = keras.optimizers.Optimizer
    expect(isinstance(optimizer, base), "`optimizer` must be a Keras optimizer or its name.", optimizer=optimizer)
    check_schedule_free(optimizer)
    kind = type(optimizer)
    if issubclass(kind, UNSUPPORTED) or kind.apply not in (base.apply, FusedAdamW.apply):
        raise ValueError(
            "`optimizer` must update each weight independently, at any rate. Ftrl, Muon and Nadam are not supported, "
            "and neither are optimizers that wrap another one: wrap the `LayerwiseOptimizer` instead, for example "
            f"`LossScaleOptimizer(LayerwiseOptimizer(FusedAdamW()))`. Received: {kind.__name__}"
        )
    rule = "`optimizer` must not be built, because its state would be lost. Pass a new one."
    expect(not optimizer.built, rule, optimizer=optimizer)
    rule = "`exclude_from_weight_decay` is not supported. Use the argument `decay_norms_and_biases` of"
    expect(not optimizers.excludes_from_decay(optimizer), f"{rule} `LayerwiseOptimizer`.", optimizer=optimizer)


def fine_tuning_rate(model):
    """Returns the peak learning rate at which all weights of a task, or of any other model, fine-tune well."""
    return getattr(getattr(model, "encoder", None), "default_learning_rate", 5e-5)


def rate_of(optimizer):
    """Returns the learning rate that an optimizer was created with: a float, schedule or function."""
    rate = optimizers.learning_rate(optimizer)
    return float(keras.ops.convert_to_numpy(rate)) if isinstance(rate, keras.Variable) else rate
