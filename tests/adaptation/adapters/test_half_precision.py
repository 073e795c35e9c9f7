"""Adapters over an encoder in half precision: their weights are in float32, so that small updates move them."""

import keras
import numpy as np
import pytest

from keras_transfer import adaptation
from keras_transfer.layers import BottleneckAdapter
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import INPUTS, LABELS
from tests.helpers import EAGER, save_and_load

SPECS = [
    "lora:r=2",
    "ia3",
    "bitfit",
    "houlsby:4",
    "prefix:2",
    "pals:4",
]
RATE = 1e-4  # of updates that bfloat16 rounds away


def adapted(spec, dtype="bfloat16"):
    options = {"num_heads": 2} if spec.startswith("pals") else {}
    kind = adaptation.PALs(4, **options) if options else spec
    return adaptation.add_adapters(models.classifier(dtype=dtype), kind)


def arrays(model):
    return {path: np.array(keras.ops.convert_to_numpy(w), "float32") for path, w in of_adapters(model).items()}


def of_adapters(model):
    return {weight.path: weight for weight in model.trainable_weights if "logits" not in weight.path}


@pytest.mark.parametrize("spec", [pytest.param(s, marks=[pytest.mark.core] * (s == "lora:r=2")) for s in SPECS])
def test_adapters_over_bfloat16_weights_are_in_float32_and_move(spec):
    model = adapted(spec)
    weights = of_adapters(model)
    assert {weight.dtype for weight in weights.values()} == {"float32"}
    assert {weight.dtype for weight in model.non_trainable_weights} == {"bfloat16"}
    before = arrays(model)
    model.compile(keras.optimizers.Adam(RATE), run_eagerly=EAGER)
    model.fit({name: INPUTS[name] for name in model.input}, LABELS, epochs=1, verbose=0)
    moved = [np.abs(value - before[path]).max() for path, value in arrays(model).items()]
    assert max(moved) == pytest.approx(RATE, rel=0.1)


def test_a_file_of_adapters_over_bfloat16_weights_has_them_in_float32(eagerly):
    model = models.randomize(adapted("lora:r=2"))
    loaded = save_and_load(model)
    for path, value in arrays(loaded).items():
        np.testing.assert_array_equal(value, arrays(model)[path])
    inputs = {name: INPUTS[name] for name in model.input}
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0))


def test_the_policy_of_an_adapter_is_that_of_its_layer_with_weights_in_float32():
    policies = {"float32": "float32", "mixed_bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
    found = {name: BottleneckAdapter(2, dtype=name).dtype_policy.name for name in policies}
    assert found == policies


def test_no_warning_says_that_adapters_over_bfloat16_weights_do_not_move(caplog):
    adapted("lora:r=2").compile()
    assert "do not move" not in caplog.text
