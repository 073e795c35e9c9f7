"""Adapters in the blocks of KerasHub's backbones: the same behaviour as in our encoders."""

import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer import adaptation as kt
from keras_transfer import serving
from keras_transfer.adaptation.adapters.adapters import adapter_weights
from keras_transfer.adaptation.adapters.places import choose_targets
from keras_transfer.encoders import BertEncoder, GPT2Encoder, encode
from keras_transfer.encoders.keras_hub_backbone import BackboneEncoder
from keras_transfer.keras_internals.trainable import layers_within
from keras_transfer.layers.adapters.copies import WeightCopies
from keras_transfer.layers.adapters.wrapper import Adapted
from keras_transfer.tasks import MaskedLM, TextClassifier, TokenClassifier
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import DIM, INNER, outputs, randomize, train, values
from tests.adaptation.adapters.test_adapters import BOTTLENECK, KINDS, NORMS
from tests.adapters import run_adapter_test
from tests.errors import check_errors
from tests.helpers import save_and_load

keras_hub = pytest.importorskip("keras_hub")
BIASES = 3 * DIM + DIM + INNER + DIM + 2 * DIM + DIM
# A specification for a backbone, a number of blocks, its number of parameters, and further arguments of
# `run_adapter_test`.
CASES = {
    **{("Bert", spec): KINDS[spec] for spec in ("houlsby:3", "dora:r=2", "ia3")},
    ("Bert", "copies:.*feedforward_layer_norm"): (1, 2 * DIM, {"tolerance": 0, "merges": True}),
    ("GPT2", "houlsby:3 lora:r=2"): (2, 2 * (2 * (BOTTLENECK + 4 * DIM) + NORMS), {}),
    ("GPT2", "bitfit"): (1, BIASES, {"merges": True}),
}


def backbone(name="Bert", **options):
    """A backbone whose weights are all random, so that each of them counts."""
    return models.encoder(getattr(keras_hub.models, f"{name}Backbone"), **options)


def classifier(name="Bert", **options):
    return TextClassifier(backbone(name, **options), num_classes=2, dropout=0.0)


def states(encoder):
    inputs = {name: models.INPUTS[name] for name in encoder.input}
    found = ops.convert_to_numpy(encode(encoder, inputs).sequence)
    return found[models.INPUTS["padding_mask"] == 1]


# What another backend computes does not depend on the backbone.
CORE = [("GPT2", "houlsby:3 lora:r=2")]


@pytest.mark.parametrize(("name", "spec"), CASES if keras.backend.backend() == "tensorflow" else CORE)
def test_a_kind_starts_as_the_identity_trains_is_saved_removed_and_merged(name, spec, tmp_path):
    (num_layers, parameters, options), group = CASES[name, spec], "transformer_layer_0_adapters"
    options = {**options, "tolerance": 1e-6 if "dora" in spec else 0, "change": 1e-4}
    run_adapter_test(
        lambda: classifier(name, num_layers=num_layers), spec.split(), parameters, group, tmp_path, **options
    )


@pytest.mark.parametrize(
    "kind",
    [
        kt.LoRA(2),
        kt.LoRA(2, targets=["key", "output"], magnitude=True),
    ],
)
def test_the_weights_of_lora_are_counted_before_they_are_added(kind):
    for encoder in (models.encoder(), BackboneEncoder(backbone())):
        for name in ("first", "second"):
            count = kind.count_weights(encoder)
            kt.add_adapters(encoder, kind, name=name)
            assert count == sum(weight.size for weight in map(np.array, adapter_weights(encoder, name).values()))
    with pytest.raises(ValueError, match="Did you mean 'query'"):
        kt.LoRA(targets=["queri"]).count_weights(encoder)


RENAMED = {
    "block_": "transformer_layer_",
    "/attention_norm": "/self_attention_layer_norm",
    "/feed_forward_norm": "/feedforward_layer_norm",
    "/feed_forward/inner": "/feedforward_intermediate_dense",
    "/feed_forward/outer": "/feedforward_output_dense",
    "/attention/output/": "/self_attention/attention_output/",
    "embeddings_norm": "embeddings_layer_norm",
    "pooler": "pooled_dense",
    "final_norm": "layer_norm",
}


def twin(cls, theirs):
    """Our encoder with the weights of a backbone."""
    made = models.encoder(cls, activation="gelu_tanh")
    found = {path.replace("self_attention_layer/", "self_attention/"): value for path, value in values(theirs).items()}
    for weight in made.weights:
        path = weight.path
        for ours, other in RENAMED.items():
            path = path.replace(ours, other)
        if "query_key_value" in path:
            start, end = path.replace("/attention/", "/self_attention/").split("query_key_value")
            rows = weight.shape[:-1]
            parts = [found[f"{start}{part}{end}"].reshape(*rows, -1) for part in ("query", "key", "value")]
            weight.assign(np.concatenate(parts, axis=-1))
        else:
            weight.assign(found[path].reshape(weight.shape))
    return made


