"""`MultiHeadAttention` against the equation in float64, with every option and mask, and token by token."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import AttentionBias, MultiHeadAttention, RotaryPositions
from tests.helpers import run_layer_test

BATCH, LENGTH, CONTEXT, DIM, HEADS = 2, 5, 4, 6, 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, DIM)).astype("float32")
CONTEXT_VECTORS = RNG.normal(size=(BATCH, CONTEXT, 8)).astype("float32")
PADDING = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32")
CONTEXT_PADDING = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32")
LOOK = np.broadcast_to(np.eye(LENGTH, dtype="int32") + np.eye(LENGTH, k=-1, dtype="int32"), (BATCH, LENGTH, LENGTH))
RELATIVE = RNG.normal(size=(BATCH, HEADS, LENGTH, LENGTH)).astype("float32")

CASES = {
    "plain": ({}, {}),
    "padding mask": ({}, {"padding_mask": PADDING}),
    "attention mask": ({}, {"attention_mask": LOOK}),
    "causal": ({"causal": True}, {"padding_mask": PADDING}),
    "window": ({"window": 1}, {}),
    "causal window": ({"causal": True, "window": 2}, {}),
    "relative positions": ({}, {"padding_mask": PADDING, "relative_positions": RELATIVE}),
    "relative positions for all rows": ({}, {"relative_positions": RELATIVE[0]}),
    "wide heads without bias": ({"head_dim": 4, "use_bias": False, "scale": 1.0}, {"padding_mask": PADDING}),
    "one key and value head": ({"num_key_value_heads": 1, "causal": True}, {"padding_mask": PADDING}),
    "cross-attention": ({"cross_attention": True}, {"context": CONTEXT_VECTORS, "padding_mask": CONTEXT_PADDING}),
}


def random_layer(**options):
    layer = MultiHeadAttention(HEADS, **options)
    layer(X, **({"context": CONTEXT_VECTORS} if layer.cross_attention else {}))
    layer.set_weights([RNG.normal(size=weight.shape) for weight in layer.weights])
    return layer


def equation(layer, x, context=None, padding_mask=None, attention_mask=None, relative_positions=None):
    """softmax(scale q k' + bias) v, a head at a time, in float64."""

    def dense(x, layer):
        bias = layer.bias.numpy().astype("float64") if layer.use_bias else 0
        return x @ layer.kernel.numpy().astype("float64") + bias

    x, width = x.astype("float64"), layer.head_dim
    queries, keys = layer.num_heads * width, layer.num_key_value_heads * width
    if context is None:
        query, key, value = np.split(dense(x, layer.query_key_value), [queries, queries + keys], -1)
    else:
        query = dense(x, layer.query)
        key, value = np.split(dense(context.astype("float64"), layer.key_value), 2, -1)
    heads = []
    for h in range(HEADS):
        part, shared = (slice(i * width, (i + 1) * width) for i in (h, h * layer.num_key_value_heads // HEADS))
        scores = query[..., part] @ key[..., shared].transpose(0, 2, 1)
        scores *= width**-0.5 if layer.scale is None else layer.scale
        distance = np.arange(scores.shape[1])[:, None] - np.arange(scores.shape[2])
        if relative_positions is not None:
            scores += relative_positions[..., h, :, :]
        if padding_mask is not None:
            scores[np.broadcast_to(padding_mask[:, None] == 0, scores.shape)] = -np.inf
        if attention_mask is not None:
            scores[attention_mask == 0] = -np.inf
        if layer.causal:
            scores[:, distance < 0] = -np.inf
        if layer.window is not None:
            scores[:, abs(distance) > layer.window] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ value[..., shared])
    return dense(np.concatenate(heads, -1), layer.output_dense)


@pytest.mark.parametrize("case", CASES)
def test_it_equals_the_equation_in_float64(case):
    options, arguments = CASES[case]
    layer = random_layer(**options)
    np.testing.assert_allclose(layer(X, **arguments), equation(layer, X, **arguments), atol=1e-5)


@pytest.mark.parametrize(
    "case", ["padding mask", "causal window", "wide heads without bias", "one key and value head", "cross-attention"]
)
def test_it_is_a_well_behaved_layer(case):
    options, arguments = CASES[case]
    run_layer_test(MultiHeadAttention, {"num_heads": HEADS, **options}, X, arguments, output_shape=X.shape)


@pytest.mark.parametrize("case", CASES)
def test_the_first_token_alone_is_as_in_the_whole_sequence(case):
    options, arguments = CASES[case]
    layer = random_layer(**options)
    first = layer(X, first_only=True, **arguments)
    assert first.shape == (BATCH, 1, DIM)
    np.testing.assert_allclose(first, layer(X, **arguments)[:, :1], atol=1e-5)


def test_the_first_token_alone_has_length_one_in_a_functional_model():
    assert MultiHeadAttention(HEADS)(keras.Input((LENGTH, DIM)), first_only=True).shape == (None, 1, DIM)


def test_the_second_positional_argument_in_a_functional_model_is_the_context():
    layer = MultiHeadAttention(HEADS, cross_attention=True)
    outputs = layer(keras.Input((LENGTH, DIM)), keras.Input((CONTEXT, 8)))
    assert outputs.shape == (None, LENGTH, DIM)


@pytest.mark.parametrize("options", [{}, {"window": 1}, {"num_key_value_heads": 1, "head_dim": 4}], ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (3, 1, 1)])
def test_in_steps_with_a_cache_it_equals_the_whole_sequence(options, sizes):
    layer, rotary = random_layer(causal=True, **options), RotaryPositions(2)
    cache, outputs, start = layer.empty_cache(BATCH, LENGTH), [], 0
    for size in sizes:
        part = X[:, start : start + size]
        step, cache = layer(part, cache=cache, cache_index=start, **rotary(part, start=start))
        outputs.append(step)
        start += size
    np.testing.assert_allclose(np.concatenate(outputs, 1), layer(X, **rotary(X)), atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": 1}], ids=str)
@pytest.mark.parametrize("length", [LENGTH, None])
def test_a_bias_computed_once_gives_the_same_as_the_masks(options, length):
    layer = random_layer(**options)
    inputs, mask = keras.Input((length, DIM)), keras.Input((length,), dtype="int32")
    outputs = [layer(inputs, attention_bias=AttentionBias(**options)(mask)), layer(inputs, padding_mask=mask)]
    one, other = keras.Model([inputs, mask], outputs)([X, PADDING])
    np.testing.assert_array_equal(one, other)


class RelativeAttention(MultiHeadAttention):
    """Content to distance (Dai et al. 2019): `relative_positions` [2 * length - 1, dim] are vectors of distances."""

    def scores(self, query, key, relative_positions):
        table = self.query_key_value(relative_positions)[:, DIM : 2 * DIM]
        table = keras.ops.reshape(table, (-1, self.num_heads, self.head_dim))
        by_distance = keras.ops.einsum("bhid,rhd->bhir", query, table) * self.head_dim**-0.5
        places = np.arange(LENGTH)[:, None] - np.arange(LENGTH) + LENGTH - 1
        places = np.broadcast_to(places, (BATCH, HEADS, LENGTH, LENGTH))
        return super().scores(query, key) + keras.ops.take_along_axis(by_distance, places, axis=-1)


@pytest.mark.core
def test_relative_attention_overrides_the_scores_and_nothing_else():
    relative = RNG.normal(size=(2 * LENGTH - 1, DIM)).astype("float32")
    layer = RelativeAttention(HEADS, causal=True)
    layer(X, relative_positions=relative)
    layer.set_weights([RNG.normal(size=weight.shape) for weight in layer.weights])
    kernel, bias = (keras.ops.convert_to_numpy(w) for w in layer.query_key_value.weights)
    query, keys = (X @ kernel + bias)[..., :DIM], (relative @ kernel + bias)[:, DIM : 2 * DIM]
    added = np.zeros((BATCH, HEADS, LENGTH, LENGTH), "float32")
    for h in range(HEADS):
        part = slice(h * DIM // HEADS, (h + 1) * DIM // HEADS)
        for i in range(LENGTH):
            for j in range(LENGTH):
                added[:, h, i, j] = query[:, i, part] @ keys[i - j + LENGTH - 1, part] / np.sqrt(DIM / HEADS)
    plain = MultiHeadAttention(HEADS, causal=True)
    plain(X)
    plain.set_weights(layer.get_weights())
    expected = plain(X, padding_mask=PADDING, relative_positions=added)
    outputs = layer(X, padding_mask=PADDING, relative_positions=relative)
    np.testing.assert_allclose(*map(keras.ops.convert_to_numpy, (outputs, expected)), atol=1e-5)


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
    # Keras casts a bias that the layer is called with to float16. A row of padding stays finite.
    layer = MultiHeadAttention(HEADS, causal=True, dtype="mixed_float16")
    mask = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], "int32")
    cut = np.array(layer(X[:, :3]))
    for masks in ({"padding_mask": mask}, {"attention_bias": AttentionBias(causal=True)(mask)}):
        outputs = np.array(layer(X, **masks))
        np.testing.assert_allclose(outputs[0, :3], cut[0], atol=1e-3)
        assert np.isfinite(outputs).all()


def test_key_value_heads_that_do_not_divide_the_heads_are_an_error():
    with pytest.raises(ValueError, match=r"`num_heads` must be a multiple of `num_key_value_heads`"):
        MultiHeadAttention(3, num_key_value_heads=2)


def test_heads_that_do_not_divide_the_width_are_an_error():
    with pytest.raises(ValueError, match=r"`num_heads` must divide.* Received: num_heads=4, inputs_shape=\(2, 5, 6\)"):
        MultiHeadAttention(4)(X)


@pytest.mark.parametrize("options", [{"causal": True}, {"window": 2}], ids=str)
def test_a_causal_or_windowed_cross_attention_is_an_error(options):
    with pytest.raises(ValueError, match=r"cannot be combined with `cross_attention=True`. Received: causal="):
        MultiHeadAttention(2, cross_attention=True, **options)


def test_cross_attention_without_context_is_an_error():
    with pytest.raises(ValueError, match=r"Cross-attention requires `context` or `cache`. Received: context=None"):
        MultiHeadAttention(2, cross_attention=True)(X)


def test_a_bias_together_with_a_mask_is_an_error():
    bias = AttentionBias()(PADDING)
    with pytest.raises(ValueError, match=r"`attention_bias` replaces the masks.* Received: padding_mask="):
        MultiHeadAttention(2)(X, padding_mask=PADDING, attention_bias=bias)


@pytest.mark.parametrize("shape", [(BATCH, LENGTH - 1), (BATCH, 1, LENGTH)])
def test_a_mask_of_another_shape_than_the_sequences_is_an_error(shape):
    with pytest.raises(ValueError, match=r"\[batch, length\] of its sequences.* Received: padding_mask=\("):
        MultiHeadAttention(HEADS)(X, padding_mask=np.ones(shape, "int32"))


def test_a_mask_may_be_a_list():
    mask = [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]]
    layer = random_layer()
    np.testing.assert_array_equal(layer(X, padding_mask=mask), layer(X, padding_mask=np.array(mask)))


def test_a_mask_of_another_length_is_an_error_even_if_lengths_are_unknown_in_advance():
    inputs, mask = keras.Input((None, DIM)), keras.Input((None,), dtype="int32")
    model = keras.Model([inputs, mask], random_layer()(inputs, padding_mask=mask))
    with pytest.raises(Exception, match="(?i)reshape|shape"):
        model.predict_on_batch([np.ones((1, 6, DIM), "float32"), np.ones((1, 3), "int32")])
