"""Quantized tasks: files have the same outputs, filters are paths, and mistakes are clear errors."""

import keras
import numpy as np
import pytest

from keras_transfer import adaptation
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.tasks import MaskedLM, TextClassifier
from tests.errors import check_errors
from tests.helpers import eager, in_graph, save_and_load
from tests.tasks import tiny

TEXTS = ["a b good", "c bad d e", "f"]
BLOCK = ["block_0/feed_forward/outer", "block_0/feed_forward/inner", "block_0/attention/output"]
BLOCK = {*BLOCK, "block_0/attention/query_key_value"}

EMBEDDING = {"int8": {"token_embedding"}, "int4": {"token_embedding"}, "float8": set()}


def classifier():
    encoder = tiny.encoder(initializer_range=0.5)
    return TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), dropout=0.0)


def quantized(model):
    return {path for group in model.get_config().get("quantization", ()) for path in group["layers"]}


@pytest.mark.core
@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
@pytest.mark.report(
    "A quantized model answers differently after it was loaded.", "keras#23345", "keras#23369", "keras#21894"
)
def test_files_of_a_quantized_task_have_the_same_outputs(mode, tmp_path):
    model = classifier()
    floats = model.predict_on_batch(TEXTS)
    model.quantize(mode)
    outputs = model.predict_on_batch(TEXTS)
    assert (outputs != floats).all()

    loaded = save_and_load(model)
    assert quantized(loaded) == quantized(model) == {*BLOCK, "pooler", "logits"} | EMBEDDING[mode]
    np.testing.assert_array_equal(loaded.predict_on_batch(TEXTS), outputs)

    model.save_weights(tmp_path / "model.weights.h5")
    other = classifier()
    other.quantize(mode)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other.predict_on_batch(TEXTS), outputs)


def test_a_tied_head_reads_the_quantized_table_with_its_scale():
    keras.utils.set_random_seed(0)
    model = MaskedLM(tiny.encoder(initializer_range=0.5), tiny.preprocessor())
    texts = [f"{text} [MASK]" for text in TEXTS]
    floats = model.predict_on_batch(texts)
    model.quantize("int8")
    np.testing.assert_allclose(np.asarray(model.predict_on_batch(texts)), floats, atol=0.5 * np.abs(floats).max())


@pytest.mark.report("The filters of `quantize` match nothing.", "keras#23467")
def test_filters_match_paths_and_the_rest_can_be_quantized_in_another_way():
    model = tiny.classifier()
    model.quantize("int8", filters=["attention", "feed_forward"])
    assert quantized(model) == BLOCK
    config = keras.quantizers.Int4QuantizationConfig(block_size=-1)
    model.quantize(config=config, filters=lambda layer: layer.name == "token_embedding")
    assert [group["mode"] for group in save_and_load(model).get_config()["quantization"]] == ["int4", "int8"]


def test_an_encoder_is_quantized_and_saved_as_a_task_is():
    encoder = tiny.encoder()
    encoder.quantize("int8")
    model = TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor())
    outputs = model.predict_on_batch(TEXTS)
    loaded = save_and_load(model)
    assert quantized(loaded) == {*BLOCK, "token_embedding", "pooler"} == quantized(save_and_load(encoder))
    np.testing.assert_array_equal(loaded.predict_on_batch(TEXTS), outputs)


def test_a_compiled_task_trains_after_it_is_quantized():
    with eager():
        model = tiny.classifier()
        model.compile()
        model.fit(TEXTS, [1, 0, 1], verbose=0)
        model.quantize("int8")
        bias = next(weight for weight in model.trainable_weights if weight.path == "logits/bias")
        before = np.array(bias)
        loaded = save_and_load(model)
        for each in (model, loaded):
            each.fit(TEXTS, [1, 0, 1], verbose=0)
        assert (np.array(bias) != before).any()
        assert {weight.path for weight in loaded.trainable_weights} == {each.path for each in model.trainable_weights}


def test_the_signature_of_a_quantized_task_answers_as_it_does():
    model = tiny.classifier()
    model.quantize("int8")
    served = in_graph(model.signatures()["serving_default"], TEXTS)
    expected = keras.ops.softmax(model.predict_on_batch(TEXTS))
    np.testing.assert_allclose(served["probabilities"], expected, atol=1e-6)


def quantize_adapted():
    adaptation.add_adapters(tiny.classifier(), "lora:r=2").quantize("int8")


def after_one_block(mistake, *arguments):
    model = tiny.classifier()
    model.quantize("int8", filters="block_0")
    mistake(model, *arguments)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: tiny.classifier().quantize("int8", filters="atention"), "no layer ... mean 'attention'? Received: 'aten"),
    (lambda: tiny.classifier().quantize("int8", filters=lambda layer: False), "no layer ... Received: <function"),
    (quantize_adapted, "`adaptation.merge_adapters` ... Received: quantize('int8')"),
    (lambda: after_one_block(TextClassifier.quantize, "int4"), "only once ... 4 of the 7 layers ... with 'int8'"),
    (lambda: after_one_block(adaptation.add_adapters, "lora"), "quantized ... cannot be adapted"),
    (lambda tmp_path: after_one_block(TextClassifier.save_pretrained, tmp_path / "x"), CheckpointError, "quantized"),
)
