"""`TransformerEncoder` equals the 2019 NAACL tutorial's class and torch's own (references/make_transformer.py)."""

import numpy as np
import pytest

from keras_transfer.encoders import TransformerEncoder, encode
from tests.helpers import run_encoder_test
from tests.samples import REFERENCES

SMALL = {"vocabulary_size": 11, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 7}
REFERENCE = REFERENCES / "transformer.npz"
CASES = {
    "input": {"norm": "input"},
    "input_causal": {"norm": "input", "causal": True},
    "post": {"norm": "post", "activation": "gelu", "layer_norm_epsilon": 1e-5},
    "pre_causal": {"norm": "pre", "activation": "gelu", "layer_norm_epsilon": 1e-5, "causal": True},
}


def with_torch_weights(encoder, weights):
    """Puts torch's weights into the encoder: `linear.weight` is [out, in] there and [in, out] here."""

    def dense(layer, kernel, bias):
        layer.set_weights([weights[kernel].T, weights[bias]])

    def norm(layer, name):
        layer.set_weights([weights[f"{name}.weight"], weights[f"{name}.bias"]])

    encoder.token_embedding.set_weights([weights["tokens.weight"]])
    encoder.position_embedding.set_weights([weights["positions.weight"]])
    for i, block in enumerate(encoder.blocks):
        layer = f"layers.{i}"
        attention = f"{layer}.self_attn"
        dense(block.attention.query_key_value, f"{attention}.in_proj_weight", f"{attention}.in_proj_bias")
        dense(block.attention.output_dense, f"{attention}.out_proj.weight", f"{attention}.out_proj.bias")
        dense(block.feed_forward.inner, f"{layer}.linear1.weight", f"{layer}.linear1.bias")
        dense(block.feed_forward.outer, f"{layer}.linear2.weight", f"{layer}.linear2.bias")
        norm(block.attention_norm, f"{layer}.norm1")
        norm(block.feed_forward_norm, f"{layer}.norm2")
    if encoder.final_norm is not None:
        norm(encoder.final_norm, "norm")


@pytest.mark.parametrize("case", CASES)
def test_every_hidden_state_equals_the_original(case):
    reference = np.load(REFERENCE)
    weights = {name.removeprefix(f"{case}/"): reference[name] for name in reference if name.startswith(f"{case}/")}
    encoder = TransformerEncoder(**SMALL, **CASES[case])
    with_torch_weights(encoder, weights)
    inputs = {name: reference[name].astype("int32") for name in ("token_ids", "padding_mask")}
    real = inputs["padding_mask"] == 1
    encoded = encode(encoder, inputs, hidden_states=True)
    for ours, theirs in zip(encoded.hidden_states, weights["states"], strict=True):
        np.testing.assert_allclose(np.array(ours)[real], theirs[real], atol=1e-5)
    np.testing.assert_allclose(np.array(encoded.sequence)[real], weights["output"][real], atol=1e-5)


@pytest.mark.parametrize(("norm", "causal"), [("post", False), ("pre", True), ("input", True)])
def test_it_is_a_well_behaved_encoder(norm, causal):
    run_encoder_test(TransformerEncoder, {**SMALL, "norm": norm, "causal": causal, "initializer_range": 0.3})


def test_an_encoder_has_at_least_one_block():
    with pytest.raises(ValueError, match="`num_layers` must be at least 1. Received: num_layers=0"):
        TransformerEncoder(**{**SMALL, "num_layers": 0})


def test_only_pre_norm_has_a_final_norm():
    assert TransformerEncoder(**SMALL, norm="pre").final_norm is not None
    assert TransformerEncoder(**SMALL, norm="input").final_norm is None


def test_saving_it_as_a_checkpoint_is_an_error(tmp_path):
    from keras_transfer.checkpoints import CheckpointError

    with pytest.raises(CheckpointError, match=r"'BertEncoder'.*Received: TransformerEncoder"):
        TransformerEncoder(**SMALL).save_pretrained(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []
