"""`LayerwiseOptimizer` in `.keras` and weights files: training resumes bit-identically, and lost state is reported."""

import logging
import warnings
import zipfile

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import EWC, L2SP, freeze
from keras_transfer.callbacks import Stage, StagedTraining
from keras_transfer.optimizers import LayerwiseOptimizer
from tests.helpers import EAGER, with_slots
from tests.tasks import tiny
from tests.training.optimizers.layerwise_models import (
    RATE,
    X,
    Y,
    apply,
    arrays,
    difference,
    gradients,
    net,
    ones,
    resumed,
)

optimizers, layers = keras.optimizers, keras.layers
BATCHES = {"batch_size": 32}


@pytest.fixture(autouse=True)
def warned():
    """A list of our warnings about lost state. Keras's warnings about it are errors."""
    handler, records = logging.Handler(logging.WARNING), []
    handler.emit = records.append
    logging.getLogger("keras_transfer").addHandler(handler)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Skipping variable loading")
        warnings.filterwarnings("error", message="A total of")
        yield records
    logging.getLogger("keras_transfer").removeHandler(handler)


def compiled(model, kind=optimizers.Adam, penalty=None, decay=0.5, run_eagerly=EAGER, **options):
    """Compiles a model. Its few steps run eagerly on TensorFlow, because tracing them takes longer."""
    optimizer = LayerwiseOptimizer(kind(RATE, **options), model, decay=decay, penalty=penalty)
    model.compile(optimizer, "mse", run_eagerly=run_eagerly)
    return model


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """A model whose layers either have names or are numbered by Keras."""

    def __init__(self, frozen=False, named=False, **options):
        super().__init__(**options)
        self.frozen, self.named = frozen, named
        first, second, norm, top = ("first", "second", "norm", "top") if named else 4 * (None,)
        self.first = layers.Dense(5, "tanh", trainable=not frozen, name=first)
        self.parts = [layers.Dense(5, "tanh", name=second), layers.LayerNormalization(name=norm)]
        self.top = layers.Dense(2, name=top)

    def call(self, x):
        x = self.first(x)
        for part in self.parts:
            x = part(x)
        return self.top(x)

    def get_config(self):
        return {**super().get_config(), "frozen": self.frozen, "named": self.named}


def sequential():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([layers.Dense(6, "tanh", name="low"), layers.Dense(2, name="top")])
    model.build((None, 4))  # This puts its name in front of those of its layers.
    return model


def subclassed(**options):
    keras.utils.set_random_seed(0)
    model = Subclassed(**options)
    model(X[:1])
    return model


def twins(frozen=False):
    """A model of two with weights of the same paths."""
    inputs = keras.Input((4,))
    model = keras.Model(inputs, net()(inputs) - net()(inputs))
    lower = next(layer for layer in model.layers if isinstance(layer, keras.Model))
    lower.trainable = not frozen
    return model


MODELS = {
    "functional": net,
    "Sequential, built late": sequential,
    "subclassed": subclassed,
    "subclassed, with names": lambda: subclassed(named=True),
}


# Resuming


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        pytest.param("functional", "squared", marks=pytest.mark.core),
        *(("Sequential, built late", "unsquared"), ("subclassed", "EWC")),
    ],
)
def test_a_reloaded_model_continues_to_train_bit_identically(name, penalty, tmp_path, warned):
    model = MODELS[name]()
    penalties = {"squared": L2SP(0.5), "unsquared": L2SP(0.5, squared=False), "EWC": EWC(ones(model), 0.5)}
    gathered = 2 if name == "functional" else None
    compiled(
        model,
        penalty=penalties.get(penalty),
        use_ema=penalty == "squared" and keras.backend.backend() == "tensorflow",
        ema_momentum=0.1,
        gradient_accumulation_steps=gathered,
        run_eagerly=EAGER and (name, penalty) != ("functional", "squared"),
    )
    apart_by, moved = resumed(with_slots(model), tmp_path / "model.keras", X, Y, **BATCHES)
    assert apart_by == 0 and moved > 0.01 and not warned


