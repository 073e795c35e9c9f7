"""Which precision is recommended, and what a recipe with a precision trains."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import fine_tune, get_recipe
from keras_transfer.core.precision import _processor_in, choose, recommended_precision
from keras_transfer.tasks import TextClassifier
from tests.helpers import save_and_load
from tests.tasks import tiny

TEXTS, LABELS = tiny.examples(16)
AMD, INTEL = "AuthenticAMD", "GenuineIntel"


def classifier(policy):
    keras.utils.set_random_seed(0)
    return TextClassifier(tiny.encoder(dtype=policy), num_classes=2, preprocessor=tiny.preprocessor(), dropout=0.0)


@pytest.mark.core
@pytest.mark.parametrize(
    ("given", "policy", "reason"),
    [
        (("tensorflow", "cpu", None, AMD, {"fma", "avx512_bf16"}), "mixed_bfloat16", "by AMD and has avx512_bf16"),
        (("tensorflow", "cpu", None, INTEL, {"avx512_bf16"}), "float32", "has avx512_bf16 without amx_bf16"),
        (("tensorflow", "cpu", None, None, {"avx512_bf16"}), "float32", "has avx512_bf16 without amx_bf16"),
        (("tensorflow", "cpu", None, INTEL, {"avx512_bf16", "amx_bf16"}), "mixed_bfloat16", "has amx_bf16"),
        (("torch", "cpu", None, None, {"amx_bf16"}), "mixed_bfloat16", "the processor has amx_bf16"),
        (("torch", "cpu", None, AMD, {"avx512f"}), "float32", "neither avx512_bf16 nor amx_bf16"),
        (("tensorflow", "cpu"), "float32", "the instructions of the processor are unknown"),
        (("tensorflow", "cpu", None, AMD, {"avx512_bf16"}, False), "float32", "TF_ENABLE_ONEDNN_OPTS=0"),
        (("jax", "cpu", None, AMD, {"avx512_bf16"}), "float32", "the backend jax does not"),
        (("jax", "tpu"), "mixed_bfloat16", "a TPU"),
        (("torch", "gpu", 8.0), "mixed_bfloat16", "the compute capability 8.0, and bfloat16 needs 8.0"),
        (("tensorflow", "gpu", 7.5), "float32", "the compute capability 7.5, and bfloat16 needs 8.0"),
        (("jax", "gpu"), "float32", "is unknown"),
        (("torch", "mps"), "float32", "the device 'mps' is unknown"),
    ],
)
def test_the_precision_follows_from_the_backend_the_device_and_its_instructions(given, policy, reason):
    found = choose(*given)
    assert found.policy == policy and reason in found.reason
    assert str(found) == f"{policy}: {found.reason}"


def test_the_vendor_and_the_instructions_are_those_of_the_first_processor():
    listed = "processor\t: 0\nvendor_id\t: {}\nmodel name\t: X\nflags\t\t: fpu avx512_bf16\n\n"
    assert _processor_in(listed.format(AMD) + listed.format(INTEL)) == (AMD, {"fpu", "avx512_bf16"})
    assert _processor_in("processor\t: 0\nFeatures\t: fp asimd\n") == (None, {"fp", "asimd"})


def test_a_recipe_of_automatic_precision_has_the_recommended_one():
    found = recommended_precision()
    assert get_recipe("bert", precision="auto").precision == found.policy in ("float32", "mixed_bfloat16")
    assert get_recipe("bert", precision=found).precision == found.policy
    assert get_recipe("bert").precision is None and found.reason


@pytest.mark.core
def test_a_recipe_of_bfloat16_trains_float32_weights_which_its_file_holds(eagerly):
    model = classifier("mixed_bfloat16")
    recipe = get_recipe("bert", precision="mixed_bfloat16", learning_rate=1e-2, epochs=4)
    assert model.get_layer("block_0").compute_dtype == "bfloat16"
    history = fine_tune(model, TEXTS, LABELS, recipe=recipe, verbose=0).history["loss"]
    assert history[-1] < history[0]
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights} == {"float32"}
    logits = model.predict(TEXTS, verbose=0)
    assert logits.dtype == np.float32
    loaded = save_and_load(model)
    assert loaded.dtype_policy.name == "mixed_bfloat16"
    for weight, expected in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), logits)


def test_a_model_of_another_policy_and_an_unknown_precision_are_errors():
    model, recipe = classifier("float32"), get_recipe("bert", precision="mixed_bfloat16")
    with pytest.raises(
        ValueError,
        match="with the dtype policy mixed_bfloat16. Create the task with .* Received: dtype_policy='float32'",
    ):
        fine_tune(model, TEXTS, LABELS, recipe=recipe, verbose=0)
    assert not model.compiled
    with pytest.raises(ValueError, match=r"Did you mean 'mixed_bfloat16'\? Received: precision='bf16'"):
        get_recipe("bert", precision="bf16")
    with pytest.raises(ValueError, match=r"Did you mean 'mixed_bfloat16'\? Received: precision='bfloat16'"):
        get_recipe("bert", precision="bfloat16")
