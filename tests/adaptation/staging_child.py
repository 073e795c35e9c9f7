"""Checks of staged training on any backend: run here on TensorFlow by the tests, and by them in a child on another.

KERAS_BACKEND=jax python -m tests.adaptation.staging_child [mirrored]
"""

import contextlib
import json
import sys
import tempfile
import traceback

import keras
import numpy as np
from keras import ops

from keras_transfer import adaptation
from keras_transfer.adaptation import ChainThaw, GradualUnfreezing, SequentialUnfreezing, Stage, StagedTraining, steps
from keras_transfer.tasks import TextClassifier
from tests.tasks import tiny

NAMES = ["low", "mid", "top", "head"]
STEPS = 4  # an epoch
CHECKS = {}
X = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
Y = np.random.default_rng(1).normal(size=(16, 2)).astype("float32")


def check(function):
    CHECKS[function.__name__] = function
    return function


# === What the checks share ===


def make(optimizer=None, **compiled):
    """A compiled model of four dense layers, the same each time."""
    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((3,))
    for name in NAMES[:-1]:
        x = keras.layers.Dense(3, activation="tanh", bias_initializer="normal", name=name)(x)
    model = keras.Model(inputs, keras.layers.Dense(2, bias_initializer="normal", name="head")(x))
    model.compile(optimizer or keras.optimizers.SGD(0.1, momentum=0.9), "mse", **compiled)
    return model


def fit(model, *callbacks, epochs=4, x=X, **options):
    """Trains on batches of four, in order."""
    return model.fit(x, Y, batch_size=4, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks), **options)


def values(model):
    """dict from paths to values of all weights."""
    return {weight.path: np.array(ops.convert_to_numpy(weight)) for weight in model.weights}


def changed(before, after):
    """The paths of the weights that are not the same to the bit."""
    return {path for path, value in before.items() if (value != after[path]).any()}


def trained_in(model, run):
    """The names of the layers whose weights `run` changed, each all of them."""
    before = values(model)
    run()
    paths = changed(before, values(model))
    names = {path.split("/")[0] for path in paths}
    assert paths == {path for path in before if path.split("/")[0] in names}
    return names


def difference(ours, theirs):
    return max(np.abs(ours[path] - theirs[path]).max() for path in ours)


class Watch(keras.callbacks.Callback):
    """Keeps which weights each step changed, to the bit."""

    def on_train_begin(self, logs=None):
        self.steps, self.values = [], values(self.model)

    def on_train_batch_end(self, batch, logs=None):
        steps.sync(self.model)
        now = values(self.model)
        self.steps.append(changed(self.values, now))
        self.values = now


def assert_follows(model, callback, watch, first=0):
    """Each step changed the weights of its stage, and no others."""
    assert watch.steps
    ladder = {group.name: [v.path for v in group.variables] for group in adaptation.layer_groups(model)}
    could = {weight.path for weight in model.trainable_weights}
    for step, paths in enumerate(watch.steps, first):
        names = [names for start, names in callback.schedule if start <= step][-1]
        assert paths == could & {path for name in names for path in ladder[name]}, step


def reference(model, trains, optimizer, batches=None, each_its_own_steps=False):
    """What numpy makes of the model: `trains(step)` names the layers that each step trains.

    Args:
        optimizer: `("sgd", rate, momentum)` or `("adam", rate)`, where rate is a function of the step.
        each_its_own_steps: bool, whether Adam counts a layer's own steps.
    """
    weights = {path: value.astype("float64") for path, value in values(model).items()}
    slots = {path: [np.zeros_like(value), np.zeros_like(value)] for path, value in weights.items()}
    count = dict.fromkeys(NAMES, 0)
    for step in range(4 * STEPS if batches is None else batches):
        x, y = (data[4 * (step % STEPS) :][:4] for data in (X, Y))
        states = [x]
        for name in NAMES:
            z = states[-1] @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]
            states.append(z if name == "head" else np.tanh(z))
        gradients, upstream = {}, 2 * (states[-1] - y) / y.size
        for place in reversed(range(len(NAMES))):
            name = NAMES[place]
            z = upstream if name == "head" else upstream * (1 - states[place + 1] ** 2)
            gradients |= {f"{name}/kernel": states[place].T @ z, f"{name}/bias": z.sum(axis=0)}
            upstream = z @ weights[f"{name}/kernel"].T
        kind, rate, *rest = optimizer
        for name in trains(step):
            count[name] += 1
            for path in (f"{name}/kernel", f"{name}/bias"):
                gradient, (m, v) = gradients[path], slots[path]
                if kind == "sgd":
                    m[:] = rest[0] * m - rate(step) * gradient
                    weights[path] += m
                else:
                    t = count[name] if each_its_own_steps else step + 1
                    m += 0.1 * (gradient - m)
                    v += 0.001 * (gradient**2 - v)
                    weights[path] -= rate(step) * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-7)
    return weights