def in_order(encoder):
    found = adapter_weights(encoder, "default")
    keys = sorted(found, key=lambda key: (re.search(r"_(\d+)", key)[1], key.split("/")[-1]))
    return [found[key] for key in keys]


@pytest.mark.core
@pytest.mark.parametrize(("name", "cls"), [("Bert", BertEncoder), ("GPT2", GPT2Encoder)])
def test_adapters_compute_what_they_compute_in_our_encoder(name, cls):
    model = TokenClassifier(backbone(name), label_names=["A", "B"])
    ours = twin(cls, model.encoder)
    np.testing.assert_allclose(states(model.encoder), states(ours), rtol=0, atol=1e-5)
    for spec in ("houlsby:3", "compacter:4,terms=2", kt.LoRA(2, targets=".*", magnitude=True), "ia3"):
        kt.add_adapters(model, spec)
        kt.add_adapters(ours, spec)
        randomize(model)
        for weight, other in zip(in_order(ours), in_order(model.encoder), strict=True):
            weight.assign(other)
        np.testing.assert_allclose(states(model.encoder), states(ours), rtol=0, atol=1e-5)
        kt.remove_adapters(model)
        kt.remove_adapters(ours)


def test_bitfit_computes_with_its_copies():
    model = classifier()
    randomize(kt.add_adapters(model, "bitfit"))
    expected, copies = outputs(model), adapter_weights(model.encoder, "default")
    copies = {key.replace(".weights/", "/").replace(".", "/"): np.array(copies[key]) for key in copies}
    kt.remove_adapters(model)
    for weight in model.encoder.weights:
        if weight.path in copies:
            weight.assign(copies.pop(weight.path))
    assert not copies
    np.testing.assert_array_equal(outputs(model), expected)


def test_merging_forgets_the_functions_of_the_backbone_which_would_apply_the_change_twice():
    model = classifier()
    expected = outputs(randomize(kt.add_adapters(model, kt.LoRA(2, targets=".*"))))
    model.encoder.make_predict_function()
    kt.merge_adapters(model)
    assert model.encoder.predict_function is None
    np.testing.assert_allclose(outputs(model), expected, rtol=0, atol=1e-5)


def test_a_file_rebuilds_several_adapters_their_heads_and_the_state_of_the_optimizer():
    model = classifier(num_layers=1)
    for name, spec in (("a", "houlsby:2,norms=False"), ("b", "houlsby:2,norms=False"), ("low", ["lora:r=2", "bitfit"])):
        randomize(kt.add_adapters(model, spec, name=name), name)
    low = outputs(train(model))
    kt.add_adapters(model, kt.Fusion(["a", "b"]), name="both")
    again = save_and_load(train(model))
    np.testing.assert_array_equal(outputs(again), outputs(model))
    for attribute in ("weights", "trainable_weights"):
        assert [w.path for w in getattr(again, attribute)] == [w.path for w in getattr(model, attribute)]
    for ours, theirs in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(ours), ops.convert_to_numpy(theirs))
    np.testing.assert_array_equal(outputs(kt.set_active_adapter(again, "low")), low)
    stacks = [states(kt.set_active_adapter(loaded, ["low", "both"]).encoder) for loaded in (again, model)]
    np.testing.assert_array_equal(*stacks)
    kt.remove_adapters(again)
    assert isinstance(again.encoder, keras_hub.models.BertBackbone)
    np.testing.assert_array_equal(states(again.encoder), states(backbone(num_layers=1)))


@pytest.mark.parametrize(
    "make",
    [
        lambda encoder: MaskedLM(encoder),
        pytest.param(
            lambda encoder: TokenClassifier(encoder, label_names=["A", "B"], scalar_mix=True), marks=pytest.mark.slow
        ),
    ],
)
def test_all_tasks_over_a_backbone_share_save_and_remove_its_adapters(make):
    plain = backbone()
    first, other, before = TextClassifier(plain, num_classes=2), make(plain), states(plain)
    kt.add_adapters(first, ["houlsby:2", kt.LoRA(2, targets="output")])
    randomize(first)
    inputs = dict(models.INPUTS, mask_positions=np.array([[1], [2]], "int32"))
    with pytest.raises(ValueError, match="changed through another task"):
        outputs(other, inputs)
    kt.set_active_adapter(other, "default")
    np.testing.assert_array_equal(outputs(save_and_load(other), inputs), outputs(other, inputs))

    late = TextClassifier(plain, num_classes=2)
    del first
    with pytest.raises(ValueError, match="has adapters with this name"):
        kt.add_adapters(late, "lora")
    kt.remove_adapters(late)
    assert late.encoder is other.encoder is plain
    np.testing.assert_array_equal(states(plain), before)


