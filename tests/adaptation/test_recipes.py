"""Recipes: what they build, which groups each trains, and `fine_tune`, which is `compile` and `fit`."""

import dataclasses
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import Recipe, fine_tune, get_recipe, layer_groups, unfreeze
from keras_transfer.adaptation.recipe import RECIPES
from keras_transfer.callbacks import ChainThaw, GradualUnfreezing
from keras_transfer.data.batching import Batches
from keras_transfer.encoders import AWDLSTMEncoder, ElectraEncoder
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.optimizers.schedules import LinearWarmupDecay, SlantedTriangular
from keras_transfer.tasks import MaskedLM, MultiTask, ReplacedTokenDetection, TextRegressor
from keras_transfer.training.fitting import epochs_of_steps
from tests.errors import check_errors
from tests.tasks.inputs.test_columns_of_datasets import Slices
from tests.tasks.tiny import classifier, encoder, examples, of_vectors, preprocessor
from tests.training.runs.staging_encoders import ENCODERS
from tests.training.runs.staging_models import changed, values

TEXTS, LABELS = examples(16)
pytestmark = pytest.mark.usefixtures("eagerly")


class Trained(keras.callbacks.Callback):
    """The names of the groups that each epoch changed."""

    def __init__(self):
        super().__init__()
        self.groups = []

    def on_epoch_begin(self, epoch, logs=None):
        self.before = {id(w): w.numpy().copy() for w in self.model.weights}

    def on_epoch_end(self, epoch, logs=None):
        changed = [
            group.name
            for group in layer_groups(self.model)
            if any((self.before[id(w)] != w.numpy()).any() for w in group.variables)
        ]
        self.groups.append(changed)


def learning_rate(model, step):
    schedule = keras.saving.deserialize_keras_object(
        model.optimizer.get_config()["optimizer"]["config"]["learning_rate"]
    )
    return float(schedule(step))


EVERYTHING = ["embeddings", "block_0", "pooler", "head"]
UP_TO = [EVERYTHING[i:] for i in (3, 2, 1, 0)]
ALONE = [["head"], ["embeddings"], ["block_0"], ["pooler"], EVERYTHING]


@pytest.mark.parametrize(
    ("name", "options", "model", "groups"),
    [
        ("bert", {"epochs": 2}, {}, [EVERYTHING] * 2),
        ("ulmfit_classifier", {"epochs": 6, "unfreezing_fraction": 0.5}, {}, UP_TO + [EVERYTHING] * 2),
        ("feature_extraction", {"epochs": 2}, {}, [["head"]] * 2),
        ("chain_thaw", {"epochs": 5, "unfreezing_fraction": 4 / 5}, {}, ALONE),
        ("linear_probe_then_finetune", {"epochs": 2}, {}, [["head"], EVERYTHING]),
        ("last_layers", {"epochs": 1, "last_blocks": 1}, {"num_layers": 2}, [["block_1", "pooler", "head"]]),
        ("scalar_mix", {"epochs": 1}, {"scalar_mix": True}, [["head"]]),
        ("adapters", {"epochs": 1}, {}, [["block_0_adapters", "head"]]),
        ("lora", {"epochs": 1}, {}, [["block_0_adapters", "head"]]),
    ],
)
def test_a_recipe_trains_its_groups_and_leaves_the_others_bit_identical(name, options, model, groups):
    trained, model = Trained(), classifier(**model)
    recipe = get_recipe(name, batch_size=16, **options)
    history = fine_tune(model, TEXTS, LABELS, recipe=recipe, callbacks=[trained], verbose=0)
    assert trained.groups == groups
    assert isinstance(history, keras.callbacks.History) and len(history.history["loss"]) == options["epochs"]
    assert name != "scalar_mix" or abs(model.scalar_mix.mix[0] - 0.5) > 1e-4


