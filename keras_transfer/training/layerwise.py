"""An optimizer that wraps another one: learning rates, weight decay, penalties and step counts per layer group."""

import collections
import contextlib
import dataclasses
import logging
import re
import urllib.parse
from typing import Any

import keras
from keras import ops

from keras_transfer.core.expect import Rule, expect, expects, number
from keras_transfer.keras_internals import layers_within, optimizers
from keras_transfer.layers import Adapter
from keras_transfer.training.fused_adamw import FusedAdamW
from keras_transfer.training.gradients import add_up_rows
from keras_transfer.training.groups import is_norm_or_bias, layer_groups
from keras_transfer.training.penalties import Penalty
from keras_transfer.training.rates import (
    RateGroup,
    check_pattern,
    groups_of,
    have_same_paths,
    rate_groups,
    rate_of,
)

log = logging.getLogger("keras_transfer")

# The wrapper applies these arguments itself, once for all groups.
SHARED = (
    "learning_rate",
    "weight_decay",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "use_ema",
    "ema_momentum",
    "ema_overwrite_frequency",
    "loss_scale_factor",
    "gradient_accumulation_steps",
)


@dataclasses.dataclass
class WeightRecord:
    """The group of a weight, the optimizer that updates it, and what its penalty needs."""

    group: RateGroup
    path: str
    optimizer: keras.optimizers.Optimizer
    decays: bool
    penalized: bool
    start: keras.Variable | None = None
    importance: keras.Variable | None = None

    @property
    def has_start(self):
        return self.group.starts_at(self.path)


