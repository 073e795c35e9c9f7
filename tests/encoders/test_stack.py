"""`TransformerStack`: decoding with a cache, shared blocks, and arguments for every block."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import (
    AlbertEncoder,
    BertEncoder,
    DebertaV2Encoder,
    DistilBertEncoder,
    GPT2Encoder,
    GPTEncoder,
    ModernBertEncoder,
    TransformerEncoder,
    encode,
)
from keras_transfer.encoders.encoder import constructor_settings
from keras_transfer.encoders.stack import TransformerStack
from keras_transfer.encoders.wiring import Parts, bert_layers
from keras_transfer.layers import GatedFeedForward, MultiHeadAttention, RotaryPositions, TransformerBlock
from tests.helpers import encoder_inputs, outputs_of, run_encoder_test

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
IDS = [[5, 6, 7, 8, 9], [4, 3, 2, 1, 5]]


@keras.saving.register_keras_serializable("tests")
class Decoder(TransformerStack):
    """Llama's parts, with a window in every second block."""

    def __init__(self, vocabulary_size, num_layers, num_heads, hidden_dim, intermediate_dim, dtype=None, **kwargs):
        settings = constructor_settings(locals())
        initializer = keras.initializers.RandomNormal(stddev=0.5)
        weights = {"use_bias": False, "kernel_initializer": initializer, "dtype": dtype}
        blocks = []
        for i in range(num_layers):
            window = 1 if i % 2 else None
            attention = MultiHeadAttention(
                num_heads, num_key_value_heads=1, causal=True, window=window, **weights, name="attention"
            )
            feed_forward = GatedFeedForward(intermediate_dim, activation="silu", **weights, name="feed_forward")
            blocks.append(
                TransformerBlock(
                    attention, feed_forward, norm="pre", normalization="rms", dtype=dtype, name=f"block_{i}"
                )
            )
        super().__init__(
            settings,
            keras.layers.Embedding(vocabulary_size, hidden_dim, initializer, dtype=dtype, name="token_embedding"),
            blocks,
            block_inputs=RotaryPositions(hidden_dim // num_heads, dtype=dtype, name="rotary"),
            final_norm=keras.layers.RMSNormalization(dtype=dtype, name="final_norm"),
            dtype=dtype,
            **kwargs,
        )


def test_a_stack_of_custom_blocks_is_a_well_behaved_encoder():
    run_encoder_test(Decoder, SMALL)


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        pytest.param(Decoder, {}, marks=pytest.mark.core),
        (TransformerEncoder, {"causal": True, "norm": "pre", "initializer_range": 0.5}),
        (GPT2Encoder, {"initializer_range": 0.5}),
        (GPTEncoder, {"initializer_range": 0.5}),
    ],
)
def test_steps_with_a_cache_equal_the_whole_sequence(cls, options):
    encoder = cls(**SMALL, **options)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]], "int32")
    whole = encoder({"token_ids": np.array(IDS), "padding_mask": mask})["sequence_output"]
    cache, outputs = encoder.empty_cache(2, 5), []
    for start, end in ((0, 3), (3, 4), (4, 5)):
        output, cache = encoder.step(np.array(IDS)[:, start:end], cache, start, padding_mask=mask)
        outputs.append(keras.ops.convert_to_numpy(output))
    np.testing.assert_allclose(np.concatenate(outputs, 1), keras.ops.convert_to_numpy(whole), atol=1e-5)


@pytest.mark.parametrize("start", [0, 1, 4])
def test_the_upper_blocks_run_alone_on_the_hidden_states_below(start):
    encoder, mask = Decoder(**{**SMALL, "num_layers": 4}), np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]], "int32")
    found = encode(encoder, {"token_ids": np.array(IDS), "padding_mask": mask}, hidden_states=True)
    outputs, states = encoder.run_blocks(found.hidden_states[start], mask, start)
    np.testing.assert_allclose(outputs["sequence_output"], found.sequence, atol=1e-5)
    for state, expected in zip(states, found.hidden_states[start:], strict=True):
        np.testing.assert_allclose(state, expected, atol=1e-5)