@pytest.mark.parametrize("frozen", [False, True])
def test_weights_of_the_same_path_have_the_rates_of_their_groups(frozen):
    model = twins(frozen)
    optimizer = LayerwiseOptimizer(optimizers.SGD(1.0), model, rates={"top": 0.0, "low_1": 0.25})
    assert len(optimizer.groups) == 8 and optimizer.groups[4].paths == ["low/kernel#1", "low/bias#1"]
    expected = ([] if frozen else [1.0] * 6 + [0.0] * 2) + [0.25] * 2 + [1.0] * 6
    unbuilt = LayerwiseOptimizer.from_config(optimizer.get_config())
    optimizer.build(model.trainable_weights)
    for each in (optimizer, LayerwiseOptimizer.from_config(optimizer.get_config()), unbuilt):
        weights = twins(frozen).trainable_weights if each is not optimizer else model.trainable_weights
        before = arrays(weights)
        apply(each, weights, [[np.ones(weight.shape, "float32") for weight in weights]])
        steps = [float((old - new).max()) for old, new in zip(before, arrays(weights), strict=True)]
        assert steps == pytest.approx(expected)
    other = LayerwiseOptimizer.from_config(optimizer.get_config())
    with pytest.raises(ValueError, match=f"same path.*Expected: {len(expected)} weights. Received: 4 weights"):
        other.build(twins().trainable_weights[:4])
    fisher = {weight.path: np.ones(weight.shape) for weight in model.weights}
    with pytest.raises(ValueError, match="unique paths.*`groups='pretrained'`.*'low/kernel'"):
        LayerwiseOptimizer(optimizers.SGD(1.0), model, penalty=EWC(fisher))


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "Adafactor"])
def test_every_optimizer_keeps_its_state(kind, tmp_path, warned):
    model = net()
    optimizer = getattr(optimizers, kind)()
    if kind == "SGD":
        optimizer = optimizers.SGD(RATE, momentum=0.9)
    model.compile(LayerwiseOptimizer(optimizer, model, decay=0.5), "mse")
    apply(model.optimizer, model.trainable_weights, gradients(model.trainable_weights, 2))
    model.save(tmp_path / "model.keras")
    loaded, stateless = (keras.saving.load_model(tmp_path / "model.keras", compile=flag) for flag in (True, False))
    anew = LayerwiseOptimizer(type(optimizer).from_config(optimizer.get_config()), stateless, decay=0.5)
    for each, its in ((model, model.optimizer), (loaded, loaded.optimizer), (stateless, anew)):
        apply(its, each.trainable_weights, gradients(model.trainable_weights, 1))
    assert difference(model.get_weights(), loaded.get_weights()) == 0 and not warned
    # Without the state the results differ, so the comparison above means something.
    assert difference(model.get_weights(), stateless.get_weights()) > 0


@pytest.mark.slow
def test_a_text_classifier_with_frozen_embeddings_resumes_with_its_schedule(tmp_path, warned):
    texts, labels = tiny.examples()
    model = tiny.classifier()
    freeze(model, 0)
    schedule = keras.optimizers.schedules.CosineDecay(0.01, 16, warmup_target=0.02, warmup_steps=3)
    adam = optimizers.AdamW(schedule, weight_decay=0.0, gradient_accumulation_steps=2)
    model.compile(LayerwiseOptimizer(adam, model, decay=0.9, penalty=L2SP(0.1)))
    apart_by, moved = resumed(model, tmp_path / "model.keras", texts, labels, batch_size=16)
    of_the_optimizer = [record for record in warned if "only which label is frequent" not in record.msg]
    assert apart_by == 0 and moved > 0.01 and not of_the_optimizer
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert [w.path for w in loaded.trainable_weights] == [w.path for w in model.trainable_weights]


