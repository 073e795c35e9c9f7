"""Adapters of every kind: identity at the start, what trains, parameters, `.keras`, removal, and mistakes."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer import adaptation as kt
from keras_transfer.adaptation.adapters.adapters import get_adapters
from keras_transfer.adaptation.adapters.bitfit import own_weights
from keras_transfer.adaptation.adapters.compacter import Rule
from keras_transfer.callbacks import TrainingCheckpoint
from keras_transfer.encoders import ModernBertEncoder
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import DIM, INNER, outputs, randomize, train, values
from tests.adapters import run_adapter_test
from tests.errors import check_errors
from tests.helpers import EAGER, save_and_load

NORMS = 4 * DIM
BOTTLENECK = 2 * DIM * 3 + DIM + 3
# A specification: a number of blocks, its number of parameters by the formula of the paper for blocks of width 8, and
# more arguments of `run_adapter_test`. What blocks share, and what a model shares with an adapter, needs two blocks.
KINDS = {
    "houlsby:3": (2, 2 * (2 * BOTTLENECK + NORMS), {}),
    "pfeiffer:3": (1, BOTTLENECK, {}),
    "parallel:3": (1, BOTTLENECK, {"tolerance": 0}),
    "compacter:4,terms=2": (2, 2**3 + 2 * 2 * (2 * (DIM + 4) + DIM + 4), {}),
    "lora:r=2": (2, 2 * 2 * 2 * 2 * DIM, {"tolerance": 0, "merges": True}),
    "dora:r=2": (1, 2 * (2 * 2 * DIM + DIM), {"merges": True}),
    "ia3": (1, 2 * DIM + INNER, {"tolerance": 0, "merges": True}),
    "prefix:3": (2, 2 * 2 * 3 * DIM, {"tolerance": None}),
    "prompt:3": (1, 3 * DIM, {"tolerance": None}),
    "bitfit": (1, 3 * DIM + DIM + INNER + DIM + 2 * DIM + DIM + DIM, {"merges": True}),
    "copies:pooler|.*attention_norm": (1, DIM * DIM + DIM + 2 * DIM, {"tolerance": 0, "merges": True}),
    "pals:size=4,num_heads=2": (2, 2 * DIM * 4 + 2 * 3 * 4 * 4, {}),
}


def test_the_rule_of_a_compacter_begins_with_a_standard_deviation_of_a_tenth():
    rule = Rule(8)
    rule.build()
    assert 0.08 < ops.std(rule.rule) < 0.12


# `pfeiffer` and `parallel` compute with the same operations as `houlsby`.
SAME_OPERATIONS = ("pfeiffer:3", "parallel:3") * (keras.backend.backend() != "tensorflow")


@pytest.mark.core
@pytest.mark.parametrize("spec", [spec for spec in KINDS if spec not in SAME_OPERATIONS])
@pytest.mark.report("A merged adapter answers differently.", "peft#1035", "peft#1388", "peft#2502")
def test_a_kind_starts_as_the_identity_trains_is_saved_removed_and_merged(spec, tmp_path):
    num_layers, parameters, options = KINDS[spec]

    def make():
        return models.classifier(num_layers=num_layers)

    run_adapter_test(make, spec, parameters, "block_0_adapters", tmp_path, **options)


def test_a_file_rebuilds_adapters_of_all_kinds_that_are_active_together():
    model, names = models.classifier(), [f"kind{i}" for i in range(len(KINDS))]
    for name, spec in zip(names, KINDS):
        randomize(kt.add_adapters(model, spec, name=name), name)
    # Only one can copy a weight.
    active = [name for name, spec in zip(names, KINDS) if not spec.startswith(("bitfit", "copies"))]
    again = save_and_load(kt.set_active_adapter(model, active))
    np.testing.assert_array_equal(outputs(again), outputs(model))
    assert again.encoder.adapters == model.encoder.adapters
    assert [w.path for w in again.weights] == [w.path for w in model.weights]


def test_a_file_of_an_encoder_alone_keeps_what_trains():
    encoder = kt.add_adapters(models.encoder(), ["lora:r=2", "bitfit"])
    again = save_and_load(encoder)
    assert [w.path for w in again.trainable_weights] == [w.path for w in encoder.trainable_weights]
    np.testing.assert_array_equal(outputs(again), outputs(encoder))


@pytest.mark.parametrize(
    "make", [models.tagger, pytest.param(models.language_model, marks=pytest.mark.core), models.masked]
)
def test_other_tasks_and_encoders_take_adapters(make):
    model = kt.add_adapters(make(), ["houlsby:3", kt.LoRA(2, targets=".*"), "prefix:2"])
    inputs = dict(models.INPUTS, mask_positions=np.array([[1], [2]], "int32"))
    expected = outputs(randomize(model), inputs)
    np.testing.assert_array_equal(outputs(save_and_load(model), inputs), expected)
    assert np.abs(outputs(kt.remove_adapters(model), inputs) - expected).max() > 1e-5


@pytest.mark.core
def test_decoding_with_a_cache_uses_the_adapters():
    model = models.language_model()
    names = ["houlsby", "parallel", "lora", "ia3", "prefix", "bitfit"]
    for name in names:
        randomize(kt.add_adapters(model, name, name=name), name)
    kt.set_active_adapter(model, names)
    encoder, ids = model.encoder, models.IDS[:1]
    expected = encoder({"token_ids": ids, "padding_mask": np.ones_like(ids)})["sequence_output"]
    cache, steps = encoder.empty_cache(1, ids.shape[1]), []
    for i in range(ids.shape[1]):
        step, cache = encoder.step(ids[:, i : i + 1], cache, start=i)
        steps.append(keras.ops.convert_to_numpy(step))
    np.testing.assert_allclose(np.concatenate(steps, 1), keras.ops.convert_to_numpy(expected), atol=1e-5)


@pytest.mark.parametrize(
    "names",
    [
        ["scale", "low", "dora"],
        ["dora", "low", "both"],
    ],
)
def test_several_adapters_of_one_layer_are_merged_in_any_order(names):
    model, scale = models.classifier(), kt.IA3(targets=(), input_targets="inner")
    specs = {"low": "lora:2,targets='inner'", "dora": "dora:2,targets='inner'", "scale": scale}
    specs["both"] = [specs["low"], "ia3"]
    for name in names:
        randomize(kt.add_adapters(model, specs[name], name=name), name)
    expected = outputs(kt.set_active_adapter(model, names))
    np.testing.assert_allclose(outputs(kt.merge_adapters(model)), expected, rtol=0, atol=1e-5)


def test_several_adapters_on_one_base_are_chosen_by_name():
    model = models.classifier()
    plain = outputs(model)
    kt.add_adapters(model, "houlsby:2", name="first")
    randomize(model, "first")
    first = outputs(model)
    kt.add_adapters(model, ["pfeiffer:2", "bitfit"], name="second")
    np.testing.assert_array_equal(outputs(model), plain)
    randomize(model, "second")
    second = outputs(model)
    kt.set_active_adapter(model, "first")
    np.testing.assert_array_equal(outputs(model), first)
    assert not any("second" in weight.path for weight in model.trainable_weights)
    stacked = outputs(kt.set_active_adapter(model, ["first", "second"]))
    assert min(np.abs(stacked - other).max() for other in (plain, first, second)) > 1e-5
    np.testing.assert_array_equal(outputs(save_and_load(model)), stacked)
    np.testing.assert_array_equal(outputs(kt.set_active_adapter(model, None)), plain)
    kt.remove_adapters(model, "first")
    np.testing.assert_array_equal(outputs(kt.set_active_adapter(model, "second")), second)


def test_each_adapter_has_its_own_head():
    model = train(kt.add_adapters(models.classifier(), "lora:r=2", name="first"))
    first = outputs(model)
    second = outputs(train(kt.add_adapters(model, "ia3", name="second")))
    again = save_and_load(model)
    for name, expected in (("first", first), ("second", second), ("first", first)):
        np.testing.assert_array_equal(outputs(kt.set_active_adapter(again, name)), expected)


def test_adapters_that_are_active_already_keep_what_is_traced_and_compiled():
    model = kt.add_adapters(models.classifier(), "lora:r=2", name="first")
    model.compile("sgd")
    model.make_predict_function()
    expected, traced = outputs(model), model.predict_function
    assert kt.set_active_adapter(model, "first") is model
    assert model.compiled and model.predict_function is traced
    model.encoder.trainable = True  # Other weights train than those of the adapters.
    kt.set_active_adapter(model, "first")
    assert not model.compiled and model.predict_function is None
    assert {weight.path for weight in model.trainable_weights} == {
        weight.path for weight in kt.add_adapters(models.classifier(), "lora:r=2", name="first").trainable_weights
    }
    np.testing.assert_array_equal(outputs(model), expected)


def test_weights_that_are_loaded_into_a_model_with_several_adapters_replace_their_heads(tmp_path):
    model = train(kt.add_adapters(models.classifier(), "lora:r=2", name="first"))
    first = outputs(model)
    train(kt.add_adapters(model, "ia3", name="second")).save_weights(tmp_path / "adapted.weights.h5")
    again = kt.add_adapters(models.classifier(), "lora:r=2", name="first")
    kt.add_adapters(again, "ia3", name="second").load_weights(tmp_path / "adapted.weights.h5")
    np.testing.assert_array_equal(outputs(kt.set_active_adapter(again, "first")), first)


def test_weights_whose_head_belongs_to_other_adapters_are_refused(tmp_path):
    model = kt.add_adapters(kt.add_adapters(models.classifier(), "lora:r=2", name="first"), "ia3", name="second")
    model.save_weights(tmp_path / "second.weights.h5")
    kt.set_active_adapter(model, "first")
    with pytest.raises(ValueError, match=r"Call `set_active_adapter\(model, 'second'\)`.*a model with \['first'\]"):
        model.load_weights(tmp_path / "second.weights.h5")


@pytest.mark.report(
    "A fusion of adapters is worse after it was loaded.", "adapters#477", "adapters#188", "adapters#54", "adapters#74"
)
def test_fusion_attends_to_several_adapters_and_trains_alone():
    model = models.classifier()
    for name in ("first", "second"):
        randomize(kt.add_adapters(model, "pfeiffer:2", name=name), name)
    kt.add_adapters(model, kt.Fusion(["first", "second"]), name="both")
    before = values(model)
    train(model)
    after = values(model)
    moved = {path for path in after if (after[path] != before[path]).any()}
    assert moved and all("/both/" in path or path.startswith("logits") for path in moved)
    np.testing.assert_array_equal(outputs(save_and_load(model)), outputs(model))
    with pytest.raises(ValueError, match="depend on these adapters"):
        kt.remove_adapters(model, "first")


def test_a_name_stands_for_a_kind_with_its_sizes():
    assert get_adapters("houlsby:16") == [kt.Houlsby(16)]
    assert get_adapters("lora:r=4,alpha=8,targets='value'") == [kt.LoRA(4, alpha=8, targets="value")]
    assert get_adapters(["dora:2", kt.Prefix(3)]) == [kt.LoRA(2, magnitude=True), kt.Prefix(3)]
    assert kt.LoRA(4, alpha=8).scale == 2 and kt.LoRA(4, alpha=8, rank_stabilized=True).scale == 4


MISTAKES = [
    ("hulsby", r"Did you mean 'houlsby'\?"),
    ("lora:width=3", "Unknown argument of 'lora'"),
    ("lora:r=2,rank=4", "'rank' of 'lora' occurs twice"),
    ("houlsby:2,norms=no", "`norms` must be True or False. Received: norms='no'"),
    ("lora:targets='valu'", r"Did you mean 'value'\?"),
    ("compacter:5,terms=2", "a divisor of both widths"),
    (kt.LoRA(dropout=0.5, targets=["query", "no"]), "Received: 'no'"),
    (kt.LoRA(targets=["*.query"]), r"Received: '\*.query', which is not a regular expression: nothing to repeat"),
    (["houlsby:2", kt.Fusion(["a", "b"])], "Unknown adapters"),
]


@pytest.fixture(scope="module")
def plain():
    """A classifier without adapters, which mistakes leave as it is."""
    return models.classifier(num_layers=1)


@pytest.mark.parametrize(("spec", "message"), MISTAKES)
def test_a_wrong_specification_is_an_error_that_changes_nothing(plain, spec, message):
    paths = [weight.path for weight in plain.weights]
    with pytest.raises(ValueError, match=message):
        kt.add_adapters(plain, spec)
    assert [weight.path for weight in plain.trainable_weights] == paths and not plain.encoder.adapters


@pytest.fixture(scope="module")
def two():
    """A classifier with two adapters, of which the first, which was added before the other, is active."""
    model = kt.add_adapters(kt.add_adapters(models.classifier(), "houlsby:2"), "pfeiffer:2", name="more")
    return kt.set_active_adapter(model, "default")


test_other_mistakes_are_clear_errors = check_errors(
    (lambda two: kt.add_adapters(two, "lora"), "has adapters with this name"),
    (lambda two: kt.merge_adapters(two), "changes the base of other adapters"),
    (lambda two: kt.remove_adapters(two, "other"), "Unknown adapters"),
    (lambda two: kt.add_adapters(two, kt.Fusion(["default", "more"]), name="both"), "not the norms"),
    (lambda two: two.save_pretrained("nowhere"), "cannot contain adapters"),
    (lambda two: two.encoder.blocks[0].get_config(), "Save the task or the encoder"),
    (lambda: kt.add_adapters(models.encoder(ModernBertEncoder), "bitfit"), "with biases"),
    (lambda: kt.Fusion(["default"]), "at least two names"),
    (lambda: kt.add_adapters(keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]), "lora"), "Transformer"),
    (lambda: kt.add_adapters(models.language_model(), "pals:4,num_heads=2"), "causal"),
    (lambda: models.mixed(kt.add_adapters(models.encoder(), "prompt:2")), "cannot be combined with", "`Prompt`"),
    (lambda: kt.add_adapters(models.mixed(models.encoder()), "prompt:2"), "cannot be combined with `scalar_mix`"),
)


@pytest.mark.report("An adapter that is loaded to continue its training starts anew.", "alpaca-lora#298")
def test_a_run_with_adapters_resumes_from_its_training_checkpoint(tmp_path):
    def fit(epochs, *callbacks):
        model = kt.add_adapters(models.classifier(num_layers=1), ["houlsby:2", "lora:r=2"])
        model.compile(keras.optimizers.Adam(0.05), metrics=[], run_eagerly=EAGER)
        inputs = {name: models.INPUTS[name] for name in model.input}
        model.fit(inputs, models.LABELS, epochs=epochs, verbose=0, callbacks=list(callbacks))
        return model

    fit(1, TrainingCheckpoint(tmp_path / "run"))
    resumed, whole = values(fit(2, TrainingCheckpoint(tmp_path / "run"))), values(fit(2))
    for path, value in whole.items():
        np.testing.assert_array_equal(resumed[path], value, err_msg=path)


@pytest.mark.parametrize("frozen", [False, True])
def test_the_statistics_of_a_layer_are_not_copied(frozen):
    layer = keras.layers.BatchNormalization()
    layer.build((None, 4))
    layer.trainable = not frozen
    assert list(own_weights(layer)) == ["gamma", "beta"]
    assert layer.trainable != frozen and len(layer.non_trainable_weights) == (4 if frozen else 2)
