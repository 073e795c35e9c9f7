"""`WordVectorEncoder`: each word's vector, and the bag of them."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as array

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import WordVectorEncoder, encode
from keras_transfer.encoders.word_vectors import SmoothInverseFrequency
from tests.errors import check_errors
from tests.helpers import run_encoder_test, run_layer_test, save_and_load

WORDS = ["the", "film", "good", "bad"]
VECTORS = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
IDS = np.array([[2, 4, 3, 0], [5, 1, 0, 0], [0, 0, 0, 0]], "int32")
INPUTS = {"token_ids": IDS, "padding_mask": np.sign(IDS)}


def vectors():
    return WordVectors(WORDS, VECTORS, unknown_vector=VECTORS.mean(axis=0))


@pytest.mark.core
@pytest.mark.parametrize("pooling", [None, "mean", "max", "sif"])
def test_it_is_a_well_behaved_encoder(pooling):
    run_encoder_test(
        WordVectorEncoder, {"vocabulary_size": 11, "hidden_dim": 8, "pooling": pooling, "initializer_range": 0.3}
    )


@pytest.mark.core
def test_with_convolutions_it_is_a_well_behaved_encoder():
    settings = {"vocabulary_size": 11, "hidden_dim": 8, "kernel_sizes": (1, 2), "filters": 3, "pooling": "max"}
    run_encoder_test(WordVectorEncoder, {**settings, "initializer_range": 0.3}, width=6)


@pytest.mark.core
def test_convolutions_read_the_vectors_of_neighboring_words_but_no_padding():
    encoder = WordVectorEncoder.from_vectors(vectors(), kernel_sizes=[3], filters=7, pooling="max")
    assert [group.name for group in layer_groups(encoder)] == ["embeddings", "convolutions"]
    [table] = encoder.token_embedding.get_weights()
    table += 1  # so that the vector of padding is not zeros
    encoder.token_embedding.set_weights([table])
    kernel, bias = map(array, encoder.convolutions[0].weights)
    rows = np.concatenate([np.zeros((1, 5)), table[[2, 4, 3]], np.zeros((1, 5))])
    expected = [np.maximum(np.einsum("ki,kio->o", rows[place : place + 3], kernel) + bias, 0) for place in range(3)]
    for width in (3, 4):
        outputs = encoder({name: values[:1, :width] for name, values in INPUTS.items()})
        np.testing.assert_allclose(array(outputs["sequence_output"])[0, :3], expected, atol=1e-6)
        np.testing.assert_allclose(array(outputs["pooled_output"])[0], np.max(expected, axis=0), atol=1e-6)


def test_the_sequence_contains_the_vectors_of_words_and_only_pooling_adds_a_pooled_output():
    outputs = WordVectorEncoder.from_vectors(vectors())(INPUTS)
    assert set(outputs) == {"sequence_output"}
    table = np.concatenate([np.zeros((1, 5)), VECTORS.mean(axis=0)[None], VECTORS])
    np.testing.assert_allclose(array(outputs["sequence_output"]), table[IDS], atol=1e-6)
    encoded = encode(WordVectorEncoder.from_vectors(vectors(), pooling="max"), INPUTS, hidden_states=True)
    assert len(encoded.hidden_states) == 1
    np.testing.assert_array_equal(array(encoded.hidden_states[0]), array(encoded.sequence))


def test_the_bag_is_the_mean_or_the_maximum_of_real_words():
    for pooling, function in (("mean", np.mean), ("max", np.max)):
        pooled = array(WordVectorEncoder.from_vectors(vectors(), pooling=pooling)(INPUTS)["pooled_output"])
        np.testing.assert_allclose(pooled[0], function(VECTORS[[0, 2, 1]], axis=0), atol=1e-6)
        np.testing.assert_allclose(pooled[1], function([VECTORS[3], VECTORS.mean(axis=0)], axis=0), atol=1e-6)
        np.testing.assert_array_equal(pooled[2], np.zeros(5))


@pytest.mark.core
def test_sif_weights_words_by_their_counts_as_in_the_paper():
    counts = {"the": 600, "film": 300, "good": 10, "other": 90}  # "bad" does not occur
    encoder = WordVectorEncoder.from_vectors(vectors(), counts=counts, pooling="sif", smoothing=1e-2)
    weights = 0.01 / (0.01 + np.array([0.6, 0.3, 0.01, 0.0]))
    pooled = array(encoder(INPUTS)["pooled_output"])
    # Algorithm 1, line 2: the sum over the sentence, divided by its length.
    expected = sum(weights[i] * VECTORS[i] for i in (0, 2, 1)) / 3
    np.testing.assert_allclose(pooled[0], expected, atol=1e-6)
    np.testing.assert_allclose(pooled[1], (VECTORS[3] + VECTORS.mean(axis=0)) / 2, atol=1e-6)
    np.testing.assert_array_equal(pooled[2], np.zeros(5))
    same = save_and_load(encoder)
    np.testing.assert_array_equal(array(same(INPUTS)["pooled_output"]), pooled)
    assert same.pooling == "sif" and same.smoothing == 1e-2


def test_without_counts_sif_estimates_frequencies_from_ranks():
    encoder = WordVectorEncoder.from_vectors(vectors(), pooling="sif")
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    weights = [0, 1, *(1e-3 / (1e-3 + 1 / (rank * harmonic)) for rank in (1, 2, 3, 4))]
    np.testing.assert_allclose(array(encoder.bag.word_weights), weights, rtol=1e-6)
    assert encoder.non_trainable_weights == [encoder.bag.word_weights]


def test_the_layer_of_sif_is_well_behaved():
    run_layer_test(
        SmoothInverseFrequency,
        {"vocabulary_size": 6, "smoothing": 0.01},
        np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32"),
        {"token_ids": IDS, "padding_mask": np.sign(IDS)},
        output_shape=(3, 5),
    )


def test_frozen_vectors_do_not_move_and_trained_ones_do():
    for trainable in (True, False):
        encoder = WordVectorEncoder.from_vectors(vectors(), trainable_embeddings=trainable, pooling="mean")
        assert len(encoder.trainable_weights) == trainable
        outputs = keras.layers.Dense(1)(encoder.output["pooled_output"])
        model = keras.Model(encoder.input, outputs)
        model.compile(keras.optimizers.SGD(0.1), "mse")
        before = array(encoder.token_embedding.embeddings).copy()
        model.fit(INPUTS, np.ones((3, 1)), verbose=0)
        moved = np.abs(array(encoder.token_embedding.embeddings) - before).max(axis=1) > 0
        assert moved.tolist() == [False, *[trainable] * 5]  # padding never
        same = save_and_load(encoder)
        assert len(same.trainable_weights) == trainable and same.get_config() == encoder.get_config()
    assert WordVectorEncoder(5, hidden_dim=2, trainable=False).trainable_weights == []


@pytest.mark.parametrize("pooling", [None, "sif"])
def test_it_is_one_layer_group_of_embeddings(pooling):
    groups = layer_groups(WordVectorEncoder(11, hidden_dim=3, pooling=pooling))
    assert [(group.name, group.kind, group.parameters) for group in groups] == [
        ("embeddings", "embeddings", 33 + (11 if pooling else 0))
    ]


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: WordVectorEncoder.from_vectors(VECTORS), "must be a `checkpoints.WordVectors`, such as"),
    (
        lambda: WordVectorEncoder.from_vectors(vectors(), counts={"the": 1}),
        "requires pooling='sif'. Received: pooling=None",
    ),
    (
        lambda: WordVectorEncoder.from_vectors(vectors(), counts={"x": 1}, pooling="sif"),
        "`vectors`. Received: counts=['x']",
    ),
    (
        lambda: WordVectorEncoder.from_vectors(vectors(), counts={"the": -1}, pooling="sif"),
        "must be finite, non-negative",
    ),
)
