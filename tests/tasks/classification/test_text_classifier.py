"""A classifier takes raw text in `fit`, `evaluate` and `predict`, learns, and survives `.keras`."""

import contextlib
import functools

import keras
import numpy as np
import pandas
import pytest

from keras_transfer.encoders import AlbertEncoder, BertEncoder, DebertaV2Encoder, TransformerEncoder
from keras_transfer.layers import TransformerBlock
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import batches
from tests.helpers import EAGER, save_and_load
from tests.tasks.loaders import Loader
from tests.tasks.tiny import (
    VOCABULARY,
    WORDS,
    classifier,
    encoder,
    examples,
    ids_of,
    of_vectors,
    of_words,
    preprocessor,
    two_blocks,
)


def eager(optimizer="sgd", **options):
    """A compiled classifier of one block. It runs eagerly, because tracing takes longer than a few steps."""
    keras.utils.set_random_seed(0)
    model = TextClassifier(encoder(num_layers=1), num_classes=2, preprocessor=preprocessor(), dropout=0.0, **options)
    model.compile(optimizer, run_eagerly=True)
    return model


def head(model):
    return keras.ops.convert_to_numpy(model.get_layer("logits").kernel).copy()


# === The model ===


@pytest.mark.parametrize("pooling", ["pooled", "first", "mean", "max", "concat"])
def test_every_pooling_sees_real_tokens_only(pooling):
    model = classifier(pooling=pooling)
    short = model.preprocessor(["a b c"], sequence_length="longest")
    long = {key: value.numpy() for key, value in model.preprocessor(["a b c"], sequence_length=32).items()}
    long = {**long, "token_ids": np.where(long["padding_mask"] == 1, long["token_ids"], 7)}
    np.testing.assert_allclose(model(short), model(long), atol=1e-5)
    width = {"concat": 48}.get(pooling, 16)
    assert model.get_layer("logits").kernel.shape == (width, 2)


def test_the_default_pooling_is_that_of_the_checkpoint_then_pooled_then_mean():
    assert TextClassifier(encoder(), num_classes=2).pooling == "pooled"
    assert TextClassifier(encoder(pooler=False), num_classes=2).pooling == "mean"
    assert TextClassifier(encoder(pooling="max"), num_classes=2).pooling == "max"
    assert TextClassifier(encoder(TransformerEncoder), num_classes=2).pooling == "mean"


def test_every_layer_of_the_encoder_is_a_layer_of_the_task():
    model = two_blocks()
    assert {f"block_{i}" for i in range(2)} < {layer.name for layer in model.layers}
    features = keras.Model(model.input, model.get_layer("block_0").output)
    rest = keras.Model([model.get_layer("block_0").output, model.input["padding_mask"]], model.output)
    inputs = ids_of(model, ["a b", "c"])
    np.testing.assert_allclose(rest([features(inputs), inputs["padding_mask"]]), model(inputs), atol=1e-6)


def whole(model):
    """A model of the same layers whose last block computes the outputs of all tokens."""
    if model.pooling != "pooled":
        return keras.Model(model.input, model.output)
    head = keras.Model(model.encoder.pooled_alone(), model.output)
    return keras.Model(model.input, head(model.encoder.output["pooled_output"]))


# DeBERTa's pooler is a part of the head, and all layers of ALBERT are the same block.
@pytest.mark.parametrize(
    ("cls", "pooling", "length"),
    [
        pytest.param(BertEncoder, "pooled", 1, marks=pytest.mark.core),
        (BertEncoder, "first", 32),
        (functools.partial(DebertaV2Encoder, num_buckets=8), "first", 32),
        (AlbertEncoder, "pooled", 32),
    ],
)
def test_only_the_first_token_goes_through_the_last_block_if_only_a_pooler_reads_it(cls, pooling, length, monkeypatch):
    def make():
        keras.utils.set_random_seed(0)
        model = TextClassifier(
            encoder(cls, num_layers=2), num_classes=2, preprocessor=preprocessor(), dropout=0.0, pooling=pooling
        )
        for weight in model.weights:
            weight.assign(keras.random.normal(weight.shape, stddev=0.2))
        return model

    lengths, call = [], TransformerBlock.call

    @functools.wraps(call)
    def record(self, *args, **kwargs):
        outputs = call(self, *args, **kwargs)
        lengths.append(outputs.shape[1])
        return outputs

    monkeypatch.setattr(TransformerBlock, "call", record)
    model, other = make(), make()
    ids = ids_of(model, ["a b c", "d", "e f"])
    inputs = {name: ids[name] for name in model.input}
    ours, theirs = model(inputs), whole(other)(inputs)
    assert lengths == [32, length, 32, 32]
    ours, theirs = map(keras.ops.convert_to_numpy, (ours, theirs))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert np.abs(ours[0] - ours[1]).max() > 1e-4  # The first tokens have seen the others.

    for trained in (model, whole(other)):
        trained.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=EAGER)
        trained.train_on_batch(inputs, np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 5.0]]))
    for weight in model.weights:
        expected = next(each for each in other.weights if each.path == weight.path)
        ours, theirs = map(keras.ops.convert_to_numpy, (weight, expected))
        np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=weight.path)


