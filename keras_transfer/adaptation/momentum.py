"""Momentum that cycles against the learning rate, inside one `fit` of any Keras optimizer."""

import numbers

import keras
from keras import ops

from keras_transfer.adaptation.layerwise import LayerwiseOptimizer
from keras_transfer.adaptation.schedules import OneCycle
from keras_transfer.training import steps
from keras_transfer.training.optimizer import build_optimizer
from keras_transfer.training.run_length import accumulation_steps, find_schedules, warn_in_epoch

# What is momentum in the optimizers that read it in their `update_step`, as numbers that may as well be tensors.
MOMENTUM = {
    keras.optimizers.SGD: ("momentum",),
    keras.optimizers.Adam: ("beta_1",),
    keras.optimizers.Adamax: ("beta_1",),
    keras.optimizers.Lamb: ("beta_1",),
    keras.optimizers.Lion: ("beta_1",),
    keras.optimizers.Muon: ("momentum", "adam_beta_1"),
}

# Whether a step reads the momentum each time, as a number, and not once for all when it is traced.
READS_NUMBERS = keras.backend.backend() == "torch"


@keras.saving.register_keras_serializable("keras_transfer")
class OneCycleMomentum(keras.callbacks.Callback):
    """Moves an optimizer's momentum against the rate of its `OneCycle` (Smith and Topin 2018).

    From `high` at the first step to `low` at the highest rate and back to `high`, by the same waves as the rate. What
    moves is `momentum` of SGD and Muon, `beta_1` of Adam, AdamW, Adamax, Lamb and Lion; as under torch's `OneCycleLR`,
    Adam's correction of its bias goes by the number of the moment. Between steps the momentum is what it was before:
    so it is after `fit`, also one that failed, and in a file that is written in between.

    On TensorFlow and JAX the momentum is computed from the step's number inside the compiled step. Keras traces it anew
    once, as `fit` begins, and each of `steps_per_execution` steps has its own momentum.

    Args:
        low: float, the momentum at the highest rate.
        high: float, the momentum at the first step and at the last.

    Raises:
        ValueError: when built, if the two are not in [0, 1) and in order; in `fit`, if the optimizer has no `OneCycle`,
            or no momentum, or reads it in another way; if another object cycles it.

    Example:
    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    schedule = keras_transfer.adaptation.OneCycle(0.1, total_steps=8)
    model.compile(keras.optimizers.SGD(schedule, momentum=0.95), "mse")
    x, y = np.ones((8, 4)), np.ones((8, 2))
    model.fit(x, y, batch_size=2, epochs=2, callbacks=[keras_transfer.adaptation.OneCycleMomentum()])
    ```

    Source: https://arxiv.org/abs/1708.07120, and torch's `OneCycleLR`.
    """

    def __init__(self, low=0.85, high=0.95):
        super().__init__()
        if not all(isinstance(part, numbers.Real) for part in (low, high)) or not 0 <= low <= high < 1:
            raise ValueError(f"momentum cycles between two numbers in [0, 1). Received: low={low}, high={high}")
        self.low, self.high = float(low), float(high)
        self._steps = None
        self._places = []  # (optimizer, name of the attribute, what it is outside a step)

    def get_config(self):
        return {"low": self.low, "high": self.high}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    # === fit ===

    def on_train_begin(self, logs=None):
        self._end()  # of a `fit` of another model that failed where nobody was told
        model, watched = self.model, steps.watch(self.model, self.params)
        if any(isinstance(getattr(told, "__self__", None), OneCycleMomentum) for told in watched.on_failure):
            raise ValueError("one callback alone may cycle the momentum. Received: two `OneCycleMomentum`")
        self._cycle = _cycle(model.optimizer)
        if model.built:  # else Keras will build the optimizer with the model, in the first step
            build_optimizer(model)
        self._places = [place for part in _parts(model.optimizer) for place in _momentum(part)]
        # Held, since on JAX each look at `self.model` fetches all weights out of the running `fit`.
        self._optimizer, self._steps = model.optimizer, watched
        watched.on_failure.append(self._end)
        watched.train(watched.only)  # what Keras traced before had the momentum of then in it

    def on_epoch_begin(self, epoch, logs=None):
        warn_in_epoch(self, epoch)

    def on_train_batch_begin(self, batch, logs=None):
        self._steps.begin()
        now = float(ops.convert_to_numpy(self._now())) if READS_NUMBERS else None
        for optimizer, name, value in self._places:
            setattr(optimizer, name, now if READS_NUMBERS else _Computed(value, self._now))

    def on_train_batch_end(self, batch, logs=None):
        self._restore()

    def on_train_end(self, logs=None):
        self._end()

    def _now(self):
        """The momentum of the step that is being taken."""
        # The batch whose rate counts: the last of those over which gradients are gathered.
        every = accumulation_steps(self._optimizer)
        step = (ops.cast(self._optimizer.iterations, "float32") + 1) * every - 1
        return self.high - (self.high - self.low) * self._cycle.height(step)

    def _restore(self):
        for optimizer, name, value in self._places:
            setattr(optimizer, name, value)

    def _end(self):
        self._restore()
        if self._steps is None:
            return
        watched, self._steps, self._places = self._steps, None, []
        if watched.model.train_function is watched:  # not compiled anew since
            watched.train(watched.only)
        watched.leave(self._end)