def test_pretraining_continues_with_the_rates_of_the_paper_and_trains_everything():
    keras.utils.set_random_seed(0)
    trained, model = Trained(), MaskedLM(encoder(), preprocessor())
    fine_tune(model, TEXTS, recipe=get_recipe("tapt", epochs=1, batch_size=8), callbacks=[trained], verbose=0)
    assert {*EVERYTHING} - {"pooler"} <= set(trained.groups[0])
    for name, rate in (("dapt", 5e-4), ("tapt", 1e-4)):
        config = get_recipe(name).build_optimizer(model, 100).get_config()["optimizer"]["config"]
        assert [config[key] for key in ("beta_1", "beta_2", "epsilon", "weight_decay")] == [0.9, 0.98, 1e-6, 0.01]
        schedule = config["learning_rate"]
        schedule = keras.saving.deserialize_keras_object(schedule)
        np.testing.assert_allclose(
            [float(schedule(step)) for step in (3, 6, 53)], [rate / 2, rate, rate / 2], rtol=1e-5
        )


def test_the_recipes_of_pretraining_have_the_numbers_of_public_code():
    model = classifier()
    totals, settings = {"electra": 1_000_000, "gpt": 500_000, "roberta": 125_000}, {}
    for name, total in totals.items():
        recipe = get_recipe(name)
        assert recipe.steps == (None if name == "gpt" else total) and recipe.epochs == (100 if name == "gpt" else None)
        settings[name] = recipe.build_optimizer(model, total).get_config()["optimizer"]["config"]
        settings[name]["batch"] = recipe.batch_size
    names = ("batch", "beta_1", "beta_2", "epsilon", "weight_decay", "global_clipnorm")
    assert {name: [found[key] for key in names] for name, found in settings.items()} == {
        "electra": [128, 0.9, 0.999, 1e-6, 0.01, 1.0],
        "gpt": [64, 0.9, 0.999, 1e-8, 0.01, 1.0],
        "roberta": [2048, 0.9, 0.98, 1e-6, 0.01, None],
    }
    rates = {name: keras.saving.deserialize_keras_object(found["learning_rate"]) for name, found in settings.items()}
    electra, gpt, roberta = (lambda steps, name=name: [float(rates[name](step)) for step in steps] for name in rates)
    # Google's rate falls from the first step on, and ours from the end of the warm-up on.
    np.testing.assert_allclose(electra((5_000, 10_000)), [2.5e-4, 5e-4], rtol=1e-5)
    falling = np.array([10_000, 400_000, 900_000])
    np.testing.assert_allclose(electra(falling), 5e-4 * (1 - falling / 1e6) / 0.99, rtol=1e-5)
    falling = np.array([1_000, 100_000, 400_000])
    np.testing.assert_allclose(gpt((500,)), [1.25e-4], rtol=1e-5)
    np.testing.assert_allclose(gpt(falling), 1.25e-4 * (1 + np.cos(np.pi * falling / 500_000)), rtol=5e-3)
    # fairseq's `polynomial_decay`
    falling = np.array([10_000, 67_500, 125_000])
    np.testing.assert_allclose(roberta((4_000, *falling)), [2e-4, 5e-4, 2.5e-4, 0.0], rtol=1e-5)


@pytest.mark.parametrize(("steps", "expected"), [(1, (1, 1)), (2, (1, 2)), (3, (2, 4)), (7, (4, 8))])
def test_a_run_has_the_steps_of_its_recipe_rounded_up_to_equal_epochs(steps, expected):
    import tensorflow as tf

    recipe = get_recipe("electra", steps=steps, batch_size=8)
    x, y = np.zeros((16, 4), "float32"), np.zeros((16, 2), "float32")
    model, data = plain(), tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    for options in ({}, {"steps_per_epoch": 2}):
        history = fine_tune(model, data.repeat() if options else data, recipe=recipe, loss="mse", verbose=0, **options)
        assert (len(history.epoch), int(model.optimizer.iterations)) == expected
        assert learning_rate(model, expected[1]) == 0.0