def test_the_last_block_still_has_an_output_for_all_tokens():
    model = two_blocks()
    features = keras.Model(model.input, model.get_layer("block_1").output)
    inputs = ids_of(model, ["a b", "c"])
    np.testing.assert_allclose(features(inputs), model.encoder(inputs)["sequence_output"], atol=1e-6)


@pytest.mark.report("The first token is padding if texts are padded on the left.", "sentence-transformers#3767")
def test_with_the_first_real_token_texts_may_be_padded_on_the_left():
    model = eager(pooling="first")
    ids = {name: np.zeros((1, 5), "int32") for name in model.input}
    left, right = ({name: values.copy() for name, values in ids.items()} for _ in range(2))
    for inputs, place in ((left, slice(2, 5)), (right, slice(0, 3))):
        inputs["token_ids"][:, place], inputs["padding_mask"][:, place] = 7, 1
    vectors = model.encoder(left)["sequence_output"][:, 2]
    np.testing.assert_allclose(model(left), model.get_layer("logits")(vectors), atol=1e-6)
    assert np.abs(np.array(model(left)) - np.array(model(right))).max() > 1e-4


@pytest.mark.core
@pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="Keras rematerializes no layer with `training` elsewhere"
)
def test_the_last_block_can_be_rematerialized():
    def trained(scope):
        keras.utils.set_random_seed(0)
        with scope:
            model = two_blocks()
        model.compile(keras.optimizers.SGD(0.5))
        model.train_on_batch(ids_of(model, ["a b", "c"]), np.array([0, 1]))
        return model.get_weights()

    for ours, theirs in zip(trained(keras.RematScope("full")), trained(contextlib.nullcontext()), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_unused_weights_do_not_belong_to_the_task():
    assert not [w.path for w in classifier(pooling="mean").weights if "pooler" in w.path]


def test_logits_are_float32_under_mixed_precision():
    model = TextClassifier(encoder(dtype="mixed_bfloat16"), num_classes=2, preprocessor=preprocessor())
    assert model.predict(["a b"], verbose=0).dtype == np.float32
    assert model.get_layer("block_0").compute_dtype == "bfloat16"


# === Raw text ===


def test_it_learns_from_raw_text_and_predicts_in_the_order_of_the_texts():
    texts, labels = examples()
    model = classifier()
    model.compile(keras.optimizers.Adam(0.01))
    history = model.fit(texts, labels, batch_size=8, epochs=12, verbose=0).history
    assert history["loss"][-1] < 0.35 < history["loss"][0]  # chance is 0.69
    logits = model.predict(texts, batch_size=8, verbose=0)
    right = (logits.argmax(-1) == labels).mean()
    assert logits.shape == (64, 2) and right > 0.95
    assert model.evaluate(texts, labels, verbose=0, return_dict=True)["accuracy"] == pytest.approx(right)
    alone = model.predict(texts[10], verbose=0)
    np.testing.assert_allclose(alone, logits[10:11], atol=1e-5)


def test_every_form_of_the_same_data_trains_to_the_same_weights():
    import tensorflow as tf

    texts, labels = examples(16)
    model, results = of_vectors(), {}
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    prep = model.preprocessor
    dataset = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(16)
    forms = {
        "list": (texts, labels),
        "object array": (np.array(texts, object), np.array(labels)),
        "string array": (np.array(texts), np.array(labels)),
        "pandas": (pandas.Series(texts), pandas.Series(labels)),
        "tensor": (tf.constant(texts), labels),
        "batches": (batches(texts, labels, preprocessor=prep, batch_size=16, shuffle=False), None),
        "tf.data of texts": (dataset, None),
        "tf.data of ids": (dataset.map(lambda x, y: (prep(x), y)), None),
        "dict of ids": ({key: value.numpy() for key, value in prep(texts).items()}, np.array(labels)),
    }
    start, untrained = model.get_weights(), head(model)
    for name, (x, y) in forms.items():
        model.set_weights(start)
        model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
        results[name] = head(model)
    for name, kernel in results.items():
        np.testing.assert_allclose(kernel, results["list"], atol=1e-5, err_msg=name)
    assert np.abs(results["list"] - untrained).max() > 1e-3


@pytest.mark.report("`evaluate` of a short last batch differs from the mean over all rows.", "keras#23179")
def test_loss_and_metrics_do_not_depend_on_the_batches():
    texts, labels = examples(33)
    model = of_vectors()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    model.fit(texts, labels, batch_size=8, verbose=0)
    logits = model.predict(texts, verbose=0)
    expected = -np.log(np.exp(logits)[range(33), labels] / np.exp(logits).sum(axis=1)).mean()
    accuracy = (logits.argmax(-1) == labels).mean()
    for loss in ("auto", keras.losses.SparseCategoricalCrossentropy(from_logits=True)):
        model.compile(loss=loss, metrics="auto", run_eagerly=True)
        for size in (8, 32, 33):
            result = model.evaluate(texts, labels, batch_size=size, verbose=0)
            np.testing.assert_allclose(result, [expected, accuracy], atol=1e-5)


@pytest.mark.parametrize("size", [1, 6])
def test_sample_weights_and_class_weights_reach_the_loss_as_in_keras(size):
    texts, labels = examples(6)
    assert set(labels) == {0, 1}
    weights = np.where(np.array(labels) == 1, 3.0, 1.0)
    model, kernels = of_vectors(), []
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    order = batches(texts, labels, preprocessor=model.preprocessor, batch_size=size, shuffle=False).order
    ids = {key: value.numpy()[order] for key, value in model.preprocessor(texts).items()}
    start = model.get_weights()
    for x, y, options in (
        (texts, labels, {"sample_weight": weights}),
        (texts, labels, {"class_weight": {1: 3.0}}),
        (ids, np.array(labels)[order], {"sample_weight": weights[order]}),
        (texts, labels, {}),
    ):
        model.set_weights(start)
        model.fit(x, y, batch_size=size, shuffle=False, verbose=0, **options)
        kernels.append(head(model))
    np.testing.assert_allclose(kernels[0], kernels[1], atol=1e-6)
    np.testing.assert_allclose(kernels[0], kernels[2], atol=1e-5)
    assert np.abs(kernels[0] - kernels[3]).max() > 1e-3


@pytest.mark.report("Weights of classes and of examples exclude each other.", "setfit#407")
def test_sample_weights_are_multiplied_by_class_weights():
    texts, labels = examples(6)
    weights, both = np.linspace(0.5, 2, 6), np.linspace(0.5, 2, 6) * np.where(np.array(labels) == 1, 3.0, 1.0)
    model, found = of_vectors(), []
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    start = model.get_weights()
    for options in ({"sample_weight": both}, {"sample_weight": weights, "class_weight": {1: 3.0}}):
        for train in (lambda **given: model.fit(batch_size=6, verbose=0, **given), model.train_on_batch):
            model.set_weights(start)
            train(x=texts, y=labels, **options)
            found.append(head(model))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)
    tf = pytest.importorskip("tensorflow")
    model.set_weights(start)
    stream = tf.data.Dataset.from_tensor_slices((texts, labels, weights)).batch(6)
    model.fit(stream, class_weight={1: 3.0}, verbose=0)
    np.testing.assert_allclose(head(model), found[0], atol=1e-6)


