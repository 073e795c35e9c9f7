"""GPT-2's checkpoints (Radford et al. 2019)."""

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.names import ACTIVATIONS
from keras_transfer.encoders import GPT2Encoder

GPT_SETTINGS = (
    ("vocabulary_size", "vocab_size", int),
    ("num_layers", "n_layer", int),
    ("num_heads", "n_head", int),
    ("hidden_dim", "n_embd", int),
    ("dropout", "resid_pdrop", 0.1),
    ("embeddings_dropout", "embd_pdrop", 0.1),
    ("attention_dropout", "attn_pdrop", 0.1),
    ("layer_norm_epsilon", "layer_norm_epsilon", 1e-5),
    ("initializer_range", "initializer_range", 0.02),
)
_DENSE = {
    "attention.query_key_value": "attn.c_attn",
    "attention.output_dense": "attn.c_proj",
    "feed_forward.inner": "mlp.c_fc",
    "feed_forward.outer": "mlp.c_proj",
}
_PARTS = {"kernel": "weight", "bias": "bias"}
GPT_BLOCKS = {
    # Each variable by itself, because OpenAI's kernels are not transposed.
    **{
        f"blocks.*.{ours}.{part}": f"h.*.{theirs}.{suffix}"
        for ours, theirs in _DENSE.items()
        for part, suffix in _PARTS.items()
    },
    "blocks.*.attention_norm": "h.*.ln_1",
    "blocks.*.feed_forward_norm": "h.*.ln_2",
}
GPT_HEADS = {
    "causal_lm": Head("lm_head.", ("LMHeadModel",), tensors={}, arguments={"tied": True, "use_bias": False}),
    "multiple_choice": "multiple_choice_head.",
    "classifier": "score.",
}
_SPEAKERS = "keras_transfer_speakers"  # In Transformers, they are arguments of the call (`token_type_ids`).


def read_gpt(found, config):
    """Returns the arguments with the speakers, and with the usual width of the feed-forward networks if none is set."""
    width = found.get("intermediate_dim") or 4 * found["hidden_dim"]
    return {**found, "intermediate_dim": width, "speakers": config.get(_SPEAKERS)}


def write_gpt(config, encoder):
    """Returns the configuration with the speakers, if there are any, and without ids of special tokens."""
    config = {**config, "bos_token_id": None, "eos_token_id": None}  # Transformers' defaults: OpenAI's vocabulary.
    return config if encoder.speakers is None else {**config, _SPEAKERS: list(encoder.speakers)}


GPT2 = register_architecture(
    Architecture(
        model_type="gpt2",
        encoder_class=GPT2Encoder,
        settings=(
            *GPT_SETTINGS,
            ("intermediate_dim", "n_inner", 0),
            ("max_sequence_length", "n_positions", 1024),
            ("activation", "activation_function", "gelu_new", ACTIVATIONS),
        ),
        tensors={"token_embedding": "wte", "position_embedding": "wpe", **GPT_BLOCKS, "final_norm": "ln_f"},
        model_class="GPT2Model",
        prefix="transformer.",
        heads={**GPT_HEADS, "tokens": "classifier.", "span": "qa_outputs."},
        tied={"lm_head.weight": "wte.weight"},
        ignored=(r"\.attn\.(masked_)?bias$",),  # the causal mask
        fixed={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
        read=read_gpt,
        write=write_gpt,
    )
)