def test_epochs_are_shorter_only_if_they_do_not_all_leave_out_the_same_batches():
    import tensorflow as tf

    x, y = np.zeros((3, 4), "float32"), np.zeros((3, 2), "float32")
    for data in ((tf.data.Dataset.from_tensor_slices((x, y)).batch(1),), (x, y)):
        model, recipe = plain(), get_recipe("bert", steps=4, batch_size=1)
        history = fine_tune(model, *data, recipe=recipe, loss="mse", verbose=0)
        assert (len(history.epoch), int(model.optimizer.iterations)) == (2, 6)
    task, texts = classifier(), examples(3)
    shuffled, fixed = (task.dataset(*texts, batch_size=1, shuffle=shuffle) for shuffle in (True, False))
    assert epochs_of_steps(shuffled, 3, 4) == (2, 2) and epochs_of_steps(fixed, 3, 4) == (2, 3)
    assert epochs_of_steps(fixed, 3, 2) == (1, 2)
    assert epochs_of_steps(fixed, 3, 4, goes_on=True) == (2, 2)


def test_a_recipe_pretrains_an_electra():
    keras.utils.set_random_seed(0)
    trained, small = Trained(), MaskedLM(encoder(ElectraEncoder, hidden_dim=8, embedding_dim=16))
    model = ReplacedTokenDetection(encoder(ElectraEncoder), preprocessor(), generator=small, share_embeddings=True)
    recipe = get_recipe("electra", steps=2, batch_size=4, warmup_fraction=0.5)
    history = fine_tune(model, TEXTS, recipe=recipe, callbacks=trained, verbose=0)
    assert trained.groups == [["embeddings", "block_0", "head", "other"]] and len(history.epoch) == 1
    assert get_recipe("electra", epochs=3).steps is None and get_recipe("bert", steps=3).epochs is None


def test_recipes_build_the_optimizers_schedules_and_callbacks_of_their_papers():
    model = classifier()
    bert = get_recipe("bert").build_optimizer(model, 100)
    assert isinstance(bert, LayerwiseOptimizer) and set(bert.rates.values()) == {1.0}
    config = bert.get_config()["optimizer"]["config"]
    assert config["weight_decay"] == 0.01 and config["global_clipnorm"] == 1.0
    assert float(bert.learning_rate) == pytest.approx(float(LinearWarmupDecay(3e-4, 100)(0)))
    ulmfit = get_recipe("ulmfit_classifier")
    optimizer = ulmfit.build_optimizer(model, 100)
    assert list(optimizer.rates.values()) == pytest.approx([2.6**-3, 2.6**-2, 2.6**-1, 1.0])
    assert float(optimizer.learning_rate) == pytest.approx(float(SlantedTriangular(18 * 3e-4, 100)(0)))
    assert [type(callback) for callback in ulmfit.build_callbacks()] == [GradualUnfreezing]
    assert [type(callback) for callback in get_recipe("chain_thaw").build_callbacks()] == [ChainThaw]
    assert get_recipe("bert").build_callbacks() == []
    cosine = get_recipe("bert", schedule="cosine", warmup_fraction=0.2).build_optimizer(model, 100)
    assert cosine.get_config()["optimizer"]["config"]["learning_rate"]["class_name"] == "WarmupCosine"
    assert cosine.get_config()["optimizer"]["config"]["learning_rate"]["config"]["total_steps"] == 100


def test_the_schedule_of_lp_ft_spans_its_second_stage():
    model, recipe = classifier(), get_recipe("linear_probe_then_finetune", unfreezing_fraction=0.25)
    schedule = recipe.build_optimizer(model, 100).get_config()["optimizer"]["config"]["learning_rate"]
    assert schedule["config"]["total_steps"] == 75
    [callback] = recipe.build_callbacks()
    probe, tune = callback.plan(layer_groups(model))
    assert (probe.train, probe.fraction, probe.learning_rate) == ("new", 0.25, 1e-2)
    assert (tune.train, tune.learning_rate) == ("all", None) and callback.restarts