@keras.saving.register_keras_serializable(package="keras_transfer")
class LayerwiseOptimizer(keras.optimizers.Optimizer):
    """Wraps a Keras optimizer to give each layer group its own learning rate.

    Each layer group has its own clone of the optimizer, with its own moments and step count. A group that begins to
    train late, for example with `GradualUnfreezing`, therefore starts at step 0. With a single step count for all
    groups, Adam would make its first hundred steps 3 to 6 times too large. Schedules and `LearningRateScheduler` set
    the rate of the top group from the steps of the run. The rates of the other groups are multiples of it.

    Decoupled weight decay (`AdamW(weight_decay=...)`) is scaled by the rate of each group, and excludes biases,
    normalization weights, and weights that a penalty pulls toward their start. Clipping, moving averages and gradient
    accumulation work as in Keras.

    Args:
        optimizer: Unbuilt Keras optimizer, or its name. It is cloned and does not change. `FusedAdamW` is the fastest
            one on TensorFlow. Ftrl, Muon and Nadam are not supported.
        model: Built model to train. It is required, except for `from_config`. Defaults to `None`.
        decay: Float in (0, 1]. Ratio between the learning rates of adjacent layer groups. The top group has the
            optimizer's rate, and each lower group has `decay` times the rate of the group above. ULMFiT uses `1 / 2.6`.
            A common value for Transformers is `0.95`. Adafactor limits each rate to `1 / sqrt(step)`: groups above this
            limit have equal rates. Defaults to `None`, one rate for all groups.
        rates: Dict from selections of layer groups, in any form that `select_groups` accepts, to multiples of the
            optimizer's rate. They override `decay`. Defaults to `None`, for no overrides.
        penalty: `L2SP` or `EWC`. Penalty on the distance of the weights from their current values. The callback
            `PenaltyLogger` logs its value. Defaults to `None`, for no penalty.
        decay_norms_and_biases: Boolean. Whether weight decay includes biases and normalization weights. Defaults to
            `False`.
        groups: List of `(name, regex)`, as for `layer_groups`, to group the weights differently. Defaults to `None`,
            the default groups.
        name: String. Defaults to `"layerwise"`.
        built_for: List of weight paths. Only `from_config` sets it: the weights that the optimizer was built for or, if
            some paths are not unique, would be built for. Defaults to `None`.

    Raises:
        ValueError: If a rate is negative; if a layer group does not exist, or the penalty applies to none; or if the
            optimizer is already built, wraps another one, or is not supported. When it is built, if the weights belong
            to a different model.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    optimizer = keras_transfer.optimizers.LayerwiseOptimizer("adam", model, decay=1 / 2.6)
    model.compile(optimizer, "mse")
    ```

    Source: https://arxiv.org/abs/1801.06146, section 3.2 (rates by layer). torch's optimizers count the steps of each
    weight in the same way.
    """

    @expects(
        decay=number(most=1, above=0),
        rates=Rule("a dict from layer groups to multipliers", lambda value: isinstance(value, dict), (0.5,)),
        penalty=Rule("an `L2SP` or an `EWC`", lambda value: isinstance(value, Penalty), ("l2sp",)),
    )
    def __init__(
        self,
        optimizer: Any,
        model: keras.layers.Layer | None = None,
        *,
        decay: float | None = None,
        rates: dict[Any, float] | None = None,
        penalty: Penalty | None = None,
        decay_norms_and_biases: bool = False,
        groups: Any = None,
        name: str = "layerwise",
        built_for: list[str] | None = None,
    ) -> None:
        optimizer = keras.optimizers.get(optimizer) if isinstance(optimizer, (str, dict)) else optimizer
        check_pattern(optimizer)
        config = optimizer.get_config()
        shared = {key: config[key] for key in SHARED if key in config}
        own = {key: value for key, value in config.items() if key not in SHARED or key == "weight_decay"}
        decoupled_decay = shared.pop("weight_decay", None)
        super().__init__(**{**shared, "learning_rate": rate_of(optimizer)}, name=name)
        self.decoupled_decay = decoupled_decay  # Keras would not scale `weight_decay` by the rates.
        weights, starts = {}, {}
        if isinstance(model, keras.layers.Layer):
            parts = layer_groups(model, groups)
            self.groups = rate_groups(parts, decay, rates, [] if penalty is None else penalty.select(parts))
            weights = _by_path(model, parts, self.groups)
            starts = {} if penalty is None else _starts(model, weights, self.groups, penalty)
        elif groups and all(isinstance(group, RateGroup) for group in groups):  # They come from a config.
            self.groups = list(groups)
        else:
            raise ValueError(f"`model` must be the built model to train. Received: model={model!r}")
        if penalty is not None and decoupled_decay:
            rule = "`penalty` pulls all weights, so that none would decay. Pass an optimizer with `weight_decay=0.0`."
            is_partial = not (penalty.penalizes_new_weights or all(group.has_start for group in self.groups))
            expect(is_partial, rule, weight_decay=decoupled_decay, penalty=penalty)
        self.penalty = penalty
        self.decay_norms_and_biases = decay_norms_and_biases
        self._set_untracked(_class=type(optimizer), _own=own, _built_for=built_for, _saved_for=set(built_for or ()))
        self._set_untracked(_records=[], _slots={}, _weights=weights, _starts=starts, _rates_now={})

    @property
    def rates(self) -> dict[str, float]:
        """Dict from names of layer groups, lowest first, to multiples of the learning rate."""
        return {group.name: group.rate for group in self.groups}

    def exclude_from_weight_decay(self, *arguments, **options):
        """Is not supported. Pass `decay_norms_and_biases` to the constructor instead.

        Args:
            *arguments: Arguments of Keras's method.
            **options: Arguments of Keras's method.

        Raises:
            ValueError: If it is called.
        """
        raise ValueError(
            "`exclude_from_weight_decay` is not supported. Pass `decay_norms_and_biases` to the constructor. "
            f"Received: {arguments} {options}"
        )

    def group_optimizers(self) -> list[keras.optimizers.Optimizer]:
        """Returns the optimizers that update the trainable layer groups.

        This is not an attribute, because Keras would then save the optimizers a second time.

        Returns:
            List of Keras optimizers, which is empty before `build`.
        """
        return list({id(record.optimizer): record.optimizer for record in self._records}.values())

    def penalty_value(self) -> float:
        """Returns the current value of the penalty, over all weights for which the optimizer was built.

        Returns:
            Float.

        Raises:
            ValueError: If the optimizer has no penalty or is not built.
        """
        rule = "The optimizer must have a penalty and be built, for example by `fit`."
        expect(self.penalty is not None and self.built, rule, penalty=self.penalty, built=self.built)
        pairs = zip(optimizers.built_for(self), self._records)
        return self.penalty.value([(w, r.start, r.importance) for w, r in pairs if r.penalized])

    def kept_variables(self) -> list[keras.Variable]:
        """Returns the variables that a restart of the optimizer keeps, which belong to its penalty.

        Returns:
            List of `keras.Variable`s.
        """
        return [variable for r in self._records for variable in (r.start, r.importance) if variable is not None]

    # === The interface of Keras's optimizer ===

    def build(self, variables):
        if self.built:
            return
        owners = groups_of(self.groups, variables, self._built_for, self._weights)
        paths = [path for _, path in owners]
        super().build(variables)
        records, slots = {}, optimizers.slots_of(self, super().variables, paths)
        for group in self.groups:
            own = [(variable, path) for variable, (owner, path) in zip(variables, owners) if owner is group]
            if own:
                name = "group_" + re.sub(r"\W", "_", group.name, flags=re.ASCII)  # TensorFlow requires ASCII.
                optimizer = self._class.from_config({**self._own, "learning_rate": 1.0, "name": name})
                optimizer.build([variable for variable, _ in own])
                slots |= optimizers.slots_of(optimizer, optimizer.variables, [path for _, path in own])
                for variable, path in own:
                    penalized = self.penalty is not None and self.penalty.includes(variable)
                    decays = self.decay_norms_and_biases or not is_norm_or_bias(variable)
                    decays = decays and not (penalized and group.starts_at(path))
                    records[id(variable)] = WeightRecord(group, path, optimizer, decays, penalized)
        records = [records[id(variable)] for variable in variables]
        self._set_untracked(_records=records, _slots=slots, _built_for=paths)
        if self.penalty is not None:
            self._build_penalty(variables)

    def _build_penalty(self, variables):
        pulled = [pair for pair in zip(variables, self._records) if pair[1].penalized and pair[1].has_start]
        self.penalty.check([variable for variable, _ in pulled])
        for variable, record in pulled:
            start = self._starts.pop(record.path, variable)  # A loaded optimizer gets its start values from the file.
            record.start = self._slot(variable, record.path, "start", start)
            importance = self.penalty.importance(variable)
            if importance is not None:
                record.importance = self._slot(variable, record.path, "importance", importance)
        if self.penalty.needs_distance:
            self._distance = self.add_variable((), name="distance", aggregation="only_first_replica")

    def _slot(self, variable, path, name, values):
        # An initializer works even if Keras on TensorFlow builds the optimizer inside its graph.
        slot = self.add_variable_from_reference(
            variable, name, initializer=lambda shape, dtype=None: ops.copy(ops.convert_to_tensor(values, dtype))
        )
        self._slots[id(slot)] = (path, name)
        return slot

    @property
    def variables(self):
        """List of the variables of the wrapper and of the optimizers of all layer groups."""
        return super().variables + [variable for part in self.group_optimizers() for variable in part.variables]

    def apply(self, grads, trainable_variables=None):
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            if not self.built:
                with keras.name_scope(self.name):
                    self.build(trainable_variables)
        weights = optimizers.variables_of(self) if trainable_variables is None else trainable_variables
        grads = add_up_rows(grads)
        weights = [weight for gradient, weight in zip(grads, weights) if gradient is not None]
        if self.penalty is not None:
            self.penalty.check_complete()
            if self.penalty.needs_distance:
                self._distance.assign(self._distance_of(weights))
        before = ops.convert_to_tensor(self.iterations) + 0  # The sum is a copy, which does not follow the variable.
        updating = {id(r.optimizer): r.optimizer for r in map(self._record, weights)}.values()
        with contextlib.ExitStack() as contexts:
            for optimizer in updating:
                if isinstance(optimizer, FusedAdamW):
                    contexts.enter_context(optimizer.one_step())
            self._set_untracked(_rates_now={})
            super().apply(grads, trainable_variables)
            self._set_untracked(_rates_now={})
        updates = ops.convert_to_tensor(self.iterations) - before  # This is 0 while gradients are accumulated.
        for optimizer in updating:
            optimizer.iterations.assign_add(updates)

    def update_step(self, gradient, variable, learning_rate):
        record = self._record(variable)
        if record.penalized:
            distance = self._distance if self.penalty.needs_distance else None
            term = self.penalty.gradient(variable, record.start, record.importance, distance)
            gradient = ops.convert_to_tensor(gradient) + ops.cast(term, gradient.dtype)
        rate = self._rate_now(record, variable, learning_rate)
        if record.decays and self.decoupled_decay:
            self.assign_sub(variable, variable * (rate * self.decoupled_decay))
        record.optimizer.update_step(gradient, variable, rate)

    def _rate_now(self, record, variable, learning_rate):
        """Returns the rate of a weight in this step, which all weights of a layer group share."""
        key = record.group.name, variable.dtype
        if key not in self._rates_now:
            self._rates_now[key] = ops.cast(learning_rate, variable.dtype) * record.group.rate
        return self._rates_now[key]

    def _record(self, variable):
        return self._records[optimizers.place_of(self, variable)]

    def _distance_of(self, weights):
        """Returns the norm of the distance of weights from their start. Weights without a start are skipped."""
        squares = [
            ops.sum(ops.square(ops.cast(weight, "float32") - ops.cast(record.start, "float32")))
            for weight, record in zip(weights, map(self._record, weights))
            if record.start is not None
        ]
        return ops.sqrt(sum(squares)) if squares else 0.0

    # === Saving, by the paths of the weights ===

    def set_weights(self, weights):
        """Sets the values of all variables.

        Args:
            weights: List of arrays, one for each of `variables`.
        """
        for variable, value in zip(self.variables, weights, strict=True):  # Keras sets only the wrapper's variables.
            variable.assign(value)

    def save_own_variables(self, store):
        for key, variable in self._named_variables():
            store[key] = ops.convert_to_numpy(variable)
        for path, start in self._starts.items():  # These weights have been frozen so far.
            store[_key(path, "start")] = start
            importance = self.penalty.importance(self._weights[path])
            if importance is not None:
                store[_key(path, "importance")] = importance

    def load_own_variables(self, store):
        if not self.built:
            log.warning(
                "The optimizer is not built, so it does not load its state from the file. Call "
                "`optimizer.build(model.trainable_variables)` before you load the file."
            )
            return
        here, saved = dict(self._named_variables()), set(store.keys())
        missing = [key for key in here if key not in saved]
        if not self._weights:  # The optimizer itself comes from a file.
            self._check_file(missing)
        for key in saved & set(here):
            here[key].assign(store[key])
        if missing and int(ops.convert_to_numpy(self.iterations)):
            log.warning("The file contains no state for these optimizer slots, which keep their values: %s", missing)
        if self.penalty is not None:
            self.penalty.complete()

    def _check_file(self, missing):
        paths = {record.path for record in self._records}
        expect(
            len(self._saved_for) != len(paths) or self._saved_for == paths,
            "The trainable weights must have the same paths as in the file. Name each layer, so that its paths do not "
            f"change. Expected: {sorted(self._saved_for)}.",
            paths=sorted(paths),
        )
        lost = [key for key in missing if key.endswith((":start", ":importance"))]
        rule = "The file must contain the state of the penalty. Save the model again with this optimizer."
        expect(not lost, rule, missing=lost)

    def _named_variables(self):
        """Yields `(key, variable)`. A key contains group, weight and slot, as model or file may lack frozen weights."""
        names = {id(record.optimizer): record.group.name for record in self._records}
        parts = [((), super().variables), *(((names[id(part)],), part.variables) for part in self.group_optimizers())]
        seen = collections.Counter()
        for group, variables in parts:
            for variable in variables:
                key = _key(*group, *self._slots.get(id(variable), ("", variable.name)))
                seen[key] += 1
                yield key if seen[key] == 1 else f"{key}:{seen[key]}", variable

    def get_config(self):
        built_for = self._built_for
        if built_for is None and have_same_paths(self.groups):  # Only their order distinguishes weights of equal paths.
            built_for = [path for path, weight in self._weights.items() if weight.trainable]
        return {
            "optimizer": keras.saving.serialize_keras_object(self._pattern()),
            "groups": [dataclasses.asdict(group) for group in self.groups],
            "penalty": keras.saving.serialize_keras_object(self.penalty),
            "decay_norms_and_biases": self.decay_norms_and_biases,
            "name": self.name,
            "built_for": built_for,
        }

    def _pattern(self):
        """Returns the wrapped optimizer with the current learning rate."""
        return self._class.from_config({**super().get_config(), **self._own})

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        config.pop("sparse_embeddings", None)  # Version 0.1 had this option.
        for part in ("optimizer", "penalty"):
            config[part] = keras.saving.deserialize_keras_object(config[part], custom_objects=custom_objects)
        config["groups"] = [RateGroup(**group) for group in config["groups"]]
        return cls(**config)

    def _set_untracked(self, **values):
        """Sets attributes whose variables Keras must not track as the optimizer's own."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _by_path(model, parts, groups):
    """Returns a dict from the paths in `RateGroup`s to the weights of layer groups, in the order of the model."""
    paths = [path for group in groups for path in group.paths]
    weights = dict(zip(paths, (weight for part in parts for weight in part.variables), strict=True))
    known = {id(weight): path for path, weight in weights.items()}
    return {known[id(weight)]: weight for weight in model.variables if id(weight) in known} | weights


def _starts(model, weights, groups, penalty):
    """Returns a dict from the paths of weights to the arrays from which a penalty measures their distance.

    If not all weights of a group have a start, it also adds the paths of its adapter weights to the group.
    """
    of_adapters = {}
    if penalty.penalizes_new_weights:
        adapters = [layer for layer, _ in layers_within(model) if isinstance(layer, Adapter)]
        of_adapters = {id(weight): value for layer in adapters for weight, value in layer.starts()}
    found = {}
    for group in groups:
        paths = [path for path in group.paths if path in weights and penalty.includes(weights[path])]
        if group.has_start:
            found |= {path: ops.convert_to_numpy(weights[path]).copy() for path in paths}
        else:
            group.starts = [path for path in paths if id(weights[path]) in of_adapters]
            found |= {path: of_adapters[id(weights[path])] for path in group.starts}
    return found


def _key(*names):
    return ":".join(urllib.parse.quote(name, safe=" ") for name in names)  # A slash would create a group in the file.
