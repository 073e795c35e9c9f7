"""`TransformerBlock` in its three norms, with every part, mask and cache, cross-attention and adapters."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import (
    AttentionBias,
    BottleneckAdapter,
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
    TransformerBlock,
)
from keras_transfer.layers.adapters.wrapper import AdaptedResidual, stand_in
from keras_transfer.layers.basic.activations import gelu_tanh
from tests.helpers import run_layer_test, save_and_load

BATCH, LENGTH, DIM = 2, 5, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, LENGTH, DIM)).astype("float32")
CONTEXT = RNG.normal(size=(BATCH, 4, 8)).astype("float32")
PADDING = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32")
SLOTS = ("attention", "cross_attention", "feed_forward")


def adapted(block):
    """The block with a bottleneck at the end of each of its sub-layers, and with weights that keep values small."""
    block.set_weights([0.3 * value for value in block.get_weights()])
    for part in SLOTS if block.cross_attention is not None else ("attention", "feed_forward"):
        slot = stand_in(AdaptedResidual, block, f"{part}_residual", part)
        layer = BottleneckAdapter(3, source="summed", name="own")
        layer.build((BATCH, LENGTH, DIM))
        layer.set_weights([RNG.normal(scale=0.1, size=weight.shape) for weight in layer.weights])
        slot.adapters["own"] = layer
        slot.activate(["own"])
    return block


def make_block(causal=False, activation="gelu", reads_context=False, gated=False, dtype=None, **options):
    """A block with new parts."""
    if reads_context:
        options["cross_attention"] = MultiHeadAttention(2, cross_attention=True, dtype=dtype, name="cross_attention")
    return TransformerBlock(
        MultiHeadAttention(2, causal=causal, dtype=dtype, name="attention"),
        (GatedFeedForward if gated else FeedForward)(12, activation, dtype=dtype, name="feed_forward"),
        dtype=dtype,
        **options,
    )


def assert_same(found, expected):
    """Compares what was computed by sums in another order, of values up to 40: float32 has seven digits of them."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * 40)


def random_block(**options):
    block = make_block(**options)
    block(X, **({"context": CONTEXT} if block.cross_attention is not None else {}))
    block.set_weights([RNG.normal(size=weight.shape) for weight in block.weights])
    return block


def written_out(block, x, padding_mask, attention_mask):
    """The block's three definitions, line by line, from its own sub-layers."""

    def attention(x):
        return block.attention(x, padding_mask=padding_mask, attention_mask=attention_mask)

    def feed_forward(x):
        return block.feed_forward.outer(keras.ops.relu(block.feed_forward.inner(x)))

    norm1, norm2 = block.attention_norm, block.feed_forward_norm
    if block.norm == "post":
        x = norm1(x + attention(x))
        return norm2(x + feed_forward(x))
    if block.norm == "pre":
        x = x + attention(norm1(x))
        return x + feed_forward(norm2(x))
    x = norm1(x)
    x = x + attention(x)
    x = norm2(x)
    return x + feed_forward(x)


@pytest.mark.parametrize("norm", ["post", "pre", "input"])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_its_definition(norm, causal):
    block = random_block(norm=norm, causal=causal, activation="relu")
    seen = np.ones((BATCH, LENGTH, LENGTH), "int32")  # [:, i, j]: token i sees token j.
    expected = written_out(block, X, PADDING, np.tril(seen) if causal else seen)
    np.testing.assert_allclose(block(X, padding_mask=PADDING), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("norm", "normalization", "parts"),
    [
        ("post", "layer", {"activation": "gelu_tanh"}),
        ("pre", "rms", {"causal": True, "gated": True}),
        ("input", "layer", {"causal": True}),
    ],
)
def test_it_is_a_well_behaved_layer(norm, normalization, parts):
    def make(dtype=None, **options):
        return make_block(dtype=dtype, **parts, **options)

    arguments = {"norm": norm, "normalization": normalization, "dropout": 0.1}
    run_layer_test(make, arguments, X, {"padding_mask": PADDING}, output_shape=X.shape)