@pytest.mark.parametrize(
    ("name", "epochs", "rates"),
    [
        ("bert", 3, (3e-4, 1e-4, 5e-5, 2e-5)),
        ("linear_probe_then_finetune", 3, (3e-4, 1e-4, 5e-5, 2e-5)),
        ("lora", 3, (9e-3, 3e-3, 1.5e-3, 6e-4)),
        ("ulmfit_classifier", 3, (5.4e-3, 1.8e-3, 9e-4, 3.6e-4)),
        ("chain_thaw", 3, (9e-4, 3e-4, 1.5e-4, 6e-5)),
        ("feature_extraction", 10, (1e-2,) * 4),
    ],
)
def test_a_recipe_chooses_its_rate_by_the_width_of_the_encoder_and_by_what_trains(name, epochs, rates):
    recipe = get_recipe(name)
    for width, rate in zip((8, 384, 768, 1024), rates, strict=True):
        found = recipe.resolve(SimpleNamespace(encoder=SimpleNamespace(default_learning_rate=rate_of(width))), 1000)
        assert (found.epochs, found.learning_rate) == (epochs, pytest.approx(rate))
        assert dataclasses.replace(found, epochs="auto", learning_rate="auto") == recipe


def rate_of(width):
    return encoder(hidden_dim=width, num_heads=1, num_layers=1, intermediate_dim=4).default_learning_rate


def test_families_have_rates_of_their_own():
    assert encoder(ElectraEncoder, hidden_dim=256, num_heads=1, intermediate_dim=4).default_learning_rate == 3e-4
    assert AWDLSTMEncoder(10, embedding_dim=8, units=4).default_learning_rate == 5e-4


def test_a_small_table_has_so_many_epochs_that_there_are_100_updates(monkeypatch):
    bert, model = get_recipe("bert"), classifier()
    assert [bert.resolve(model, batches).epochs for batches in (1, 18, 33, 34, 1000)] == [100, 6, 4, 3, 3]
    assert get_recipe("bert", gradient_accumulation_steps=2).resolve(model, 18).epochs == 12
    assert get_recipe("bert", epochs=2).resolve(model, 18).epochs == 2
    assert get_recipe("bert", steps=5).resolve(model, 18).steps == 5
    monkeypatch.setattr("keras_transfer.adaptation.recipe.STEPS", 11)
    fine_tune(model, TEXTS, LABELS, recipe=get_recipe("feature_extraction", batch_size=16), verbose=0)
    assert int(model.optimizer.iterations) == 11