def test_a_file_written_during_a_stage_resumes(tmp_path, warned):
    def make():
        stages = [Stage("top", epochs=1), Stage(["mid", "top"], epochs=2), Stage("all")]
        return [StagedTraining(stages), keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.keras"))]

    model = compiled(net(), penalty=L2SP(0.5, squared=False), use_ema=False)
    model.fit(X, Y, epochs=5, shuffle=False, verbose=0, callbacks=make(), **BATCHES)
    loaded = keras.saving.load_model(tmp_path / "2.keras")
    assert [int(part.iterations) for part in loaded.optimizer.group_optimizers()] == [0, 0, 2, 4]
    loaded.fit(X, Y, epochs=5, initial_epoch=2, shuffle=False, verbose=0, callbacks=make(), **BATCHES)
    assert difference(model.get_weights(), loaded.get_weights()) == 0 and not warned


@pytest.mark.slow
def test_it_resumes_with_loss_scaling(tmp_path, warned):
    model = net()
    inner = LayerwiseOptimizer(optimizers.Adam(RATE), model, decay=0.5, penalty=L2SP(0.5))
    model.compile(optimizers.LossScaleOptimizer(inner, dynamic_growth_steps=3), "mse", run_eagerly=EAGER)
    apart_by, moved = resumed(model, tmp_path / "model.keras", X, Y, **BATCHES)
    assert apart_by == 0 and moved > 0.01 and not warned


def test_a_file_contains_the_rate_that_a_callback_set(tmp_path):
    model = compiled(net())
    callback = keras.callbacks.LearningRateScheduler(lambda epoch: 0.001)
    model.fit(X, Y, verbose=0, callbacks=[callback])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert float(loaded.optimizer.learning_rate) == pytest.approx(0.001)
    assert loaded.optimizer.rates == model.optimizer.rates == {"low": 0.125, "norm": 0.25, "mid": 0.5, "top": 1}


# The content of files


@pytest.mark.parametrize("penalty", [L2SP(0.5), EWC(ones(net()), 0.5)], ids=["L2SP", "EWC"])
def test_a_model_saved_before_training_keeps_its_start(penalty, tmp_path, warned):
    model = compiled(net(), optimizers.SGD, penalty)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert difference(model.get_weights(), loaded.get_weights()) == 0
    for each in (model, loaded):
        each.fit(X, Y, epochs=3, shuffle=False, verbose=0)
    assert difference(model.get_weights(), loaded.get_weights()) == 0 and not warned


@pytest.mark.parametrize(
    ("name", "how"),
    [("functional", "layers"), ("functional", "single weights"), ("subclassed, with names", "layers")],
)
def test_weights_frozen_before_saving_keep_the_start_of_the_others(name, how, tmp_path, warned):
    model = MODELS[name]()
    compiled(model, penalty=EWC(ones(model), 0.5))
    start = model.get_weights()
    low = model.layers[1 if name == "functional" else 0].name
    freeze(model, low, paths="kernel" if how == "single weights" else None)
    model.fit(X, Y, verbose=0, **BATCHES)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert difference(model.get_weights(), loaded.get_weights()) == 0
    keys = {variable.path.split("/")[-1]: variable.numpy() for variable in loaded.optimizer.variables}
    starts = [value for key, value in keys.items() if key.endswith("_start")]
    trains = [weight.path for weight in loaded.trainable_weights]
    assert len(starts) == len(trains)
    expected = start if len(trains) == len(start) else start[2:]
    assert difference(starts, expected[: len(starts)]) == 0
    # Keras loses the flags of single weights, and all flags of subclassed models. Their slots start anew.
    assert bool(warned) == (name != "functional" or how == "single weights")
    if warned:
        assert "keep their values" in warned[0].getMessage() and low in warned[0].getMessage()


def test_layers_that_keras_renames_are_an_error_if_other_weights_train_than_before(tmp_path):
    model = compiled(subclassed())
    freeze(model, model.first.name)
    model.fit(X, Y, verbose=0, **BATCHES)
    model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="Keras renames unnamed layers.*Received"):
        keras.saving.load_model(tmp_path / "model.keras")


def test_slots_of_single_weights_that_were_frozen_start_anew_with_a_warning(tmp_path, warned):
    model = compiled(net())
    freeze(model, "low", paths="bias")
    model.fit(X, Y, verbose=0, **BATCHES)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    [record] = warned
    assert "low%2Fbias:momentums" in record.getMessage() and "kernel" not in record.getMessage()
    kept = {last_names(variable): variable.numpy() for variable in loaded.optimizer.variables}
    for variable in model.optimizer.variables:
        np.testing.assert_array_equal(kept[last_names(variable)], variable.numpy())


def last_names(variable):
    """The names of a variable and of its optimizer, without the names of what built this."""
    return variable.path.split("/")[-2], variable.name


@pytest.mark.slow
def test_a_file_contains_each_array_once(tmp_path):
    keras.utils.set_random_seed(0)
    big = keras.Sequential([keras.Input((4,)), layers.Dense(20_000, name="low"), layers.Dense(2, name="top")])
    for kind, penalty, copies in ((optimizers.SGD, None, 1), (optimizers.Adam, None, 3), (optimizers.Adam, L2SP(), 4)):
        compiled(big, kind, penalty)
        big.fit(X[:8], Y[:8], verbose=0)
        big.save(tmp_path / "model.keras")
        with zipfile.ZipFile(tmp_path / "model.keras") as file:
            size = file.getinfo("model.weights.h5").file_size
        low, top = 5 * 20_000, 2 * 20_000 + 2
        expected = 4 * (copies * (low + top) - (top if penalty else 0))
        assert expected < size < 1.05 * expected + 50_000


@pytest.mark.slow
def test_groups_and_layers_may_have_any_name(tmp_path, warned):
    # Joined by underscores, `a/b_c` and `a_b/c` would be the same.
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(4, name="b_c")], name="a")
    outputs = layers.Dense(2, name="top")(layers.Dense(4, name="a_b_c")(inner(inputs)))
    model = keras.Model(inputs, outputs)
    groups = [("all", "b_c/kernel"), ("of/my: own", "b_c/bias")]
    adam = optimizers.Adam(RATE, use_ema=True, ema_momentum=0.1)
    model.compile(LayerwiseOptimizer(adam, model, decay=0.5, groups=groups, penalty=L2SP()), "mse", run_eagerly=EAGER)
    apart_by, moved = resumed(model, tmp_path / "model.keras", X, Y, **BATCHES)
    assert apart_by == 0 and moved > 0.01 and not warned
    assert list(keras.saving.load_model(tmp_path / "model.keras").optimizer.rates) == ["all", "of/my: own", "top"]


