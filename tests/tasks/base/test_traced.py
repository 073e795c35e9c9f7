"""A change of a model discards what was traced for it, in every task over the same layers."""

import keras
import numpy as np

from keras_transfer import adaptation
from keras_transfer.encoders import T5
from keras_transfer.tasks import TextClassifier
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import IDS, INPUTS, LABELS, randomize

SOURCES = [row[row > 0].tolist() for row in IDS]
TARGETS = {name: values for name, values in INPUTS.items() if name.startswith("decoder_")}
INPUTS = {name: INPUTS[name] for name in ("token_ids", "padding_mask", "segment_ids")}


def predicted(model):
    return model.predict({name: INPUTS[name] for name in model.input}, verbose=0)


def evaluated(model):
    model.compile(metrics=[])
    return lambda: model.evaluate({name: INPUTS[name] for name in model.input}, LABELS, verbose=0)


def test_what_was_traced_before_quantization_is_not_used_after_it():
    model, fresh = models.language_model(), models.language_model()
    floats = model.score(SOURCES).log_likelihoods
    for each in (model, fresh):
        each.quantize("int8")
    expected = fresh.score(SOURCES).log_likelihoods
    assert not np.array_equal(floats, expected)
    np.testing.assert_array_equal(model.score(SOURCES).log_likelihoods, expected)


def test_another_task_over_a_quantized_encoder_evaluates_and_predicts_the_quantized_one():
    encoder = models.encoder()
    first, second = (TextClassifier(encoder, num_classes=2, dropout=0.0, name=name) for name in ("a", "b"))
    loss = evaluated(second)
    floats = predicted(second), loss()
    first.quantize("int8")
    outputs = keras.ops.convert_to_numpy(second({name: INPUTS[name] for name in second.input}))
    np.testing.assert_allclose(predicted(second), outputs, atol=1e-6)
    assert np.abs(outputs - floats[0]).max() > 1e-4 and loss() != floats[1]


def test_a_loop_that_generates_is_made_again_after_quantization(eagerly):
    model = models.language_model()
    model.generate(SOURCES, max_new_tokens=2)
    [before] = model.derived_models.values()
    model.generate(SOURCES, max_new_tokens=2)
    assert list(model.derived_models.values()) == [before]
    model.encoder.quantize("int8")
    model.generate(SOURCES, max_new_tokens=2)
    [after] = model.derived_models.values()
    assert after is not before


def test_what_was_used_last_is_kept_and_two_threads_can_make_the_same_at_once():
    model, made = models.classifier(), []
    first = model.derived("first", object)
    for number in range(20):
        model.derived(number, object)
        assert model.derived("first", object) is first

    def make():
        made.append(model.derived("second", object) if not made else None)  # Another thread makes it meanwhile,
        for number in range(8):
            model.derived(number, object)  # and others make more than are kept.
        return made

    assert model.derived("second", make) is made


def test_adapters_of_one_half_reach_what_the_whole_encoder_decoder_has_traced():
    writer = models.writer(T5)
    half = TextClassifier(writer.encoder.encoder, num_classes=2, dropout=0.0)
    inputs = {name: {**INPUTS, **TARGETS}[name] for name in writer.input}
    plain = writer.predict(inputs, verbose=0)
    randomize(adaptation.add_adapters(half, "lora:r=4"))
    adapted = keras.ops.convert_to_numpy(writer(inputs))
    assert np.abs(adapted - plain).max() > 1e-3
    np.testing.assert_allclose(writer.predict(inputs, verbose=0), adapted, atol=1e-5)
    adaptation.remove_adapters(half)
    np.testing.assert_allclose(writer.predict(inputs, verbose=0), plain, atol=1e-6)