def test_fine_tune_equals_compile_and_fit_with_what_the_recipe_builds():
    by_hand, by_recipe = classifier(), classifier()
    by_recipe.set_weights(by_hand.get_weights())
    recipe = get_recipe("bert", epochs=2, batch_size=8)
    keras.utils.set_random_seed(0)
    fine_tune(by_recipe, TEXTS, LABELS, recipe=recipe, verbose=0)
    keras.utils.set_random_seed(0)
    batches = len(TEXTS) // 8
    rate = LinearWarmupDecay(3e-4, 2 * batches)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_list=[w for w in by_hand.weights if len(w.shape) == 1])
    by_hand.compile(optimizer)
    by_hand.fit(TEXTS, LABELS, epochs=2, batch_size=8, verbose=0)
    for ours, theirs in zip(by_recipe.get_weights(), by_hand.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(("length", "steps"), [({"epochs": 2}, 8), ({"steps": 5}, 6)])
def test_several_tasks_train_by_a_recipe_as_by_compile_and_fit_with_what_it_builds(length, steps):
    def several():
        first = of_vectors()
        second = TextRegressor(first.encoder, first.preprocessor, num_targets=1)
        return MultiTask(first.encoder, {"mood": first, "length": second})

    data = {"mood": (TEXTS, LABELS), "length": (TEXTS, [len(text) / 60 for text in TEXTS], np.ones(len(TEXTS)))}
    recipe = get_recipe("bert", batch_size=8, **length)
    by_recipe, by_hand = several(), several()
    keras.utils.set_random_seed(0)
    history = fine_tune(by_recipe, data, recipe=recipe, validation_data={"mood": (TEXTS, LABELS)}, verbose=0).history
    epochs = len(history["val_mood_accuracy"])
    keras.utils.set_random_seed(0)
    by_hand.compile(recipe.build_optimizer(by_hand, steps))
    by_hand.fit(data, batch_size=8, epochs=epochs, steps_per_epoch=steps // epochs, verbose=0)
    assert int(by_recipe.optimizer.iterations) == steps and learning_rate(by_recipe, steps) == 0.0
    for ours, theirs in zip(by_recipe.get_weights(), by_hand.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_recipe_can_be_printed_copied_with_changes_and_compared():
    recipe = dataclasses.replace(get_recipe("bert"), epochs=7)
    assert "epochs=7" in repr(recipe) and "schedule='linear'" in repr(recipe)
    assert recipe == get_recipe("bert", epochs=7) == Recipe(epochs=7)
    assert Recipe(steps=5) == get_recipe("bert", steps=5)


def test_fine_tune_takes_arrays_datasets_and_more_arguments_of_fit():
    import tensorflow as tf

    x, y = np.random.default_rng(0).normal(size=(20, 4)).astype("float32"), np.zeros((20, 2), "float32")
    for train, steps in [((x, y), 3), ((tf.data.Dataset.from_tensor_slices((x, y)).batch(5),), 4)]:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
        recipe = get_recipe("bert", epochs=2, batch_size=8)
        history = fine_tune(
            model, *train, validation_data=(x, y), recipe=recipe, loss="mse", metrics=["mae"], verbose=0
        )
        assert set(history.history) == {"loss", "mae", "val_loss", "val_mae"}
        assert int(model.optimizer.iterations) == 2 * steps
        assert learning_rate(model, 2 * steps) == 0.0


def test_a_column_of_texts_without_labels_has_the_batches_of_the_recipe():
    for column in (TEXTS, Slices(TEXTS)):
        model = MaskedLM(encoder(), preprocessor())
        fine_tune(model, column, recipe=get_recipe("bert", epochs=1, batch_size=8), verbose=0)
        assert int(model.optimizer.iterations) == 2
        assert learning_rate(model, 1) > 0.0 == learning_rate(model, 2)


def unknown_length():
    import tensorflow as tf

    return tf.data.Dataset.from_tensors((np.zeros((2, 4)), np.zeros((2, 2)))).filter(lambda x, y: True)


def plain():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])


def tune(**options):
    fine_tune(classifier(), TEXTS, LABELS, **options)


test_a_mistake_is_one_error = check_errors(
    (lambda: get_recipe("brt"), "Did you mean 'bert'? Received: 'brt'"),
    (lambda: get_recipe("bert", epoch=2), "Received: ['epoch']"),
    (lambda: get_recipe("bert", epochs=2, steps=3), "`epochs` and `steps` must be set", "epochs=2, steps=3"),
    (
        lambda: dataclasses.replace(get_recipe("electra"), epochs=3),
        "Pass `steps=None` with `epochs`, or use `get_recipe(name, epochs=...)` ... epochs=3, steps=1000000",
    ),
    (
        lambda: fine_tune(
            plain(), np.zeros((4, 4)), np.zeros((4, 2)), loss="mse", recipe=get_recipe("bert", steps=1, batch_size=2)
        ),
        "`steps` of the recipe must be at least the number of batches of this data, 2. ... Received: steps=1",
    ),
    (lambda: get_recipe("bert", unfreezing_fraction=0.3), "`unfreezing_fraction` must be None if"),
    (lambda: get_recipe("bert", probe_learning_rate=0.1), "must be a number if `unfreezing='linear_probe'`, and"),
    (lambda: get_recipe("lora", frozen="head"), "`adapters` must be None if `frozen` or `last_blocks` is set"),
    (lambda: fine_tune(plain(), np.zeros((2, 4)), np.zeros((2, 2))), "`loss` is required"),
    (
        lambda: fine_tune(plain(), np.zeros((2, 4)), loss="mse"),
        "Pass them as `y` ... Received: x=array([[0., 0., 0., 0.]",
    ),
    (lambda: fine_tune(plain(), unknown_length(), loss="mse"), "Pass `steps_per_epoch`"),
    (lambda: tune(validation_split=0.5), "Received: taken=['validation_split']"),
    (lambda: tune(recipe={"epochs": 1}), "`recipe` must be ", "Received: {"),
    (lambda: tune(learnig_rate=1e-3), TypeError, "has no argument `learnig_rate`. Set `learning_rate` in the recipe"),
    (lambda: tune(verbos=0), TypeError, "Did you mean 'verbose'", "Received: verbos=0"),
)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("last_layers", {}, "`last_blocks` must be at most the number of blocks, 1. Received: last_bl"),
        ("scalar_mix", {}, "requires a model that mixes the layers.*`scalar_mix=True`. Received: model="),
        ("bert", {"frozen": "all"}, "must remain trainable.*Received: frozen='all'"),
    ],
)
def test_a_recipe_that_does_not_fit_the_model_leaves_it_as_it_was(name, options, message):
    model = classifier()
    with pytest.raises(ValueError, match=message):
        fine_tune(model, TEXTS, LABELS, recipe=get_recipe(name, **options))
    assert len(model.trainable_weights) == len(model.weights)


def test_fine_tune_passes_on_the_arguments_of_a_models_own_fit(monkeypatch):
    monkeypatch.setattr("keras_transfer.adaptation.recipe.STEPS", 2)
    received = []

    class Own(keras.Sequential):
        def fit(self, *args, temperature=1.0, **options):
            received.append(temperature)
            return super().fit(*args, **options)

    model = Own([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    fine_tune(model, np.ones((4, 4)), np.ones((4, 1)), loss="mse", temperature=2.0, verbose=0)
    assert received == [2.0]


def test_tensorflow_tunes_no_pipeline_of_any_model_in_fine_tune(tuned):
    task = classifier()
    model = keras.Model(task.inputs, task.outputs)  # which does not do so itself
    data = task.dataset(TEXTS, LABELS)
    fine_tune(model, data, recipe=get_recipe("bert", epochs=1), loss="sparse_categorical_crossentropy", verbose=0)
    assert tuned[0] is False


@pytest.mark.slow
def test_sample_weights_reach_the_loss():
    model, x, y = classifier(), ids(), np.array(LABELS)
    start = [weight.numpy() for weight in model.weights]
    recipe = get_recipe("bert", epochs=1, weight_decay=0.0)
    fine_tune(model, x, y, sample_weight=np.zeros(16), recipe=recipe, verbose=0)
    assert all((weight.numpy() == value).all() for weight, value in zip(model.weights, start))
    fine_tune(model, x, y, sample_weight=np.ones(16), recipe=recipe, verbose=0)
    assert all(
        (weight.numpy() != value).any() for weight, value in zip(model.weights, start) if "key" not in weight.path
    )


@pytest.mark.slow
def test_a_schedule_is_as_long_as_the_run_even_if_epochs_are_cut_short():
    for train in ((TEXTS, LABELS), (ids(), np.array(LABELS))):
        model = classifier()
        recipe = get_recipe("bert", epochs=2, batch_size=2, learning_rate=1e-3)
        fine_tune(model, *train, recipe=recipe, steps_per_epoch=3, verbose=0)
        assert learning_rate(model, 6) == 0 < learning_rate(model, 5)


def test_weights_that_an_earlier_recipe_froze_stay_frozen_and_this_is_logged(caplog):
    model = classifier()
    fine_tune(model, TEXTS, LABELS, recipe=get_recipe("feature_extraction", epochs=1), verbose=0)
    assert "frozen before" not in caplog.text
    before = [weight.numpy() for weight in model.weights]
    fine_tune(model, TEXTS, LABELS, recipe=get_recipe("bert", epochs=1), verbose=0)
    frozen = sum(weight.numpy().size for weight in model.weights if not weight.trainable)
    assert f"{frozen} parameters were frozen before the recipe was applied and remain frozen" in caplog.text
    moved = {id(weight) for weight, value in zip(model.weights, before) if (weight.numpy() != value).any()}
    assert moved == {id(weight) for weight in layer_groups(model)[-1].variables}
    model.compile("adam")
    unfreeze(model)
    caplog.clear()
    trained = Trained()
    fine_tune(model, TEXTS, LABELS, recipe=get_recipe("bert", epochs=1), callbacks=trained, verbose=0)
    assert trained.groups == [EVERYTHING] and "frozen before" not in caplog.text


def ids():
    return {name: np.array(value) for name, value in preprocessor()(TEXTS).items()}


def test_every_named_recipe_is_a_recipe():
    others = {
        "scalar_mix",
        "last_layers",
        "linear_probe_then_finetune",
        "adapters",
        "lora",
        "dapt",
        "tapt",
        "ulmfit_lm",
        "electra",
        "gpt",
        "roberta",
    }
    assert set(RECIPES) == {"bert", "ulmfit_classifier", "feature_extraction", "chain_thaw", *others}
    for name in RECIPES:
        assert isinstance(get_recipe(name), Recipe)


@pytest.mark.parametrize(("kind", "name"), [("keras_hub", "feature_extraction"), ("module", "ulmfit_classifier")])
def test_a_recipe_trains_its_groups_of_a_keras_hub_backbone_and_of_a_module(kind, name):
    model, inputs = ENCODERS[kind]()
    start, groups = values(model), layer_groups(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    fine_tune(model, inputs, np.arange(16) % 2, recipe=get_recipe(name, epochs=2, batch_size=4), loss=loss, verbose=0)
    frozen = {weight.path for group in groups if group.pretrained for weight in group.variables}
    moved, new = changed(start, values(model)), set(start) - frozen
    assert new <= moved
    assert bool(moved & frozen) == (name != "feature_extraction")
    if moved & frozen:
        assert all(moved & {weight.path for weight in group.variables} for group in groups)


def test_a_model_whose_fit_has_no_class_weight_is_fine_tuned():
    class Narrow(keras.Model):
        def fit(self, x, y=None, sample_weight=None, batch_size=None, epochs=1, validation_data=None, callbacks=None):
            return super().fit(x, y, batch_size, epochs, verbose=0, callbacks=callbacks)

    inputs = keras.Input((4,))
    model = Narrow(inputs, keras.layers.Dense(2)(inputs))
    history = fine_tune(model, np.zeros((4, 4)), np.zeros((4, 2)), loss="mse", recipe=get_recipe("bert", epochs=1))
    assert len(history.epoch) == 1


@pytest.mark.parametrize("one_hot", [False, True])
def test_a_class_without_a_weight_has_the_weight_1_in_any_model(one_hot):
    x, y = np.arange(12, dtype="float32").reshape(6, 2) / 12, np.array([0, 1, 2, 0, 1, 2])
    data = Batches.of({"x": x}, np.eye(3, dtype="float32")[y] if one_hot else y, batch_size=6, lengths=[2])
    loss = "categorical_crossentropy" if one_hot else "sparse_categorical_crossentropy"
    losses = []
    for weights in ({0: 3.0}, {0: 3.0, 1: 1.0, 2: 1.0}):
        inputs = keras.Input((2,), name="x")
        dense = keras.layers.Dense(3, "softmax", kernel_initializer="ones")(inputs)
        model = keras.Model({"x": inputs}, dense)
        recipe = get_recipe("bert", epochs=1, learning_rate=0.1)
        losses.append(fine_tune(model, data, loss=loss, recipe=recipe, class_weight=weights, verbose=0).history["loss"])
    np.testing.assert_allclose(losses, np.log(3) * 10 / 6, rtol=1e-5)