class _Computed(float):
    """A float that TensorFlow and JAX, when they trace a step, take for a tensor that is computed in it.

    As a float it stays what it was before: in an optimizer's config, and where its sign decides what is traced.
    """

    def __new__(cls, value, compute):
        self = super().__new__(cls, value)
        self._compute = compute
        return self

    def __tf_tensor__(self, dtype=None, name=None):
        return self._compute() if dtype is None else ops.cast(self._compute(), dtype.name)

    def __jax_array__(self):
        return self._compute()

    def __sub__(self, other):
        return self._compute() - other

    def __rsub__(self, other):
        return other - self._compute()

    def __mul__(self, other):
        return self._compute() * other

    __rmul__ = __mul__


def _cycle(optimizer):
    """The one `OneCycle` by which an optimizer, or those inside it, go."""
    name = keras.saving.get_registered_name(OneCycle)
    cycles = [config for config in find_schedules(optimizer) if config["registered_name"] == name]
    forms = {(cycle["config"]["total_steps"], cycle["config"]["warmup_fraction"]) for cycle in cycles}
    if len(forms) != 1:
        raise ValueError(
            "the momentum moves against the rate of a `OneCycle`: compile with one as the optimizer's learning rate. "
            f"Received: {type(optimizer).__name__} with {len(forms)} of them"
        )
    return keras.saving.deserialize_keras_object(cycles[0])


def _parts(optimizer):
    """The optimizers that update the weights, in an optimizer that may wrap others."""
    if hasattr(optimizer, "inner_optimizer"):
        return _parts(optimizer.inner_optimizer)
    return optimizer.group_optimizers() if isinstance(optimizer, LayerwiseOptimizer) else [optimizer]


def _momentum(optimizer):
    """`(optimizer, name, value)` for each number of an optimizer that is momentum."""
    kinds = [kind for kind in MOMENTUM if type(optimizer).update_step is kind.update_step]
    if not kinds:
        raise ValueError(
            f"momentum can be cycled in AdamW, {', '.join(kind.__name__ for kind in MOMENTUM)}. "
            f"Received: {type(optimizer).__name__}"
        )
    places = [(optimizer, name, getattr(optimizer, name)) for name in MOMENTUM[kinds[0]]]
    for _, name, value in places:
        if not value:  # SGD keeps no velocity then
            raise ValueError(
                f"an optimizer that is to have momentum begins with some: `{kinds[0].__name__}(..., {name}=0.95)`. "
                f"Received: {name}={value}"
            )
    return places