@pytest.mark.core
def test_models_that_read_only_the_pooled_output_compute_one_token_in_the_last_block():
    encoder = BertEncoder(**SMALL)
    inputs = encoder_inputs(encoder, IDS, real=3)
    alone = keras.Model(encoder.input, encoder.pooled_alone())
    np.testing.assert_allclose(outputs_of(alone, inputs), outputs_of(encoder, inputs)["pooled_output"], atol=1e-6)
    assert encoder.pooled_alone() is encoder.pooled_alone()
    outputs, _ = encoder.run_blocks(encoder.hidden_states[1], encoder.input["padding_mask"], 1, first_only=True)
    assert outputs["sequence_output"].shape == (None, 1, 8)
    shared = AlbertEncoder(**SMALL, embedding_dim=8)  # The last block is the first one, too.
    assert shared.pooled_alone() is shared.output["pooled_output"]


def test_a_block_used_twice_is_one_layer_group():
    block = Decoder(**SMALL).blocks[0]
    sizes = {"vocabulary_size": 12, "hidden_dim": 8, "max_sequence_length": 10}
    parts = Parts(sizes, initializer=keras.initializers.RandomNormal())
    encoder = TransformerStack(
        {},
        **parts.embeddings(num_segments=1),
        blocks=[block, block],
        pooler=parts.pooler(),
        segment_ids=False,
    )
    assert [(name, kind) for name, kind, _ in encoder.layer_groups()] == [
        ("embeddings", "embeddings"),
        ("block_0", "block"),
        ("pooler", "pooler"),
    ]
    assert sorted(encoder.input) == ["padding_mask", "token_ids"] and len(encoder.hidden_states) == 3
    assert encoder(encoder_inputs(encoder, IDS))["pooled_output"].shape == (2, 8)


def test_the_norms_of_an_encoder_are_one_argument():
    settings = {**SMALL, "vocabulary_size": 20, "dropout": 0.1, "activation": "gelu", "initializer_range": 0.02}
    settings = {"max_sequence_length": 16, **settings}
    encoder = TransformerStack({}, **bert_layers(settings, normalization="rms"))
    norms = [encoder.embeddings_norm, encoder.blocks[0].attention_norm, encoder.blocks[-1].feed_forward_norm]
    assert all(isinstance(norm, keras.layers.RMSNormalization) for norm in norms)
    assert encoder(encoder_inputs(encoder, IDS))["sequence_output"].shape == (2, 5, 8)


def test_masks_are_computed_once_for_each_kind_of_block():
    names = [layer.name for layer in Decoder(**{**SMALL, "num_layers": 4}).layers]
    assert [name for name in names if "bias" in name] == ["attention_bias", "attention_bias_1"]


def test_a_step_of_non_causal_blocks_requires_a_mask():
    encoder = TransformerEncoder(**SMALL)
    cache = encoder.empty_cache(batch_size=2, length=8)
    with pytest.raises(ValueError, match="`padding_mask` is required unless all blocks are causal"):
        encoder.step(np.array(IDS), cache, start=0)


@pytest.mark.core
@pytest.mark.parametrize(
    "cls", [BertEncoder, DistilBertEncoder, AlbertEncoder, DebertaV2Encoder, ModernBertEncoder, GPT2Encoder]
)
def test_the_width_of_heads_and_the_rate_of_skipped_blocks_reach_the_blocks_and_the_config(cls):
    options = {"head_dim": 6, "layer_drop": 0.25}
    encoder = cls(**SMALL, **options)
    for each in (encoder, cls.from_config(encoder.get_config())):
        assert {(block.attention.head_dim, block.layer_drop) for block in each.blocks} == {(6, 0.25)}
        assert options.items() <= each.get_config().items()
    assert not options.keys() & cls(**SMALL).get_config().keys()