@pytest.mark.core
def test_adapters_compute_in_the_dtype_of_the_backbone():
    model = TextClassifier(backbone(dtype="mixed_bfloat16"), num_classes=2)
    before = outputs(model)
    kt.add_adapters(model, ["houlsby:2", kt.LoRA(2, targets=".*")])
    np.testing.assert_array_equal(outputs(model), before)
    adapters = [layer for slot in model.encoder.attached.slots for layer in slot.adapters.values()]
    assert {layer.compute_dtype for layer in adapters if not isinstance(layer, WeightCopies)} == {"bfloat16"}


def test_the_dropout_of_the_backbone_stays():
    model = TextClassifier(backbone(dropout=0.5), num_classes=2)
    inputs = {name: models.INPUTS[name] for name in model.input}
    seeds = [(variable, np.array(ops.convert_to_numpy(variable))) for variable in model.variables]
    seeds = [(variable, value) for variable, value in seeds if "seed" in variable.path]

    def dropped():
        keras.utils.set_random_seed(0)  # Torch ignores the states of seeds.
        for variable, value in seeds:
            variable.assign(value)
        return ops.convert_to_numpy(model(inputs, training=True))

    before = dropped()
    kt.add_adapters(model, ["houlsby:2", kt.LoRA(2, targets=".*")])
    np.testing.assert_array_equal(dropped(), before)
    assert np.abs(outputs(model) - before).max() > 1e-3


@pytest.mark.parametrize(("name", "options"), [("Llama", {}), ("Gemma", {"head_dim": 4})])
def test_changes_of_dense_layers_work_in_blocks_of_any_class(name, options):
    sizes = {"num_layers": 2, "num_query_heads": 2, "num_key_value_heads": 1, "hidden_dim": 8, "intermediate_dim": 16}
    model = TextClassifier(getattr(keras_hub.models, f"{name}Backbone")(20, **sizes, **options), num_classes=2)
    before = outputs(model)
    for spec, number in (
        (kt.LoRA(2, targets=["query", "value", "output", "gate", "outer"]), 2 * 5 * 2),
        ("ia3", 2 * 3),
    ):
        kt.add_adapters(model, spec)
        np.testing.assert_array_equal(outputs(model), before)
        assert len(adapter_weights(model.encoder, "default")) == number
        before = outputs(randomize(model))
        kt.merge_adapters(model)
        np.testing.assert_allclose(outputs(model), before, rtol=0, atol=1e-5)
        before = outputs(model)
    with pytest.raises(ValueError, match=rf"`TransformerDecoder`. .*kind='{name}"):
        kt.add_adapters(model, "houlsby:2")


@pytest.mark.parametrize(("name", "options"), [("Albert", {"embedding_dim": 4}), ("DebertaV3", {"bucket_size": 4})])
def test_layers_that_are_called_twice_can_have_adapters(name, options):
    model = TextClassifier(backbone(name, **options), num_classes=2, dropout=0.0)
    before, lora = outputs(model), kt.LoRA(2, targets=".*")
    kt.add_adapters(model, ["houlsby:2", lora] if name == "Albert" else lora)
    np.testing.assert_array_equal(outputs(model), before)
    randomize(model)
    np.testing.assert_array_equal(outputs(save_and_load(model)), outputs(model))
    kt.remove_adapters(model)
    expected = outputs(randomize(kt.add_adapters(model, lora)))
    assert np.abs(expected - before).max() > 1e-2
    np.testing.assert_allclose(outputs(kt.merge_adapters(model)), expected, rtol=0, atol=1e-5)