def test_pairs_of_texts_are_a_tuple_of_two_columns():
    texts, labels = examples(16)
    model = eager()
    model.fit((texts, texts[::-1]), labels, verbose=0)
    logits = model.predict((texts, texts[::-1]), verbose=0)
    np.testing.assert_allclose(logits, model(model.preprocessor((texts, texts[::-1]))), atol=1e-5)


def test_an_encoder_without_segments_ignores_segment_ids(recwarn):
    texts, labels = examples(16)
    model = TextClassifier(encoder(TransformerEncoder, num_layers=1), num_classes=2, preprocessor=preprocessor())
    model.compile("sgd", run_eagerly=True)
    model.fit(texts, labels, verbose=0)
    assert model.predict(texts, verbose=0).shape == (16, 2)
    assert not [str(w.message) for w in recwarn if "structure" in str(w.message)]


# === `.keras` files ===


def test_weights_preprocessor_optimizer_loss_and_metrics_survive_keras_files():
    texts, labels = examples(16)
    model = eager(pooling="max")
    model.compile(keras.optimizers.SGD(0.123, momentum=0.9), metrics=["accuracy"], run_eagerly=True)
    model.fit(texts, labels, batch_size=16, shuffle=False, verbose=0)
    same = save_and_load(model)
    np.testing.assert_array_equal(same.predict(texts, verbose=0), model.predict(texts, verbose=0))
    assert same.preprocessor.vocabulary == VOCABULARY
    assert same.get_config() == model.get_config()
    assert type(same.optimizer) is keras.optimizers.SGD
    assert float(same.optimizer.learning_rate) == pytest.approx(0.123)
    results = []
    for either in (model, same):  # momentum is restored: the next steps are the same
        either.fit(texts, labels, batch_size=16, shuffle=False, verbose=0)
        results.append(either.predict(texts, verbose=0))
    np.testing.assert_array_equal(*results)