def test_with_cross_attention_it_is_a_well_behaved_layer():
    def make(dtype=None, **options):
        return make_block(reads_context=True, dtype=dtype, **options)

    run_layer_test(
        make,
        {},
        X,
        {"context": CONTEXT, "context_mask": np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32")},
        output_shape=X.shape,
    )


@pytest.mark.parametrize("norm", ["post", "pre", "input"])
def test_token_by_token_with_a_cache_equals_the_whole_sequence(norm):
    block = random_block(norm=norm, causal=True)
    cache, steps = block.empty_cache(BATCH, LENGTH), []
    for i in range(LENGTH):
        step, cache = block(X[:, i : i + 1], cache=cache, cache_index=i)
        steps.append(step)
    assert_same(np.concatenate(steps, 1), block(X))


def test_a_functional_model_returns_the_cache_beside_the_outputs():
    block, inputs = random_block(causal=True), keras.Input((1, DIM))
    cache = {"attention": tuple(keras.Input((2, LENGTH, DIM // 2)) for _ in range(2))}
    model = keras.Model([inputs, cache], block(inputs, cache=cache, cache_index=0))
    empty = block.empty_cache(BATCH, LENGTH)
    outputs, updated = model([keras.ops.array(X[:, :1]), empty])
    expected, expected_cache = block(X[:, :1], cache=empty, cache_index=0)
    np.testing.assert_allclose(outputs, expected, atol=1e-6)
    for one, other in zip(updated["attention"], expected_cache["attention"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_decoder_projects_its_context_once():
    block = random_block(causal=True, reads_context=True)
    whole = block(X, context=CONTEXT)
    cache, steps = block.empty_cache(BATCH, LENGTH, context=CONTEXT), []
    block.cross_attention.key_value.kernel.assign(np.full((8, 2 * DIM), np.nan))
    for i in range(LENGTH):
        step, cache = block(X[:, i : i + 1], cache=cache, cache_index=i)
        steps.append(step)
    assert_same(np.concatenate(steps, 1), whole)


@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_computed_once_gives_the_same_as_the_masks(causal):
    block = random_block(causal=causal)
    bias = AttentionBias(causal=causal)(PADDING)
    np.testing.assert_array_equal(block(X, attention_bias=bias), block(X, padding_mask=PADDING))
    block = random_block(reads_context=True)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32")
    by_bias = block(X, context=CONTEXT, context_bias=AttentionBias()(mask))
    np.testing.assert_array_equal(by_bias, block(X, context=CONTEXT, context_mask=mask))


def test_causal_outputs_do_not_depend_on_later_tokens():
    block = random_block(causal=True)
    changed = X.copy()
    changed[:, 3:] = 7.0
    np.testing.assert_allclose(np.array(block(changed))[:, :3], np.array(block(X))[:, :3], atol=1e-5)


def test_cross_attention_reads_the_context_through_its_mask():
    block = random_block(reads_context=True)
    mask = np.array([[1, 1, 0, 0], [1, 1, 0, 0]], "int32")
    cut = block(X, context=CONTEXT[:, :2])
    np.testing.assert_allclose(block(X, context=CONTEXT, context_mask=mask), cut, atol=1e-5)
    assert np.abs(np.array(block(X, context=CONTEXT)) - np.array(cut)).max() > 0.01


@pytest.mark.parametrize("norm", ["post", "pre", "input"])
@pytest.mark.parametrize("parts", [{}, {"causal": True, "gated": True}, {"reads_context": True}], ids=str)
def test_the_first_token_alone_is_as_in_the_whole_sequence(norm, parts):
    arguments = {"padding_mask": PADDING, **({"context": CONTEXT} if "reads_context" in parts else {})}
    block = adapted(random_block(norm=norm, **parts))
    first = block(X, **arguments, first_only=True)
    assert first.shape == (BATCH, 1, DIM)
    np.testing.assert_allclose(first, block(X, **arguments)[:, :1], atol=1e-5)
    inputs = {name: keras.Input(value.shape[1:]) for name, value in arguments.items()}
    assert block(keras.Input((LENGTH, DIM)), first_only=True, **inputs).shape == (None, 1, DIM)


def test_reloaded_weights_have_the_same_paths():
    inputs = keras.Input((LENGTH, DIM))
    model = keras.Model(inputs, make_block(name="block_0")(inputs))
    paths = [weight.path for weight in model.weights]
    assert "block_0/attention/query_key_value/kernel" in paths and "block_0/feed_forward/inner/bias" in paths
    assert [weight.path for weight in save_and_load(model).weights] == paths


def test_an_activation_given_as_a_function_survives_its_config():
    block = make_block(activation=gelu_tanh)
    again = TransformerBlock.from_config(block.get_config())
    for layer in (block, again):
        layer(X)
    again.set_weights(block.get_weights())
    np.testing.assert_array_equal(again(X), block(X))
    assert again.get_config() == block.get_config()


def test_dropout_acts_in_training_only():
    block = make_block(dropout=0.5)
    np.testing.assert_array_equal(block(X), block(X, training=False))
    assert np.abs(np.array(block(X, training=True)) - np.array(block(X))).max() > 0.01


def test_a_cross_attention_that_attends_to_its_own_inputs_is_an_error():
    with pytest.raises(ValueError, match=r"`cross_attention` must be built with `cross_attention=True`"):
        make_block(cross_attention=MultiHeadAttention(2))


def test_a_block_of_an_older_config_loads_unless_its_constructor_was_given_adapters():
    config = make_block().get_config()
    assert TransformerBlock.from_config({**config, "adapters": {}}).get_config() == config
    with pytest.raises(ValueError, match=r"from `adaptation.add_adapters` only. Received: \['attention'\]"):
        TransformerBlock.from_config({**config, "adapters": {"attention": {}}})