SMOL = {"num_attention_heads": 2, "num_key_value_heads": 1, "attention_bias": False, "attention_dropout": 0.0}
SMOL |= {"rope_layer_enabled_list": [True], "layer_types": ["full_attention"], "mlp_bias": False}
SMOL |= {"layer_norm_epsilon": 1e-5, "max_position_embeddings": 12, "rope_theta": 1e4, "partial_rotary_factor": 1.0}
ATTENTION, FEED_FORWARD = {"query", "key", "value", "output"}, {"inner", "outer"}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("Bloom", {"num_heads": 2}, ATTENTION | FEED_FORWARD),
        ("Falcon", {"num_attention_heads": 2}, ATTENTION | FEED_FORWARD),
        ("ESM", {"num_heads": 2}, ATTENTION | FEED_FORWARD),
        ("RoformerV2", {"num_heads": 2, "head_size": 4}, ATTENTION | FEED_FORWARD),
        ("SmolLM3", SMOL, ATTENTION | FEED_FORWARD | {"gate"}),
        ("GPTNeoX", {"num_heads": 2, "rotary_percentage": 0.5}, {"query_key_value", "output"} | FEED_FORWARD),
        ("FNet", {}, FEED_FORWARD),
    ],
)
def test_blocks_of_other_classes_have_the_same_names_of_targets(name, options, expected):
    sizes = {"num_layers": 1, "hidden_dim": 8, "intermediate_dim": 16}
    encoder = BackboneEncoder(getattr(keras_hub.models, f"{name}Backbone")(20, **sizes, **options))
    found = [part for *_, parts in choose_targets(encoder, [".*"]) for part in parts]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    "change",
    [lambda plain: plain.quantize("int8", filters="value"), lambda plain: plain.enable_lora(2, ["value"])],
    ids=["quantized", "LoRA of Keras"],
)
def test_dense_layers_that_compute_with_more_than_their_kernel_are_an_error(change):
    model = kt.add_adapters(classifier(), "lora:r=2")
    plain = model.encoder.backbone
    change(plain)
    before = values(randomize(model))
    with pytest.raises(ValueError, match="quantized or has Keras's own LoRA cannot be adapted. Received: .*value"):
        kt.merge_adapters(model)
    for path, value in values(model).items():
        np.testing.assert_array_equal(value, before[path])
    kt.remove_adapters(model)
    with pytest.raises(ValueError, match="quantized or has Keras's own LoRA cannot be adapted. Received: .*value"):
        kt.add_adapters(model, ["houlsby:2", "lora:r=2"])
    assert model.encoder is plain and not has_slots(plain)
    kt.add_adapters(model, kt.LoRA(2, targets="query"))


def has_slots(model):
    return any(isinstance(layer, Adapted) for layer, _ in layers_within(model))


@pytest.fixture(scope="module")
def intact():
    """A classifier that no mistake changes."""
    model = classifier()
    plain = model.encoder
    plain.get_layer("token_embedding").trainable = False
    before, paths = values(model), [weight.path for weight in model.trainable_weights]
    yield model
    assert model.encoder is plain and not has_slots(plain)
    assert [weight.path for weight in model.trainable_weights] == paths
    assert all((value == before[path]).all() for path, value in values(model).items())


@pytest.fixture(scope="module")
def adapted():
    return kt.add_adapters(classifier(), "lora:r=2")


OURS_ALONE = ("cannot have this kind", "some of ['bitfit', ", "'dora'", "], or a `Fusion`. Received")
test_mistakes_are_clear_errors_that_change_nothing = check_errors(
    *(
        (lambda intact, spec=spec: kt.add_adapters(intact, spec), *OURS_ALONE)
        for spec in ("pfeiffer", "parallel", "prefix", "prompt", "pals", ["lora", "pfeiffer"])
    ),
    (lambda intact: kt.add_adapters(intact, "lora:targets='valu'"), "Did you mean 'value'?"),
    (lambda intact: kt.add_adapters(intact, ["lora:r=2", "compacter:5,terms=2"]), "a divisor of both widths"),
    (lambda intact: kt.add_adapters(intact, ["houlsby:2", "compacter:4,terms=2"]), "need the same place"),
    (lambda intact: kt.add_adapters(intact.encoder, "lora"), "a task such as `TextClassifier` with one or with a "),
    (lambda intact: kt.remove_adapters(intact), "has no adapters. Call `add_adapters` first"),
    (lambda intact: kt.merge_adapters(intact), "no active adapters to merge. Call `add_adapters` first"),
    (lambda adapted: kt.add_adapters(adapted, "lora"), "has adapters with this name"),
    (lambda adapted: adapted.save_pretrained("nowhere"), "cannot be written as a checkpoint"),
    (lambda adapted: kt.save_adapters(adapted, "nowhere", format="peft"), "require an encoder of this library"),
    (
        lambda adapted, tmp_path: kt.load_adapters(
            classifier("Roberta"), kt.save_adapters(adapted, tmp_path / "task.safetensors")
        ),
        "different weights",
    ),
)


@pytest.mark.slow
def test_an_export_takes_raw_text_and_picks_the_adapters_of_each_row(tmp_path):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", *(f"w{i}" for i in range(13))]
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=words, lowercase=True)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=8)
    model = TextClassifier(backbone(), preprocessor, num_classes=2, dropout=0.0)
    texts, expected = ["good bad", "bad"], {}
    for name in ("houlsby", "lora"):
        randomize(kt.add_adapters(model, name, name=name), name)
        expected[name] = ops.convert_to_numpy(ops.softmax(model.predict(texts, verbose=0)))
    folder = serving.export(model, tmp_path / "served", adapters=["houlsby", "lora"])
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    found = serve(text=tf.constant(texts), adapter=tf.constant(["houlsby", "lora"]))["probabilities"]
    np.testing.assert_allclose(found, [expected["houlsby"][0], expected["lora"][1]], atol=1e-5)