def test_weights_frozen_before_saving_can_be_thawed_after_loading():
    model = two_blocks()
    model.encoder.trainable = False
    model.get_layer("block_0").attention.output_dense.trainable = False
    same = save_and_load(model)
    assert len(same.trainable_weights) == 2
    same.encoder.trainable = True
    assert len(same.trainable_weights) == len(same.weights) == 33
    partly = two_blocks()
    partly.get_layer("block_0").attention.trainable = False
    partly = save_and_load(partly)
    assert len(partly.trainable_weights) == 29
    partly.get_layer("block_0").attention.trainable = True
    assert len(partly.trainable_weights) == 33


def test_a_frozen_encoder_stays_frozen_in_a_task():
    model = TextClassifier(encoder(trainable=False), num_classes=2, preprocessor=preprocessor())
    assert [weight.path for weight in model.trainable_weights] == ["logits/kernel", "logits/bias"]


# === Reproducibility ===


def test_the_same_seed_gives_the_same_weights():
    texts, labels = examples(16)
    kernels = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        model = of_words(WORDS, num_classes=2, dropout=0.1)
        model.compile(keras.optimizers.Adam(1e-3), run_eagerly=True)
        model.fit(texts, labels, batch_size=8, verbose=0)
        kernels.append(head(model))
    np.testing.assert_array_equal(kernels[0], kernels[1])
    assert np.abs(kernels[0] - kernels[2]).max() > 1e-3


# === A pretrained encoder ===


def test_from_pretrained_loads_encoder_preprocessor_and_pooling(small_minilm):
    model = TextClassifier.from_pretrained(small_minilm, num_classes=6, sequence_length=32, encoder={"dropout": 0.0})
    assert model.pooling == "mean"
    assert model.preprocessor.sequence_length == 32
    assert model.encoder.dropout == 0.0
    assert model.predict(["Who?"], verbose=0).shape == (1, 6)


def test_a_classifier_can_use_a_mix_of_all_layers():
    texts, labels = examples(8)
    model = eager("adam", scalar_mix=True)
    assert model.pooling == "mean"
    model.fit(texts, labels, epochs=2, verbose=0)
    assert np.abs(model.scalar_mix.mix - 1 / 2).max() > 1e-4
    same = save_and_load(model)
    np.testing.assert_array_equal(same.predict(texts, verbose=0), model.predict(texts, verbose=0))
    np.testing.assert_array_equal(same.scalar_mix.mix, model.scalar_mix.mix)
    with pytest.raises(ValueError, match="has no pooled output"):
        TextClassifier(encoder(), num_classes=2, scalar_mix=True, pooling="pooled")


def test_a_class_without_a_weight_has_the_weight_1_in_streams_and_loaders_too(eagerly):
    tf = pytest.importorskip("tensorflow")
    texts, labels = ["good a", "bad b", "c d", "good e"], [0, 1, 2, 2]
    losses = []
    for data in (
        (texts, labels),
        (tf.data.Dataset.from_tensor_slices((texts, labels)).batch(4),),
        (Loader([(texts, np.array(labels))]),),
    ):
        model = classifier(num_classes=3)
        model.compile(keras.optimizers.SGD(0.0))
        losses.append(model.fit(*data, class_weight={0: 5.0}, verbose=0).history["loss"][0])
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)
