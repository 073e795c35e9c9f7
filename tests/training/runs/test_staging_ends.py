"""The frozen groups before and after `fit`, however it ends."""

import keras
import numpy as np
import pytest

from keras_transfer import adaptation
from keras_transfer.callbacks import GradualUnfreezing, Stage, StagedTraining
from tests.helpers import EAGER, with_slots
from tests.training.runs.staging_models import (
    NAMES,
    STEPS,
    Watch,
    X,
    Y,
    always,
    assert_follows,
    changed,
    difference,
    fit,
    make,
    reference,
    trained_in,
    values,
)

# === However `fit` ends ===


class Boom(Exception):
    pass


class Fails(keras.callbacks.Callback):
    """Raises an error in a given call of one of the hooks."""

    def __init__(self, hook, at=0, error=Boom):
        super().__init__()
        self.left, self.error = at, error
        setattr(self, hook, self.fail)

    def fail(self, *arguments, **options):
        self.left -= 1
        if self.left < 0:
            raise self.error("boom")


class Data(keras.utils.PyDataset):
    """The batches. Reading one of them raises an error."""

    def __init__(self, bad):
        super().__init__()
        self.bad, self.read = bad, 0

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        self.read += 1
        if self.read == self.bad + 1:
            raise Boom("boom")
        return X[4 * index :][:4], Y[4 * index :][:4]


ENDS = {
    "after a step": lambda model, stages: fit(model, stages, Fails("on_train_batch_end", 6)),
    "before an epoch": lambda model, stages: fit(model, stages, Fails("on_epoch_begin")),
    "at the beginning": lambda model, stages: fit(model, stages, Fails("on_train_begin")),
    "at the end": lambda model, stages: fit(model, Fails("on_train_end"), stages),
    "in validation": lambda model, stages: fit(model, stages, Fails("on_test_batch_end"), validation_data=(X, Y)),
    "by the user": lambda model, stages: fit(model, stages, Fails("on_train_batch_end", 3, KeyboardInterrupt)),
    "a later batch": lambda model, stages: model.fit(Data(6), epochs=4, verbose=0, callbacks=[stages]),
    "in tracing": lambda model, stages: fit(model, stages, x=X[:, :2]),
}

GRAPHS = ("after a step", "in tracing")  # the others run eagerly on TensorFlow, which is faster
CORE = ("after a step", "in validation", "a later batch", "in tracing")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.core] * (name in CORE)) for name in ENDS])
def test_everything_trains_after_fit_however_it_ends(name):
    model = make(run_eagerly=EAGER and name not in GRAPHS)
    start, stages = values(model), StagedTraining([Stage("head", steps=6), Stage(["low", "head"])])
    with pytest.raises(BaseException) as raised, stages:
        ENDS[name](model, stages)
    assert name == "in tracing" or "boom" in str(raised.value)
    assert all(np.isfinite(value).all() for value in values(model).values())
    assert changed(start, values(model)) <= {f"{n}/{w}" for n in ("low", "head") for w in ("kernel", "bias")}
    assert len(model.trainable_variables) == 8 and all(layer.trainable for layer in model.layers)
    assert trained_in(model, lambda: fit(model, epochs=1)) == set(NAMES)
    watch, again = Watch(), StagedTraining([Stage("head", steps=2), Stage("all")])
    fit(model, again, watch, epochs=1)
    assert_follows(model, again, watch)


def test_weights_after_a_late_failure_are_those_of_a_number_of_whole_steps():
    model, stages = make(), StagedTraining([Stage("head", steps=6), Stage(["low", "head"])])
    with pytest.raises(Exception, match="boom"):
        model.fit(Data(8), epochs=4, verbose=0, shuffle=False, callbacks=[stages])
    read = [n for n in range(4, 9) if difference(values(model), partly(n)) < 1e-6]
    assert len(read) == 1, "not the weights after a number of whole steps"


def partly(batches):
    model = make()
    trains = lambda step: ["head"] if step < 6 else ["low", "head"]  # noqa: E731
    return reference(model, trains, ("sgd", always(0.1), 0.9), batches)


def test_a_model_recompiled_after_a_failed_fit_trains_everything():
    for callback in (None, GradualUnfreezing(steps=1)):
        model = make()
        with pytest.raises(Boom), GradualUnfreezing(steps=3) as stages:
            fit(model, stages, Fails("on_epoch_end"))
        model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=EAGER)
        assert trained_in(model, lambda: fit(model, *filter(None, [callback]), epochs=1)) == set(NAMES)  # noqa: B023


