"""Momentum that cycles inversely to the learning rate during `fit`."""

import contextlib
import numbers

import keras
from keras import ops

from keras_transfer.keras_internals import accumulation_steps
from keras_transfer.training.optimizers import OneCycle, build_optimizer
from keras_transfer.training.runs import steps
from keras_transfer.training.runs.run_length import find_schedules, warn_in_epoch

# The names of the momentum in optimizers whose `update_step` reads it, as a number or a tensor.
MOMENTUM = {
    keras.optimizers.SGD: ("momentum",),
    keras.optimizers.Adam: ("beta_1",),
    keras.optimizers.Adamax: ("beta_1",),
    keras.optimizers.Lamb: ("beta_1",),
    keras.optimizers.Lion: ("beta_1",),
    keras.optimizers.Muon: ("momentum", "adam_beta_1"),
}

# Whether each step reads the momentum as a number. Otherwise, the momentum is read once, when the step is traced.
READS_NUMBERS = keras.backend.backend() == "torch"


@keras.saving.register_keras_serializable("keras_transfer")
class OneCycleMomentum(keras.callbacks.Callback):
    """Cycles an optimizer's momentum inversely to the learning rate of its `OneCycle` (Smith and Topin 2018).

    The momentum falls from `high` at the first step to `low` at the highest learning rate and rises back to `high`,
    along the same curves as the learning rate. It is the argument `momentum` of SGD and Muon, and `beta_1` of Adam,
    AdamW, Adamax, Lamb and Lion. As with torch's `OneCycleLR`, Adam corrects its bias by the current value. The
    momentum changes only inside the steps. Other callbacks, saved files and code after `fit()` see the constant with
    which the optimizer was created.

    TensorFlow and JAX compute the momentum from the step number inside the compiled step, so each of the
    `steps_per_execution` steps has its own value. Keras traces the step once more when `fit()` begins.

    Args:
        low: Float in [0, 1). Momentum at the highest learning rate. Defaults to `0.85`.
        high: Float in [0, 1). Momentum at the first and the last step. Defaults to `0.95`.

    Raises:
        ValueError: If `low` and `high` are not in [0, 1) and in order. In `fit()`, if the optimizer has no `OneCycle`
            or no momentum, if its class updates weights in an unknown way, or if two of these callbacks are used.

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
            raise ValueError(f"`low` and `high` must satisfy 0 <= low <= high < 1. Received: low={low}, high={high}")
        self.low, self.high = float(low), float(high)

    def get_config(self):
        return {"low": self.low, "high": self.high}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    # === fit ===

    def on_train_begin(self, logs=None):
        model, self._steps = self.model, steps.watch(self.model, self.params)
        if any(isinstance(callback, OneCycleMomentum) for callback in self._steps.contexts):
            raise ValueError("Only one `OneCycleMomentum` can be used in `fit()`. Received: two")
        self._cycle = _cycle(model.optimizer)
        if model.built:  # Otherwise, Keras builds the optimizer with the model in the first step.
            build_optimizer(model)
        # Keep this, because on JAX each access to `self.model` copies all weights out of the running `fit`.
        self._optimizer = model.optimizer
        self._places = [place for part in _parts(model.optimizer) for place in _momentum(part)]
        self._steps.contexts[self] = self._cycling
        self._steps.rebuild()  # The function that Keras traced before contains a constant momentum.

    def on_epoch_begin(self, epoch, logs=None):
        warn_in_epoch(self, epoch)

    def on_train_batch_begin(self, batch, logs=None):
        self._steps.announce()

    def on_train_end(self, logs=None):
        self._steps.leave(self)

    @contextlib.contextmanager
    def _cycling(self):
        now = float(ops.convert_to_numpy(self._now())) if READS_NUMBERS else None
        try:
            for optimizer, name, value in self._places:
                setattr(optimizer, name, now if READS_NUMBERS else _Computed(value, self._now))
            yield
        finally:
            for optimizer, name, value in self._places:
                setattr(optimizer, name, value)

    def _now(self):
        """Returns the momentum of the current step."""
        # The rate that counts is the rate of the last batch whose gradient is accumulated.
        every = accumulation_steps(self._optimizer)
        step = (ops.cast(self._optimizer.iterations, "float32") + 1) * every - 1
        return self.high - (self.high - self.low) * self._cycle.height(step)


class _Computed(float):
    """A float that TensorFlow and JAX treat as a tensor when they trace a step, so that each step computes it.

    Where it is used as a float, it keeps its value: in an optimizer's config, and where its sign decides what is
    traced.
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
    """Returns the only `OneCycle` of an optimizer and of the optimizers inside it."""
    name = keras.saving.get_registered_name(OneCycle)
    cycles = [config for config in find_schedules(optimizer) if config["registered_name"] == name]
    forms = {(cycle["config"]["total_steps"], cycle["config"]["warmup_fraction"]) for cycle in cycles}
    if len(forms) != 1:
        raise ValueError(
            "`OneCycleMomentum` requires an optimizer whose learning rate is a `OneCycle`. "
            f"Received: {type(optimizer).__name__} with {len(forms)} such schedules"
        )
    return keras.saving.deserialize_keras_object(cycles[0])


def _parts(optimizer):
    """Returns the list of optimizers inside an optimizer that update the weights."""
    if hasattr(optimizer, "inner_optimizer"):
        return _parts(optimizer.inner_optimizer)
    return optimizer.group_optimizers() if hasattr(optimizer, "group_optimizers") else [optimizer]


def _momentum(optimizer):
    """Returns a list of `(optimizer, name, value)` for each momentum of an optimizer."""
    kinds = [kind for kind in MOMENTUM if type(optimizer).update_step is kind.update_step]
    if not kinds:
        raise ValueError(
            f"The optimizer must be AdamW or one of {', '.join(kind.__name__ for kind in MOMENTUM)}. "
            f"Received: {type(optimizer).__name__}"
        )
    places = [(optimizer, name, getattr(optimizer, name)) for name in MOMENTUM[kinds[0]]]
    for _, name, value in places:
        if not value:  # Without momentum, SGD keeps no velocity.
            raise ValueError(
                f"The optimizer's momentum must be above 0, for example `{kinds[0].__name__}(..., {name}=0.95)`. "
                f"Received: {name}={value}"
            )
    return places