def test_names_that_other_layers_had_in_the_file_are_an_error(tmp_path):
    keras.backend.clear_session(free_memory=False)
    layers.Dense(1)  # The model has dense_1 to dense_3 now, and dense to dense_2 after loading.
    model = compiled(subclassed(frozen=True))
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "model.keras")
    keras.backend.clear_session(free_memory=False)
    with pytest.raises(ValueError, match="the same paths as in the file.*Received"):
        keras.saving.load_model(tmp_path / "model.keras")


# Files of weights, and arrays


@pytest.mark.slow
def test_a_weights_file_restores_the_state_of_a_built_optimizer(tmp_path, warned):
    model, other = compiled(net(), penalty=L2SP(0.5)), compiled(net(), penalty=L2SP(0.5))
    model.fit(X, Y, shuffle=False, verbose=0, **BATCHES)
    model.save_weights(tmp_path / "model.weights.h5")
    other.optimizer.build(other.trainable_variables)
    other.load_weights(tmp_path / "model.weights.h5")
    for each in (model, other):
        each.fit(X, Y, shuffle=False, verbose=0, **BATCHES)
    assert difference(model.get_weights(), other.get_weights()) == 0 and not warned


def test_an_unbuilt_optimizer_loads_nothing_from_a_weights_file_and_warns(tmp_path, warned):
    model, other = compiled(net()), compiled(net())
    model.fit(X, Y, verbose=0)
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    assert ["The optimizer is not built" in record.getMessage() for record in warned] == [True]
    assert int(other.optimizer.iterations) == 0
    assert difference(model.get_weights(), other.get_weights()) == 0


def test_set_weights_includes_the_optimizers_of_the_groups():
    models = net(), net()
    ours, others = [LayerwiseOptimizer(optimizers.Adam(RATE), model, penalty=L2SP()) for model in models]
    apply(ours, models[0].trainable_weights, gradients(models[0].trainable_weights))
    others.build(models[1].trainable_weights)
    others.set_weights(arrays(ours.variables))
    assert difference(arrays(ours.variables), arrays(others.variables)) == 0
    with pytest.raises(ValueError):
        others.set_weights(arrays(ours.variables)[:-1])


# Configs


@pytest.mark.parametrize("penalty", [None, L2SP(0.5)], ids=["no penalty", "penalty"])
def test_an_optimizer_from_a_config_trains_the_same(penalty):
    schedule = keras.optimizers.schedules.PolynomialDecay(0.1, 20)
    adam = optimizers.Adam(schedule, beta_1=0.8, clipnorm=1.0, gradient_accumulation_steps=2, name="mine")
    one, two = net(), net()
    ours = LayerwiseOptimizer(adam, one, rates={"low": 0.1}, penalty=penalty, decay_norms_and_biases=True, name="other")
    config = ours.get_config()
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(ours))
    assert again.get_config() == config and again.rates == ours.rates
    assert config["optimizer"]["config"] == adam.get_config()
    assert config["name"] == "other" and config["decay_norms_and_biases"]
    for optimizer, model in ((ours, one), (again, two)):
        apply(optimizer, model.trainable_weights, gradients(model.trainable_weights, 5))
    assert difference(one.get_weights(), two.get_weights()) == 0
    # Training changes only `built_for` in the config.
    assert {**ours.get_config(), "built_for": None} == config
    assert ours.get_config()["built_for"] == [weight.path for weight in one.trainable_weights]


def test_the_wrapped_optimizer_does_not_change():
    adam, model = optimizers.Adam(RATE), net()
    config = adam.get_config()
    apply(LayerwiseOptimizer(adam, model, decay=0.5), model.trainable_weights, gradients(model.trainable_weights))
    assert not adam.built and adam.get_config() == config and int(adam.iterations) == 0


def test_an_ewc_penalty_from_a_config_alone_refuses_to_train():
    model = net()
    config = LayerwiseOptimizer(optimizers.SGD(RATE), model, penalty=EWC(ones(model))).get_config()
    model.compile(LayerwiseOptimizer.from_config(config), "mse", run_eagerly=EAGER)
    start = model.get_weights()
    with pytest.raises(ValueError, match="requires `fisher`.*Received: fisher=None"):
        model.fit(X, Y, verbose=0)
    assert difference(model.get_weights(), start) == 0
