"""One optimizer around any other: rates by group of the ladder, decay, pull to the start, and late starts set right."""

import collections
import dataclasses
import logging
import urllib.parse

import keras
from keras import ops

from keras_transfer.adaptation.pull import Pull
from keras_transfer.adaptation.rates import RateGroup, check_pattern, groups_of, like, rate_groups, rate_of, slots_of
from keras_transfer.adaptation.selection import is_norm_or_bias
from keras_transfer.training import private

log = logging.getLogger("keras_transfer")

# What the wrapper does itself, once for all groups.
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
class Place:
    """What is known of one weight: its group, the optimizer that updates it, and its start."""

    group: RateGroup
    path: str
    optimizer: keras.optimizers.Optimizer
    decays: bool
    start: keras.Variable | None = None
    importance: keras.Variable | None = None


@keras.saving.register_keras_serializable("keras_transfer")
class LayerwiseOptimizer(keras.optimizers.Optimizer):
    """Any Keras optimizer with a rate for each group of the ladder.

    Each group has an optimizer of its own, made from the one that is given, with its moments and its own count of
    steps. A group that begins to train late (`GradualUnfreezing`, ...) therefore begins as it would at step 0: under
    one Adam for all, its first steps would be 3 to 5 times too long. Schedules and `LearningRateScheduler` set the top
    group's rate, by the steps of the run; each group has its multiple.

    Decoupled weight decay (`AdamW(weight_decay=...)`) is scaled with each group's rate, and leaves biases and the
    weights of normalisation alone. Clipping, moving averages and gradients gathered over batches work as in Keras.

    Args:
        optimizer: a Keras optimizer that has not trained yet, or its name. It is a pattern, and stays as it is.
        model: the built model that will be trained.
        decay: float in (0, 1], each group's rate is this multiple of the next higher group's (1 / 2.6 in ULMFiT, 0.95
            is usual for Transformers); the highest group has the optimizer's rate. None for 1.
        rates: dict from what `select_groups` takes to multiples of the optimizer's rate, in the place of `decay`'s.
        pull: `L2SP` or `EWC`: pulls weights to where they are now.
        decay_norms_and_biases: bool, whether weight decay includes these.
        groups: list of `(name, regex)` as for `layer_groups`, to group the weights otherwise.
        name: str.
        built_for: list of paths of the weights that it was built for; only a config says it.

    Raises:
        ValueError: a rate is negative, a group does not exist, the optimizer has trained already or has its own way to
            apply gradients; when built, if it is for another model.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="low"), keras.layers.Dense(2, name="top")])
    optimizer = keras_transfer.adaptation.LayerwiseOptimizer(keras.optimizers.AdamW(1e-3), model, decay=1 / 2.6)
    model.compile(optimizer, "mse")
    ```

    Source: discriminative rates, https://arxiv.org/abs/1801.06146, section 3.2; the late start is this library's own.
    """

    def __init__(
        self,
        optimizer,
        model=None,
        decay=None,
        rates=None,
        pull=None,
        decay_norms_and_biases=False,
        groups=None,
        name="layerwise",
        built_for=None,
    ):
        optimizer = keras.optimizers.get(optimizer) if isinstance(optimizer, (str, dict)) else optimizer
        check_pattern(optimizer)
        if pull is not None and not isinstance(pull, Pull):
            raise ValueError(f"`pull` must be an `L2SP` or an `EWC`. Received: {pull!r}")
        config = optimizer.get_config()
        shared = {key: config[key] for key in SHARED if key in config}
        if pull is not None and config["weight_decay"]:
            raise ValueError(
                "weight decay pulls to zero what `pull` pulls to its start: give the optimizer `weight_decay=0.0`. "
                f"Received: weight_decay={config['weight_decay']} and {type(pull).__name__}"
            )
        own = {key: value for key, value in config.items() if key not in SHARED or key == "weight_decay"}
        decoupled_decay = shared.pop("weight_decay", None)
        super().__init__(**{**shared, "learning_rate": rate_of(optimizer)}, name=name)
        self.decoupled_decay = decoupled_decay  # Keras would not scale `weight_decay` by the groups' rates
        if isinstance(model, keras.layers.Layer):
            self.groups = rate_groups(model, decay, rates, groups)
        elif groups and all(isinstance(group, RateGroup) for group in groups):  # out of a config
            self.groups = list(groups)
        else:
            raise ValueError(f"`model` must be the built model that is to be trained. Received: {model!r}")
        self.pull = pull
        self.decay_norms_and_biases = decay_norms_and_biases
        weights = {} if model is None else {weight.path: weight for weight in model.weights}
        pulled = [] if pull is None else [path for group in self.groups if group.pretrained for path in group.paths]
        # Past Keras, which would track what these hold.
        self._keep(_kind=type(optimizer), _own=own, _places=[], _slots={}, _built_for=built_for, _weights=weights)
        self._keep(_saved_for=set(built_for or ()))
        self._keep(_starts={path: ops.convert_to_numpy(weights[path]).copy() for path in pulled if path in weights})

    @property
    def rates(self):
        """dict from names of groups, lowest first, to multiples of the learning rate."""
        return {group.name: group.rate for group in self.groups}

    def exclude_from_weight_decay(self, *arguments, **options):
        raise ValueError(
            "what weight decay leaves alone is said by `decay_norms_and_biases`, when the optimizer is made. "
            f"Received: {arguments} {options}"
        )

    def group_optimizers(self):
        """Returns the list of Keras optimizers that update the groups that train; empty until it is built.

        (No attribute: Keras would save what is in it a second time.)
        """
        return list({id(place.optimizer): place.optimizer for place in self._places}.values())

    # === Keras's optimizer ===

    def build(self, variables):
        if self.built:
            return
        homes = groups_of(self.groups, variables, self._built_for, self._weights)
        super().build(variables)
        places, slots = {}, slots_of(self, super().variables, [path for _, path in homes])
        for group in self.groups:
            own = [(variable, path) for variable, (home, path) in zip(variables, homes) if home is group]
            if own:
                optimizer = like(self._kind, self._own, group.name)
                optimizer.build([variable for variable, _ in own])
                slots |= slots_of(optimizer, optimizer.variables, [path for _, path in own])
                for variable, path in own:
                    decays = self.decay_norms_and_biases or not is_norm_or_bias(variable)
                    places[id(variable)] = Place(group, path, optimizer, decays)
        self._keep(_places=[places[id(variable)] for variable in variables], _slots=slots)
        self._keep(_built_for=[path for _, path in homes])
        if self.pull is not None:
            self._build_pull(variables)

    def _build_pull(self, variables):
        pulled = [(variable, place) for variable, place in zip(variables, self._places) if place.group.pretrained]
        self.pull.check([variable for variable, _ in pulled])
        for variable, place in pulled:
            start = self._starts.pop(place.path, variable)  # an optimizer out of a file gets it from there
            place.start = self._slot(variable, place.path, "start", start)
            importance = self.pull.importance(variable)
            if importance is not None:
                place.importance = self._slot(variable, place.path, "importance", importance)
        if self.pull.needs_distance:
            self._distance = self.add_variable((), name="distance", aggregation="only_first_replica")

    def _slot(self, variable, path, name, values):
        # By an initializer, since Keras on TensorFlow may build an optimizer inside its graph.
        slot = self.add_variable_from_reference(
            variable, name, initializer=lambda shape, dtype=None: ops.copy(ops.convert_to_tensor(values, dtype))
        )
        self._slots[id(slot)] = (path, name)
        return slot

    @property
    def variables(self):
        return super().variables + [variable for part in self.group_optimizers() for variable in part.variables]

    def apply(self, grads, trainable_variables=None):
        grads = list(grads)
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            if not self.built:
                with keras.name_scope(self.name):
                    self.build(trainable_variables)
        weights = private.variables_of(self) if trainable_variables is None else trainable_variables
        weights = [weight for gradient, weight in zip(grads, weights) if gradient is not None]
        if self.pull is not None:
            self.pull.check_complete()
            if self.pull.needs_distance:
                self._distance.assign(self._way(weights))
        before = ops.convert_to_tensor(self.iterations) + 0  # its value: the variable will have another
        super().apply(grads, trainable_variables)
        updates = ops.convert_to_tensor(self.iterations) - before  # none while gradients are gathered
        for optimizer in {id(p.optimizer): p.optimizer for p in map(self._place, weights)}.values():
            optimizer.iterations.assign_add(updates)

    def update_step(self, gradient, variable, learning_rate):
        place = self._place(variable)
        rate = ops.cast(learning_rate, variable.dtype) * place.group.rate
        if self.pull is not None:
            distance = self._distance if self.pull.needs_distance else None
            way = self.pull.gradient(variable, place.start, place.importance, distance)
            gradient = ops.convert_to_tensor(gradient) + ops.cast(way, gradient.dtype)
        if self.decoupled_decay is not None and place.decays:
            self.assign_sub(variable, variable * (rate * self.decoupled_decay))
        place.optimizer.update_step(gradient, variable, rate)

    def _place(self, variable):
        return self._places[private.place_of(self, variable)]

    def _way(self, weights):
        """The norm of the way that the pretrained ones among these have gone since the start."""
        squares = [
            ops.sum(ops.square(ops.cast(weight, "float32") - ops.cast(place.start, "float32")))
            for weight, place in zip(weights, map(self._place, weights))
            if place.start is not None
        ]
        return ops.sqrt(sum(squares)) if squares else 0.0

    # === Saving, by the weights' paths ===

    def set_weights(self, weights):
        for variable, value in zip(self.variables, weights, strict=True):  # Keras's own knows the wrapper's alone
            variable.assign(value)

    def save_own_variables(self, store):
        for key, variable in self._named_variables():
            store[key] = ops.convert_to_numpy(variable)
        for path, start in self._starts.items():  # of what does not train, or not yet
            store[_key(path, "start")] = start
            importance = self.pull.importance(self._weights[path])
            if importance is not None:
                store[_key(path, "importance")] = importance

    def load_own_variables(self, store):
        if not self.built:
            log.warning(
                "this optimizer takes nothing out of the file, as it is not built: call "
                "`optimizer.build(model.trainable_variables)` before loading"
            )
            return
        here, saved = dict(self._named_variables()), set(store.keys())
        missing = [key for key in here if key not in saved]
        if not self._weights:  # out of a file itself
            self._check_file(missing)
        for key in saved & set(here):
            here[key].assign(store[key])
        if missing and int(ops.convert_to_numpy(self.iterations)):
            log.warning("the file has no optimizer state for weights that train now, which begin anew: %s", missing)
        if self.pull is not None:
            self.pull.complete()

    def _check_file(self, missing):
        paths = {place.path for place in self._places}
        if len(self._saved_for) == len(paths) and self._saved_for != paths:
            raise ValueError(
                "weights have names here that others had when the file was written: give the model's layers names. "
                f"Received: {sorted(paths)} in the place of {sorted(self._saved_for)}"
            )
        lost = [key for key in missing if key.endswith((":start", ":importance"))]
        if lost:
            raise ValueError(f"the file must have what {type(self.pull).__name__} pulls to. Received: none of {lost}")

    def _named_variables(self):
        """`(key, variable)`: a key says group, weight and slot, as frozen weights may be missing on either side."""
        names = {id(place.optimizer): place.group.name for place in self._places}
        parts = [((), super().variables), *(((names[id(part)],), part.variables) for part in self.group_optimizers())]
        seen = collections.Counter()
        for group, variables in parts:
            for variable in variables:
                key = _key(*group, *self._slots.get(id(variable), ("", variable.name)))
                seen[key] += 1
                yield key if seen[key] == 1 else f"{key}:{seen[key]}", variable

    def get_config(self):
        return {
            "optimizer": keras.saving.serialize_keras_object(self._pattern()),
            "groups": [dataclasses.asdict(group) for group in self.groups],
            "pull": keras.saving.serialize_keras_object(self.pull),
            "decay_norms_and_biases": self.decay_norms_and_biases,
            "name": self.name,
            "built_for": self._built_for,
        }

    def _pattern(self):
        """The optimizer that was given, with the learning rate of now."""
        return self._kind.from_config({**super().get_config(), **self._own})

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for part in ("optimizer", "pull"):
            config[part] = keras.saving.deserialize_keras_object(config[part], custom_objects=custom_objects)
        config["groups"] = [RateGroup(**group) for group in config["groups"]]
        return cls(**config)

    def _keep(self, **values):
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _key(*names):
    return ":".join(urllib.parse.quote(name, safe=" ") for name in names)  # a slash would make folders in the file