def gradually(step, length=2):
    """What `GradualUnfreezing(steps=2)` trains."""
    return NAMES[max(len(NAMES) - 1 - step // length, 0) :]


def always(rate):
    return lambda step: rate


# === Parity ===


@check
def gradual_unfreezing_is_a_loop_of_separate_runs_under_sgd():
    model = make()
    expected = reference(model, gradually, ("sgd", always(0.1), 0.9))
    fit(model, GradualUnfreezing(steps=2))
    assert difference(values(model), expected) < 1e-6


@check
def gradual_unfreezing_is_a_loop_of_separate_runs_under_adam():
    model = make(keras.optimizers.Adam(0.005))
    expected = reference(model, gradually, ("adam", always(0.005)))
    fit(model, GradualUnfreezing(steps=2))
    assert difference(values(model), expected) < 1e-6


@check
def layerwise_adam_counts_each_group_s_own_steps():
    model = make()
    model.compile(adaptation.LayerwiseOptimizer(keras.optimizers.Adam(0.005), model), "mse")
    expected = reference(model, gradually, ("adam", always(0.005)), each_its_own_steps=True)
    fit(model, GradualUnfreezing(steps=2))
    assert difference(values(model), expected) < 1e-6
    counts = [int(optimizer.iterations) for optimizer in model.optimizer.group_optimizers()]
    assert counts == [10, 12, 14, 16]


@check
def chain_thaw_keeps_the_moments_of_what_freezes_and_thaws_again():
    model = make(keras.optimizers.Adam(0.005))
    order = [["head"], ["low"], ["mid"], ["top"], NAMES]
    expected = reference(model, lambda step: order[min(step // 3, 4)], ("adam", always(0.005)))
    fit(model, ChainThaw(steps=3))
    assert difference(values(model), expected) < 1e-6


@check
def rates_by_schedule_and_by_scheduler_go_on_through_the_stages():
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.9)
    by_step = make(keras.optimizers.SGD(decay, momentum=0.9))
    expected = reference(by_step, gradually, ("sgd", lambda step: 0.1 * 0.9**step, 0.9))
    fit(by_step, GradualUnfreezing(steps=2))
    assert difference(values(by_step), expected) < 1e-6
    by_epoch = make()
    expected = reference(by_epoch, gradually, ("sgd", lambda step: 0.1 / (1 + step // STEPS), 0.9))
    fit(by_epoch, GradualUnfreezing(steps=2), keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (1 + epoch)))
    assert difference(values(by_epoch), expected) < 1e-6


# === Each method, step by step ===

METHODS = {
    "gradual": lambda: GradualUnfreezing(steps=3),
    "gradual, by epochs": lambda: GradualUnfreezing(epochs=1),
    "gradual, by share": lambda: GradualUnfreezing(share=0.7),
    "gradual, not all": lambda: GradualUnfreezing(steps=3, down_to="mid"),
    "chain": lambda: ChainThaw(),
    "sequential": lambda: SequentialUnfreezing(),
    "plan": lambda: StagedTraining([Stage(["low", "head"], steps=5), Stage("(mid|top)", epochs=1), Stage("all")]),
}


@check
def every_method_trains_what_its_schedule_says_and_nothing_else():
    for name, method in METHODS.items():
        callback, watch = method(), Watch()
        model = make(keras.optimizers.AdamW(0.01), run_eagerly=name not in ("gradual", "sequential"))
        fit(model, callback, watch)
        assert len(watch.steps) == 4 * STEPS and len(callback.schedule) >= 2, name
        assert_follows(model, callback, watch)
        assert callback.stage is None and len(model.trainable_weights) == 8


@check
def a_run_that_begins_later_trains_what_the_whole_run_would():
    for name in ("gradual", "gradual, by share", "chain"):
        model, callback, watch = make(run_eagerly=True), METHODS[name](), Watch()
        fit(model, callback, watch, initial_epoch=2)
        assert len(watch.steps) == 2 * STEPS, name
        assert_follows(model, callback, watch, first=2 * STEPS)
    whole, parts = make(), make()
    plan = [Stage("head", steps=3), Stage(["top", "head"], steps=4), Stage("all")]
    fit(whole, StagedTraining(plan))
    fit(parts, StagedTraining(plan), epochs=2)
    fit(parts, StagedTraining(plan), initial_epoch=2)
    assert difference(values(whole), values(parts)) == 0


@check
def a_task_of_ours_trains_what_each_stage_says():
    texts, labels = tiny.examples(16)
    inputs = {name: np.array(value) for name, value in tiny.preprocessor()(texts).items()}
    for callback in (GradualUnfreezing(steps=2), ChainThaw(steps=2), SequentialUnfreezing()):
        keras.utils.set_random_seed(0)
        model, watch = TextClassifier(tiny.encoder(num_layers=1), 2, dropout=0.0), Watch()
        model.compile(keras.optimizers.Adam(0.01), run_eagerly=type(callback) is not SequentialUnfreezing)
        options = {"batch_size": 4, "epochs": 3, "verbose": 0}
        model.fit(inputs, np.array(labels), callbacks=[callback, watch], **options)
        assert_follows(model, callback, watch)


@check
def validation_in_a_stage_sees_the_weights_of_now():
    model = make()
    losses = []
    record = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: losses.append(numpy_loss(model)))
    history = fit(model, ChainThaw(epochs=1, share=0.75), record, epochs=6, validation_data=(X, Y)).history
    np.testing.assert_allclose(history["val_loss"], losses, rtol=1e-5)
    assert len(set(np.round(losses, 4))) == 6


def numpy_loss(model):
    weights, x = values(model), X
    for name in NAMES:
        x = x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]
        x = x if name == "head" else np.tanh(x)
    return np.square(x - Y).mean()


# === What a frozen group costs ===


@check
def frozen_groups_below_have_no_backward_pass():
    if keras.backend.backend() == "tensorflow":  # where graphs are pruned after they are traced: see the tests
        return
    backward = []

    class Recorder(keras.layers.Layer):
        def call(self, x):
            @ops.custom_gradient
            def identity(x):
                def gradient(*arguments, upstream=None):
                    backward.append(self.name)
                    return arguments[0] if upstream is None else upstream

                return x * 1.0, gradient

            return identity(x)

    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((3,))
    for name in NAMES:
        x = Recorder(name=f"after_{name}")(keras.layers.Dense(3, name=name)(x))
    model = keras.Model(inputs, keras.layers.Dense(2, name="last")(x))
    model.compile("sgd", "mse")
    seen = {}

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.setdefault(callback.stage, set()).update(backward)
            backward.clear()

    callback = StagedTraining([Stage("last", steps=4), Stage(["top", "head", "last"], steps=4), Stage("all")])
    fit(model, callback, Look())
    assert seen[0] == set()
    assert seen[1] == {"after_head", "after_top"}
    assert seen[2] == {f"after_{name}" for name in NAMES}


# === However `fit` ends ===


class Boom(Exception):
    pass


class Fails(keras.callbacks.Callback):
    """Raises in one of the hooks, at a certain call."""

    def __init__(self, hook, at=0, error=Boom):
        super().__init__()
        self.left, self.error = at, error
        setattr(self, hook, self.fail)

    def fail(self, *arguments, **options):
        self.left -= 1
        if self.left < 0:
            raise self.error("boom")


class Data(keras.utils.PyDataset):
    """The batches, of which one cannot be read."""

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
    "before the first step": lambda model, stages: fit(model, stages, Fails("on_train_batch_begin")),
    "before a step": lambda model, stages: fit(model, stages, Fails("on_train_batch_begin", 6)),
    "after a step": lambda model, stages: fit(model, stages, Fails("on_train_batch_end", 6)),
    "after an epoch": lambda model, stages: fit(model, stages, Fails("on_epoch_end")),
    "before an epoch": lambda model, stages: fit(model, stages, Fails("on_epoch_begin")),
    "at the beginning": lambda model, stages: fit(model, stages, Fails("on_train_begin")),
    "at the end": lambda model, stages: fit(model, Fails("on_train_end"), stages),
    "in validation": lambda model, stages: fit(model, stages, Fails("on_test_batch_end"), validation_data=(X, Y)),
    "by the user": lambda model, stages: fit(model, stages, Fails("on_train_batch_end", 3, KeyboardInterrupt)),
    "first batch": lambda model, stages: model.fit(Data(0), epochs=4, verbose=0, callbacks=[stages]),
    "a later batch": lambda model, stages: model.fit(Data(6), epochs=4, verbose=0, callbacks=[stages]),
    "in tracing": lambda model, stages: fit(model, stages, x=X[:, :2]),
}

GRAPHS = ("after a step", "in validation", "a later batch", "in tracing")  # the others run eagerly, which is quick


@check
def however_fit_ends_everything_trains_after_it():
    for name, run in ENDS.items():
        model = make(keras.optimizers.Adam(0.01), run_eagerly=name not in GRAPHS)
        start, stages = values(model), StagedTraining([Stage("head", steps=6), Stage(["low", "head"])])
        try:
            run(model, stages)
        except BaseException as error:
            assert not isinstance(error, AssertionError), name
        else:
            raise AssertionError(f"nothing was raised: {name}")
        assert all(np.isfinite(value).all() for value in values(model).values()), name
        assert changed(start, values(model)) <= {f"{n}/{w}" for n in ("low", "head") for w in ("kernel", "bias")}, name
        assert len(model.trainable_variables) == 8 and all(layer.trainable for layer in model.layers), name
        assert trained_in(model, lambda: fit(model, epochs=1)) == set(NAMES), name  # noqa: B023
        assert type(model.train_function) is not steps.Steps, name
        watch, again = Watch(), StagedTraining([Stage("head", steps=2), Stage("all")])
        fit(model, again, watch, epochs=1)
        assert_follows(model, again, watch)


@check
def a_step_that_fails_late_loses_no_more_than_itself():
    model, stages = make(), StagedTraining([Stage("head", steps=6), Stage(["low", "head"])])
    with contextlib.suppress(Exception):
        model.fit(Data(8), epochs=4, verbose=0, shuffle=False, callbacks=[stages])
    read = [n for n in range(4, 9) if difference(values(model), partly(n)) < 1e-6]
    assert len(read) == 1, "not the weights after a number of whole steps"


def partly(batches):
    model = make()
    trains = lambda step: ["head"] if step < 6 else ["low", "head"]  # noqa: E731
    return reference(model, trains, ("sgd", always(0.1), 0.9), batches)


@check
def a_model_compiled_anew_after_a_failed_fit_trains_everything():
    for callback in (None, GradualUnfreezing(steps=1)):
        model = make()
        with contextlib.suppress(Boom):
            fit(model, GradualUnfreezing(steps=3), Fails("on_epoch_end"))
        model.compile(keras.optimizers.Adam(0.01), "mse")
        assert trained_in(model, lambda: fit(model, *filter(None, [callback]), epochs=1)) == set(NAMES)  # noqa: B023


# === Freezing, before and after `compile` and `fit` ===


@check
def freezing_takes_effect_in_the_next_fit_and_so_does_thawing():
    model = make(keras.optimizers.Adam(0.01))
    for change, expected in [
        (lambda: None, NAMES),
        (lambda: adaptation.freeze(model, below="top"), ["top", "head"]),
        (lambda: adaptation.unfreeze(model, "low"), ["low", "top", "head"]),
        (lambda: adaptation.freeze_to(model, -1), ["head"]),
        (lambda: adaptation.freeze(adaptation.unfreeze(model), ["mid", "head"]), ["low", "top"]),
        (lambda: adaptation.unfreeze(model), NAMES),
    ]:
        change()
        assert trained_in(model, lambda: fit(model, epochs=1)) == set(expected)
    assert int(model.optimizer.iterations) == 6 * STEPS
    expected = make(keras.optimizers.Adam(0.01))
    turns = [NAMES, ["top", "head"], ["low", "top", "head"], ["head"], ["low", "top"], NAMES]
    assert (
        difference(values(model), reference(expected, lambda s: turns[s // STEPS], ("adam", always(0.01)), 24)) < 2e-6
    )


@check
def freezing_after_compile_takes_effect_in_the_first_fit():
    model = make()
    adaptation.freeze(model, "low")
    assert trained_in(model, lambda: fit(model, epochs=1)) == {"mid", "top", "head"}


@check
def thawing_what_the_optimizer_does_not_know_is_an_error_and_changes_nothing():
    model = make()
    adaptation.freeze(model, ["low", "mid"])
    fit(model, epochs=1)
    try:
        adaptation.unfreeze(model)
    except ValueError as error:
        assert "compile the model again" in str(error) and "Received: ['low/kernel'" in str(error)
    else:
        raise AssertionError("nothing was raised")
    assert not model.get_layer("low").trainable and model.get_layer("top").trainable
    assert trained_in(model, lambda: fit(model, epochs=1)) == {"top", "head"}
    model.compile(keras.optimizers.Adam(0.01), "mse")
    adaptation.unfreeze(model)
    assert trained_in(model, lambda: fit(model, epochs=1)) == set(NAMES)


@check
def what_was_frozen_before_fit_stays_so():
    model, callback, watch = make(), GradualUnfreezing(steps=3), Watch()
    adaptation.freeze(model, "mid")
    model.get_layer("top").bias.trainable = False
    fit(model, callback, watch)
    assert_follows(model, callback, watch)
    assert [w.path for w in model.weights if not w.trainable] == ["mid/kernel", "mid/bias", "top/bias"]
    assert set().union(*watch.steps) == {"low/kernel", "low/bias", "top/kernel", "head/kernel", "head/bias"}


# === Together with the rest of Keras ===


@check
def a_file_written_in_a_stage_knows_the_model_and_not_the_stage():
    with tempfile.TemporaryDirectory() as folder:
        model = make(keras.optimizers.Adam(0.01))
        adaptation.freeze(model, "mid")
        save = keras.callbacks.ModelCheckpoint(f"{folder}/{{epoch}}.keras")
        fit(model, StagedTraining([Stage("head", epochs=1), Stage("low", epochs=1), Stage("all")]), save)
        for epoch in (1, 2):
            loaded = keras.saving.load_model(f"{folder}/{epoch}.keras")
            assert [w.trainable for w in loaded.weights] == [w.trainable for w in model.weights]
            assert len(loaded.optimizer.variables) == len(model.optimizer.variables) == 2 + 2 * 6
            assert int(loaded.optimizer.iterations) == epoch * STEPS
            rest = StagedTraining([Stage("head", epochs=1), Stage("low", epochs=1), Stage("all")])
            fit(loaded, rest, initial_epoch=epoch)
            assert difference(values(loaded), values(model)) == 0


@check
def moving_averages_begin_where_a_layer_begins():
    momentum = 0.8
    model = make(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=momentum))
    adaptation.freeze(model, "mid")
    start, trail = values(model), []
    record = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: trail.append(synced(model)))
    fit(model, StagedTraining([Stage("head", steps=6), Stage(["low", "head"], steps=6), Stage("low")]), record)
    expected = dict(start)
    for step, now in enumerate(trail):
        for name in ["head"] if step < 6 else ["low", "head"] if step < 12 else ["low"]:
            for path in (f"{name}/kernel", f"{name}/bias"):
                keep = 0 if step == 0 else momentum  # Keras's first step
                expected[path] = keep * expected[path] + (1 - keep) * now[path]
    assert difference(values(model), expected) < 1e-6
    assert changed(start, values(model)) == {"low/kernel", "low/bias", "head/kernel", "head/bias"}


def synced(model):
    steps.sync(model)
    return values(model)


@check
def gathered_gradients_belong_to_one_stage():
    model = make(keras.optimizers.SGD(0.1, gradient_accumulation_steps=3))
    callback, watch = StagedTraining([Stage("head", steps=4), Stage("low", steps=1), Stage("all")]), Watch()
    try:
        fit(model, callback, watch)
    except ValueError as error:
        assert "stages that begin at [0, 6, 6]" in str(error)
    else:
        raise AssertionError("a stage was passed over")
    callback = StagedTraining([Stage("head", steps=4), Stage("low", steps=3), Stage("all")])
    fit(model, callback, watch)
    assert [start for start, _ in callback.schedule] == [0, 6, 9]
    head, low = ({f"{name}/kernel", f"{name}/bias"} for name in ("head", "low"))
    every = {weight.path for weight in model.weights}
    nothing = set()
    updates = [head, head, low, every, every]
    assert watch.steps == [part for update in updates for part in (nothing, nothing, update)] + [nothing]


@check
def a_scaled_loss_trains_what_each_stage_says():
    inner = keras.optimizers.Adam(0.01)
    model = make(keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0))
    expected = reference(model, gradually, ("adam", always(0.01)))
    fit(model, GradualUnfreezing(steps=2))
    assert difference(values(model), expected) < 1e-5


@check
def the_step_may_run_eagerly_or_compiled():
    for option in ({"run_eagerly": True}, {"jit_compile": keras.backend.backend() != "torch"}):
        model = make(**option)
        expected = reference(model, gradually, ("sgd", always(0.1), 0.9))
        fit(model, GradualUnfreezing(steps=2))
        assert difference(values(model), expected) < 1e-6


@check
def several_steps_may_be_one_execution():
    if keras.backend.backend() == "torch":
        return
    model, callback = make(steps_per_execution=2), StagedTraining([Stage("head", steps=5), Stage("all")])
    expected = reference(model, lambda step: ["head"] if step < 6 else NAMES, ("sgd", always(0.1), 0.9))
    fit(model, callback)
    assert callback.schedule == [(0, ["head"]), (6, NAMES)]
    assert difference(values(model), expected) < 1e-6


@check
def statistics_of_a_frozen_group_rest():
    model = make_with_norm()
    callback, watch = (
        StagedTraining([Stage("head", epochs=1), Stage(["norm", "head"], epochs=1), Stage("all")]),
        Watch(),
    )
    fit(model, callback, watch)
    statistics = {"norm/moving_mean", "norm/moving_variance"}
    moved = [paths & statistics for paths in watch.steps]
    assert moved == [set()] * STEPS + [statistics] * 3 * STEPS
    assert all(layer.trainable for layer in model.layers)


def make_with_norm(**options):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization(name="norm", **options)(keras.layers.Dense(3, name="low")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(x))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


@check
def keras_has_the_private_names_that_this_rests_on():
    optimizer = keras.optimizers.Adam(use_ema=True)
    model = make(optimizer)
    found = []

    def look(batch, logs):
        found.append([len(optimizer._trainable_variables), len(optimizer._trainable_variables_indices)])
        found[-1].append(len(optimizer._model_variables_moving_average))
        found[-1].append(optimizer._trainable_variables_indices[optimizer._var_key(model.get_layer("head").bias)])
        if keras.backend.backend() == "jax":
            assert set(model._jax_state) >= {"trainable_variables", "optimizer_variables"}

    fit(model, keras.callbacks.LambdaCallback(on_train_batch_end=look))
    assert found == [[8, 8, 8, 7]] * 16


def mirrored():
    """One device beside two replicas: the largest difference of the weights, and how far they went."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    report = {"replicas": strategy.num_replicas_in_sync}
    for name, method in {"gradual": lambda: GradualUnfreezing(steps=2), "chain": lambda: ChainThaw(steps=3)}.items():
        one = make()
        with strategy.scope():
            two = make()
        start, watch = values(one), Watch()
        for model in (one, two):
            callback = method()
            fit(model, callback, *([watch] if model is two else []))
        assert_follows(two, callback, watch)
        report[name] = [float(difference(values(one), values(two))), float(difference(values(one), start))]
    return report


def main():
    if sys.argv[1:] == ["mirrored"]:
        return mirrored()
    report = {}
    for name, function in CHECKS.items():
        try:
            function()
            report[name] = "ok"
        except Exception:
            report[name] = traceback.format_exc()
    return {"backend": keras.backend.backend(), "tensorflow": "tensorflow" in sys.modules, "checks": report}


if __name__ == "__main__":
    print(json.dumps(main()))
