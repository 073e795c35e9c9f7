"""`XLNetEncoder`: the protocol, its two streams, and the settings that it cannot have."""

import json

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.checkpoints.architectures.xlnet import XLNET
from keras_transfer.encoders import XLNetEncoder
from keras_transfer.tasks import TextClassifier
from tests.architecture import FIXTURES
from tests.helpers import encoder_inputs, outputs_of, save_and_load

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"initializer_range": 0.3}
FOLDER = FIXTURES / "xlnet"


@pytest.fixture(scope="module")
def two_streams():
    return XLNetEncoder.from_pretrained(FOLDER, two_streams=True)


@pytest.fixture(scope="module")
def inputs(two_streams):
    arrays = {**np.load(FOLDER / "outputs.npz"), **np.load(FOLDER / "two_streams.npz")}
    return {name: arrays[name] for name in (*two_streams.input, "factorization_order", "mask_positions")}


def model_of(encoder):
    """A model of the query stream, whose batch, length and number of places are unknown."""
    names = ("factorization_order", "mask_positions")
    tensors = {**encoder.input, **{name: keras.Input((None,), dtype="int32", name=name) for name in names}}
    return keras.Model(tensors, encoder.query_stream(tensors))


@pytest.mark.core
def test_the_query_stream_equals_the_original(two_streams, inputs):
    expected, used = np.load(FOLDER / "two_streams.npz")["query"], inputs["mask_positions"] >= 0
    model = model_of(two_streams)
    assert model.output.shape == (None, None, 8) and len(model.weights) == len(two_streams.weights)
    for found in (two_streams.query_stream(inputs), outputs_of(model, inputs)):
        np.testing.assert_allclose(to_numpy(found)[used], expected[used], rtol=0, atol=1e-5)


def states_of_both_streams(encoder, embeddings, **inputs):
    """Yields what `query_stream` computes in all blocks: the inputs of the first one and the outputs of each."""
    x, bias, segment_ids, distances = encoder.streams(embeddings, **inputs)
    positions = encoder.relative_positions(embeddings, segment_ids=segment_ids)["relative_positions"]
    yield x
    for block in encoder.blocks:
        x = block(x, attention_bias=bias, relative_positions=(*positions, distances))
        yield x


def test_the_content_stream_that_it_reads_equals_the_original(two_streams, inputs):
    expected, real = np.load(FOLDER / "two_streams.npz")["states"], inputs["padding_mask"] == 1
    given = {name: values for name, values in inputs.items() if name != "token_ids"}
    states = states_of_both_streams(two_streams, two_streams.token_embedding(inputs["token_ids"]), **given)
    for found, theirs in zip(states, expected, strict=True):
        np.testing.assert_allclose(to_numpy(found)[:, :7][real], theirs[real], rtol=0, atol=1e-5)


def test_no_token_sees_itself_or_later_ones_of_the_order(two_streams, inputs):
    # A text, the same text with another one of its tokens in each row, and what each place says about its own.
    order, places = np.array([[0, 3, 1, 2, 0, 4, 5]]), np.array([[1, 2, 3, 5]])
    ids = np.tile(inputs["token_ids"][:1], (8, 1))
    ids[np.arange(1, 8), np.arange(7)] = 13
    rows = {"token_ids": ids, "segment_ids": np.tile(inputs["segment_ids"][:1], (8, 1))}
    rows |= {"padding_mask": np.ones((8, 7), "int32"), "factorization_order": np.tile(order, (8, 1))}
    found = to_numpy(two_streams.query_stream({**rows, "mask_positions": np.tile(places, (8, 1))}))
    # The rows of a batch may be rounded differently. That the gradient is exactly zero is tested below.
    changes = np.abs(found[1:] - found[:1]).max(axis=-1) > 1e-5
    np.testing.assert_array_equal(changes.T, order < order[0, places[0]][:, None])