# === Freezing, before and after `compile` and `fit` ===


def test_freezing_and_thawing_take_effect_in_the_next_fit():
    model = with_slots(make(keras.optimizers.Adam(0.01), run_eagerly=False))
    for change, expected in [
        (lambda: None, NAMES),
        (lambda: adaptation.freeze(model, below="top"), ["top", "head"]),
        (lambda: adaptation.unfreeze(model, "low"), ["low", "top", "head"]),
        (lambda: adaptation.unfreeze(model), NAMES),
    ]:
        change()
        assert trained_in(model, lambda: fit(model, epochs=1)) == set(expected)
    assert int(model.optimizer.iterations) == 4 * STEPS
    turns = [NAMES, ["top", "head"], ["low", "top", "head"], NAMES]
    expected = reference(make(), lambda step: turns[step // STEPS], ("adam", always(0.01)))
    assert difference(values(model), expected) < 2e-6


def test_freezing_after_compile_takes_effect_in_the_first_fit():
    model = make()
    adaptation.freeze(model, "low")
    assert trained_in(model, lambda: fit(model, epochs=1)) == {"mid", "top", "head"}


def test_thawing_weights_unknown_to_the_optimizer_is_an_error_and_changes_nothing():
    model = make()
    adaptation.freeze(model, ["low", "mid"])
    fit(model, epochs=1)
    with pytest.raises(ValueError, match=r"with a new optimizer before you unfreeze.*Received: \['low/kernel'"):
        adaptation.unfreeze(model)
    assert not model.get_layer("low").trainable and model.get_layer("top").trainable
    assert trained_in(model, lambda: fit(model, epochs=1)) == {"top", "head"}
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=EAGER)
    adaptation.unfreeze(model)
    assert trained_in(model, lambda: fit(model, epochs=1)) == set(NAMES)


def test_weights_frozen_before_fit_stay_frozen():
    model, callback, watch = make(), GradualUnfreezing(steps=3), Watch()
    adaptation.freeze(model, "mid")
    model.get_layer("top").bias.trainable = False
    fit(model, callback, watch)
    assert_follows(model, callback, watch)
    assert [w.path for w in model.weights if not w.trainable] == ["mid/kernel", "mid/bias", "top/bias"]
    assert "mid" not in callback.schedule[-1][1]
    assert set().union(*watch.steps) == {"low/kernel", "low/bias", "top/kernel", "head/kernel", "head/bias"}


def test_what_was_frozen_inside_a_nested_model_stays_so_in_and_after_a_staged_fit():
    keras.utils.set_random_seed(0)
    norm = keras.layers.BatchNormalization(name="bn")
    nested = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, name="low"), norm], name="nested")
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(nested(inputs)))
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=EAGER)
    adaptation.freeze(model, "bn")
    start = values(model)
    fit(model, GradualUnfreezing(epochs=1, below="low"), epochs=3)
    assert (nested.trainable, norm.trainable) == (True, False)
    fit(model, epochs=1)
    assert changed(start, values(model)) == {path for path in start if "bn" not in path}


class ByHand(keras.callbacks.Callback):
    """Freezes two layers in the second call of a hook, and thaws one in the third."""

    def __init__(self, hook):
        super().__init__()
        self.calls = 0
        setattr(self, hook, self.change)

    def change(self, place, logs=None):
        self.calls += 1
        if self.calls == 2:
            adaptation.freeze(self.model, ["low", "mid"])
        if self.calls == 3:
            adaptation.unfreeze(self.model, "low")


@pytest.mark.core
@pytest.mark.parametrize("hook", ["on_train_batch_begin", "on_epoch_end"])
def test_freezing_by_hand_during_fit_takes_effect_in_the_next_step(hook):
    model, watch = with_slots(make(run_eagerly=EAGER and "epoch" in hook)), Watch()
    fit(model, watch, ByHand(hook))
    every = {weight.path for weight in model.weights}
    upper = {path for path in every if path.split("/")[0] in ("top", "head")}
    first, length = (8, 4) if "epoch" in hook else (1, 1)
    rest = 16 - first - length
    assert watch.steps == [every] * first + [upper] * length + [upper | {"low/kernel", "low/bias"}] * rest
