"""`MultiHeadAttention` against the equation in float64, with every mask, and token by token with a cache."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import MultiHeadAttention
from tests.helpers import run_layer_test

BATCH, LENGTH, CONTEXT, DIM, HEADS = 2, 5, 4, 6, 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, DIM)).astype("float32")
CONTEXT_VECTORS = RNG.normal(size=(BATCH, CONTEXT, 8)).astype("float32")
PADDING = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32")
CONTEXT_PADDING = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32")
LOOK = np.broadcast_to(np.eye(LENGTH, dtype="int32") + np.eye(LENGTH, k=-1, dtype="int32"), (BATCH, LENGTH, LENGTH))
POSITION_BIAS = RNG.normal(size=(BATCH, HEADS, LENGTH, LENGTH)).astype("float32")

CASES = {
    "plain": ({}, {}),
    "padding mask": ({}, {"padding_mask": PADDING}),
    "attention mask": ({}, {"attention_mask": LOOK}),
    "causal": ({"causal": True}, {"padding_mask": PADDING}),
    "position bias": ({}, {"padding_mask": PADDING, "position_bias": POSITION_BIAS}),
    "cross-attention": ({"cross_attention": True}, {"context": CONTEXT_VECTORS, "padding_mask": CONTEXT_PADDING}),
}


def random_layer(**options):
    layer = MultiHeadAttention(HEADS, **options)
    layer(X, **({"context": CONTEXT_VECTORS} if layer.cross_attention else {}))
    layer.set_weights([RNG.normal(size=weight.shape) for weight in layer.weights])
    return layer


def equation(layer, x, context=None, padding_mask=None, attention_mask=None, position_bias=None):
    """softmax(q k' / sqrt(d) + bias) v, a head at a time, in float64."""

    def dense(x, layer):
        return x @ layer.kernel.numpy().astype("float64") + layer.bias.numpy().astype("float64")

    x = x.astype("float64")
    if context is None:
        query, key, value = np.split(dense(x, layer.query_key_value), 3, -1)
    else:
        query = dense(x, layer.query)
        key, value = np.split(dense(context.astype("float64"), layer.key_value), 2, -1)
    heads = []
    for h in range(HEADS):
        part = slice(h * DIM // HEADS, (h + 1) * DIM // HEADS)
        scores = query[..., part] @ key[..., part].transpose(0, 2, 1) / np.sqrt(DIM / HEADS)
        if position_bias is not None:
            scores += position_bias[:, h]
        if padding_mask is not None:
            scores[np.broadcast_to(padding_mask[:, None] == 0, scores.shape)] = -np.inf
        if attention_mask is not None:
            scores[attention_mask == 0] = -np.inf
        if layer.causal:
            scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ value[..., part])
    return dense(np.concatenate(heads, -1), layer.output_dense)


@pytest.mark.parametrize("case", CASES)
def test_it_equals_the_equation_in_float64(case):
    options, arguments = CASES[case]
    layer = random_layer(**options)
    np.testing.assert_allclose(layer(X, **arguments), equation(layer, X, **arguments), atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_it_is_a_well_behaved_layer(case):
    options, arguments = CASES[case]
    run_layer_test(MultiHeadAttention, {"num_heads": HEADS, **options}, X, arguments, output_shape=X.shape)


def test_what_stands_in_the_padding_changes_nothing():
    layer = random_layer()
    other = np.where(PADDING[..., None] == 1, X, 100.0)
    real = PADDING == 1
    same = np.array(layer(X, padding_mask=PADDING))[real]
    np.testing.assert_array_equal(np.array(layer(other, padding_mask=PADDING))[real], same)


def test_positional_context_in_a_functional_model_is_the_context():
    layer = MultiHeadAttention(HEADS, cross_attention=True)
    outputs = layer(keras.Input((LENGTH, DIM)), keras.Input((CONTEXT, 8)))
    assert outputs.shape == (None, LENGTH, DIM)


def test_token_by_token_with_a_cache_equals_the_whole_sequence():
    layer = random_layer(causal=True)
    cache = np.zeros((BATCH, 2, HEADS, LENGTH, DIM // HEADS), "float32")
    steps = []
    for i in range(LENGTH):
        step, cache = layer(X[:, i : i + 1], cache=cache, cache_index=i)
        steps.append(step)
    np.testing.assert_allclose(np.concatenate(steps, 1), layer(X), atol=1e-5)


def test_a_prompt_at_once_and_the_rest_token_by_token_equals_the_whole_sequence():
    layer = random_layer(causal=True)
    prompt, cache = layer(X[:, :3], cache=np.zeros((BATCH, 2, HEADS, LENGTH, DIM // HEADS), "float32"), cache_index=0)
    fourth, cache = layer(X[:, 3:4], cache=cache, cache_index=3)
    fifth, cache = layer(X[:, 4:], cache=cache, cache_index=4)
    np.testing.assert_allclose(np.concatenate([prompt, fourth, fifth], 1), layer(X), atol=1e-5)


def test_dropout_acts_in_training_only():
    layer = MultiHeadAttention(HEADS, dropout=0.5)
    np.testing.assert_array_equal(layer(X), layer(X, training=False))
    assert np.abs(np.array(layer(X, training=True)) - np.array(layer(X))).max() > 0.01


def test_the_kernels_start_from_different_numbers():
    layer = MultiHeadAttention(HEADS, kernel_initializer=keras.initializers.RandomNormal(seed=1))
    layer(X)
    query, key, value = np.split(layer.query_key_value.kernel.numpy(), 3, -1)
    for one, other in ((query, key), (key, value), (query, layer.output_dense.kernel.numpy())):
        assert np.abs(one - other).max() > 0.01


def test_masks_hold_in_half_precision():
    # Both masks together are -2e9, far below what float16 can say; a row of padding stays finite.
    layer = MultiHeadAttention(HEADS, causal=True, dtype="mixed_float16")
    mask = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], "int32")
    outputs = np.array(layer(X, padding_mask=mask))
    cut = np.array(layer(X[:, :3]))
    np.testing.assert_allclose(outputs[0, :3], cut[0], atol=1e-3)
    assert np.isfinite(outputs).all()


def test_heads_that_do_not_divide_the_width_are_an_error():
    with pytest.raises(ValueError, match=r"`num_heads` must divide .* Received: 4 and 6"):
        MultiHeadAttention(4)(X)


def test_causal_cross_attention_is_an_error():
    with pytest.raises(ValueError, match=r"no order to be causal in. Received: causal=True"):
        MultiHeadAttention(2, causal=True, cross_attention=True)


def test_cross_attention_without_context_is_an_error():
    with pytest.raises(ValueError, match=r"cross-attention needs `context`. Received: None"):
        MultiHeadAttention(2, cross_attention=True)(X)


@pytest.mark.parametrize("shape", [(BATCH, LENGTH - 1), (1, 1), (BATCH,), (BATCH, 1, LENGTH)])
def test_a_mask_that_is_not_of_the_sequences_is_an_error(shape):
    with pytest.raises(ValueError, match=r"\[batch, length\] of its sequences.*Received: a mask"):
        MultiHeadAttention(HEADS)(X, padding_mask=np.ones(shape, "int32"))


def test_a_mask_may_be_a_list():
    mask = [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]]
    layer = random_layer()
    np.testing.assert_array_equal(layer(X, padding_mask=mask), layer(X, padding_mask=np.array(mask)))


def test_a_mask_of_another_length_is_no_answer_where_no_length_is_known():
    inputs, mask = keras.Input((None, DIM)), keras.Input((None,), dtype="int32")
    model = keras.Model([inputs, mask], random_layer()(inputs, padding_mask=mask))
    with pytest.raises(Exception, match="(?i)reshape|shape"):
        model.predict_on_batch([np.ones((1, 6, DIM), "float32"), np.ones((1, 3), "int32")])