def test_the_gradient_of_hidden_tokens_is_exactly_zero(two_streams, inputs):
    tf = pytest.importorskip("tensorflow")
    names = ("padding_mask", "segment_ids", "factorization_order", "mask_positions")
    first = {name: tf.constant(inputs[name][:1]) for name in names}
    order, places = inputs["factorization_order"][0], inputs["mask_positions"][0]
    embeddings = tf.constant(two_streams.token_embedding(inputs["token_ids"][:1]))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(embeddings)
        *_, x = states_of_both_streams(two_streams, embeddings, **first)
        sums = [tf.reduce_sum(x[0, 7 + place] * tf.range(1.0, 9.0)) for place in range(len(places))]
    for place, total in zip(places, sums):
        gradient = tape.gradient(total, embeddings)[0].numpy()
        np.testing.assert_array_equal((gradient != 0).any(axis=-1), order < order[place])


def test_two_streams_change_nothing_in_the_encoder_itself(two_streams, inputs):
    alone = XLNetEncoder.from_pretrained(FOLDER)
    outputs = [outputs_of(encoder, inputs)["sequence_output"] for encoder in (two_streams, alone)]
    np.testing.assert_array_equal(*outputs)
    with pytest.raises(ValueError, match="must have a query stream.*Received: two_streams=False"):
        alone.query_stream(inputs)


def test_a_query_stream_survives_a_keras_file_and_trains_the_vector_from_which_it_starts(two_streams, inputs):
    reloaded = save_and_load(two_streams)
    np.testing.assert_array_equal(reloaded.query_stream(inputs), two_streams.query_stream(inputs))
    model = model_of(reloaded)
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    before = to_numpy(reloaded.streams.mask_embedding)
    model.train_on_batch(inputs, np.ones((2, 3, 8)))
    assert np.abs(to_numpy(reloaded.streams.mask_embedding) - before).max() > 0


def test_one_model_can_have_several_query_streams_of_an_encoder(two_streams, inputs):
    names = ("factorization_order", "mask_positions", "other_positions")
    tensors = {**two_streams.input, **{name: keras.Input((None,), dtype="int32", name=name) for name in names}}
    streams = [two_streams.query_stream({**tensors, "mask_positions": tensors[name]}) for name in names[1:]]
    model = keras.Model(tensors, streams)
    found = model({**inputs, "other_positions": inputs["mask_positions"][:, ::-1]})
    np.testing.assert_allclose(to_numpy(found[0]), to_numpy(found[1])[:, ::-1], rtol=0, atol=1e-6)


def test_a_query_stream_without_an_order_is_an_error(two_streams, inputs):
    with pytest.raises(ValueError, match="must have .*'factorization_order'.*Received: inputs="):
        two_streams.query_stream({name: values for name, values in inputs.items() if name != "factorization_order"})


def test_a_classifier_has_the_vector_only_to_keep_it(two_streams):
    one = TextClassifier(XLNetEncoder.from_pretrained(FOLDER), num_classes=2)
    both = TextClassifier(two_streams, num_classes=2)
    assert len(one.weights) == len(both.weights) + 1 and len(one.trainable_weights) == len(both.trainable_weights)
    assert [group.name for group in layer_groups(both)] == [group.name for group in layer_groups(one)]


def test_without_the_query_stream_its_start_is_kept_but_does_not_train():
    encoder = XLNetEncoder.from_pretrained(FOLDER)
    assert any(weight is encoder.streams.mask_embedding for weight in encoder.non_trainable_weights)
    encoder.trainable = False
    encoder.trainable = True
    assert not encoder.streams.mask_embedding.trainable


def test_texts_may_have_any_length():
    encoder = XLNetEncoder(**{**SMALL, "num_layers": 1})
    assert encoder(encoder_inputs(encoder, [[5] * 700]))["sequence_output"].shape == (1, 700, 8)


def test_settings_of_other_kinds_of_attention_are_one_error():
    config = json.loads((FOLDER / "config.json").read_text())
    others = {"attn_type": ("uni", "'bi'"), "bi_data": (True, "False"), "clamp_len": (100, "-1")}
    others["untie_r"] = False, "True"
    with pytest.raises(CheckpointError) as error:
        XLNET.arguments({**config, **{key: value for key, (value, _) in others.items()}}, "xlnet")
    for key, (value, expected) in others.items():
        assert f"`{key}` must be {expected}. Received: {value!r}" in str(error.value)
