"""Mixed precision: a classifier learns from raw texts, survives `.keras` with its policy, and serves."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import T5, MPNetEncoder
from keras_transfer.serving.formats.savedmodel import make_signatures
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import batches
from tests.adaptation.adapters import adapter_models as models
from tests.adaptation.adapters.adapter_models import outputs
from tests.helpers import eager, logged, save_and_load
from tests.tasks import tiny

tf = pytest.importorskip("tensorflow")

TEXTS, LABELS = tiny.examples(128)
# Relative; a number in bfloat16 is exact to 0.2 %, in float16 to 0.02 %.
TOLERANCE = {"mixed_bfloat16": 0.01, "mixed_float16": 0.001}


def classifier(policy, **options):
    keras.utils.set_random_seed(0)
    encoder = tiny.encoder(dtype=policy, num_layers=1, initializer_range=0.2)
    return TextClassifier(encoder, num_classes=2, preprocessor=tiny.preprocessor(), dropout=0.0, **options)


@pytest.fixture(scope="module", params=TOLERANCE)
def trained(request):
    """A policy, a classifier trained under it on raw texts, and the losses."""
    model = classifier(request.param)
    model.compile(keras.optimizers.Adam(0.01))
    data = batches(TEXTS, LABELS, preprocessor=model.preprocessor, batch_size=16, seed=0)
    history = model.fit(data, epochs=5, verbose=0)
    return request.param, model, history.history["loss"]


def test_it_learns_from_raw_texts(trained):
    _, model, losses = trained
    assert np.isfinite(losses).all() and losses[-1] < 0.1 * losses[0]
    assert model.evaluate(TEXTS, LABELS, verbose=0, return_dict=True)["accuracy"] > 0.9


def test_weights_and_logits_are_float32_and_the_encoder_computes_in_half(trained, eagerly):
    policy, model, _ = trained
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights} == {"float32"}
    logits = model.predict(TEXTS, verbose=0)
    assert logits.dtype == np.float32 and np.isfinite(logits).all()
    assert model.encoder.output["sequence_output"].dtype == policy.removeprefix("mixed_")


def test_in_float16_the_loss_is_scaled_automatically_and_nearly_every_step_counts(trained):
    policy, model, _ = trained
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (policy == "mixed_float16")
    optimizer = model.optimizer.inner_optimizer if scaled else model.optimizer
    assert 35 <= int(optimizer.iterations.numpy()) <= 40  # a step whose gradients overflow is left out


def test_predictions_nearly_equal_those_of_float32(trained, eagerly):
    policy, model, _ = trained
    exact = classifier("float32")
    exact.set_weights(model.get_weights())
    expected = exact.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(
        model.predict(TEXTS, verbose=0), expected, atol=TOLERANCE[policy] * np.abs(expected).max()
    )


@pytest.mark.parametrize("pooling", ["pooled", "mean", "max", "concat"])
@pytest.mark.report("The mask of padding overflows in half precision.", "keras-hub#2519", "needle#53")
def test_padding_changes_nothing_in_float16(pooling):
    model = classifier("mixed_float16", pooling=pooling)
    short = model.preprocessor(["a b good", "c d e"], sequence_length="longest")
    padded = model.preprocessor(["a b good", "c d e"], sequence_length=32)
    # The content of padding changes nothing either.
    token_ids = tf.where(padded["padding_mask"] == 1, padded["token_ids"], 7)
    logits = model({**padded, "token_ids": token_ids})
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits, model(short), atol=1e-3)


def test_a_keras_file_brings_back_policy_predictions_and_optimizer(trained, eagerly):
    policy, model, _ = trained
    loaded = save_and_load(model)
    assert loaded.dtype_policy.name == loaded.get_layer("block_0").dtype_policy.name == policy
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))
    assert type(loaded.optimizer) is type(model.optimizer)
    for ours, theirs in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert loaded.fit(TEXTS, LABELS, verbose=0).history["loss"][0] < 0.3


def test_the_signatures_give_the_same_labels_as_predict_in_float32(trained):
    _, model, _ = trained
    signatures = make_signatures(model, ["bad", "good"])
    served = signatures["serving_default"](text=tf.constant(TEXTS))
    assert signatures["tokens"].structured_outputs["logits"].dtype == tf.float32
    assert signatures["embed"].structured_outputs["embedding"].dtype == tf.float32
    np.testing.assert_allclose(served["probabilities"].numpy().sum(axis=1), 1, atol=1e-6)
    with eager():
        expected = model.predict(TEXTS, verbose=0)
    assert served["probabilities"].dtype == tf.float32
    assert served["label_id"].numpy().tolist() == expected.argmax(axis=1).tolist()


@pytest.mark.parametrize(
    "policy, advice", [("bfloat16", "mixed_bfloat16"), ("float16", "mixed_float16"), ("mixed_bfloat16", None)]
)
def test_weights_that_small_updates_do_not_change_are_a_warning_that_names_the_mixed_policy(policy, advice, caplog):
    classifier(policy).compile()
    found = logged(caplog, "do not move")
    assert len(found) == bool(advice) and (not advice or f"'{advice}'" in found[0])


@pytest.fixture
def floatx():
    before = keras.config.floatx()
    yield keras.config.set_floatx
    keras.config.set_floatx(before)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_losses_in_half_precision_are_an_error(name, floatx):
    model = classifier("float32")
    floatx(name)  # Keras would round the classes 257 and 299 of 300 to 256 and 300.
    with pytest.raises(ValueError, match=rf"rounds labels.*dtype='mixed_bfloat16'.*Received: floatx='{name}'"):
        model.compile()


@pytest.mark.parametrize("cls", [T5, MPNetEncoder])
def test_relative_positions_are_the_same_with_floatx_float64(cls, floatx):
    expected = outputs(models.encoder(cls, num_layers=1))
    floatx("float64")
    np.testing.assert_allclose(outputs(models.encoder(cls, num_layers=1)), expected, atol=1e-5)
