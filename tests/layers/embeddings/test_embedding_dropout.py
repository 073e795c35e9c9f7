"""`EmbeddingDropout`: a token is dropped wherever it occurs, and the table stays whole."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import EmbeddingDropout, OutputEmbeddings
from tests.errors import check_errors
from tests.helpers import EAGER, run_layer_test

SIZE = 2000
IDS = np.random.default_rng(0).permutation(np.repeat(np.arange(SIZE), 3)).reshape(20, 300)
VECTORS = np.ones((20, 300, 2), "float32")


def outputs_of(layer, training=True):
    return keras.ops.convert_to_numpy(layer(VECTORS, IDS, training=training))


def test_it_is_a_well_behaved_layer():
    arguments = {"input_dim": SIZE, "rate": 0.5, "seed": 1}
    run_layer_test(EmbeddingDropout, arguments, VECTORS[:2, :5], {"token_ids": IDS[:2, :5]}, (2, 5, 2))


@pytest.mark.core
def test_a_token_is_dropped_everywhere_or_nowhere_and_the_others_are_scaled():
    outputs = outputs_of(EmbeddingDropout(SIZE, 0.25, seed=1))
    by_token = outputs[..., 0].flatten()[np.argsort(IDS, axis=None)].reshape(SIZE, 3)
    np.testing.assert_array_equal(outputs[..., 0], outputs[..., 1])
    np.testing.assert_array_equal(by_token, np.repeat(by_token[:, :1], 3, axis=1))
    kept = by_token[:, 0] != 0
    np.testing.assert_allclose(by_token[kept], 1 / 0.75, rtol=1e-6)
    # Four standard deviations over the tokens.
    assert abs(kept.mean() - 0.75) < 4 * np.sqrt(0.25 * 0.75 / SIZE)
    assert abs(by_token.mean() - 1) < 4 * np.sqrt(0.25 / 0.75 / SIZE)


def test_a_seed_fixes_the_dropped_tokens_and_each_call_drops_others():
    first, second = EmbeddingDropout(SIZE, 0.5, seed=7), EmbeddingDropout(SIZE, 0.5, seed=7)
    drawn = outputs_of(first)
    np.testing.assert_array_equal(drawn, outputs_of(second))
    assert (drawn != outputs_of(first)).mean() > 0.4


@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.0, True)])
def test_outside_of_training_and_without_a_rate_nothing_changes(rate, training):
    np.testing.assert_array_equal(outputs_of(EmbeddingDropout(SIZE, rate), training), VECTORS)


def test_tied_output_embeddings_use_the_whole_table_and_dropped_rows_train_only_through_them():
    table = keras.layers.Embedding(6, 4)
    ids = keras.Input((6,), dtype="int32")
    vectors = EmbeddingDropout(6, 1.0)(table(ids), ids)
    tied = keras.Model(ids, OutputEmbeddings(table)(vectors + 1.0))
    alone = keras.Model(ids, vectors)
    batch = np.arange(6)[None]
    logits = keras.ops.convert_to_numpy(tied(batch, training=True))
    np.testing.assert_allclose(logits[0, 0], table.embeddings.numpy().sum(axis=1), atol=1e-6)
    for model, moves in ((alone, False), (tied, True)):
        before = table.embeddings.numpy()
        model.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=EAGER)
        model.train_on_batch(batch, np.ones(model.compute_output_shape((1, 6)), "float32"))
        assert (table.embeddings.numpy() != before).all() == moves


test_mistakes_are_clear_errors = check_errors(
    (lambda: EmbeddingDropout(5, -0.5), "`rate` ... between 0 and 1 ... Received: rate=-0.5"),
)
