"""Tables of names that several of Transformers' architectures share."""

from typing import Any

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
BERT_SETTINGS = (
    ("vocabulary_size", "vocab_size", int),
    ("num_layers", "num_hidden_layers", int),
    ("num_heads", "num_attention_heads", int),
    ("hidden_dim", "hidden_size", int),
    ("intermediate_dim", "intermediate_size", int),
    ("dropout", "hidden_dropout_prob", 0.1),
    ("max_sequence_length", "max_position_embeddings", 512),
    ("attention_dropout", "attention_probs_dropout_prob", 0.1),
    ("activation", "hidden_act", "gelu", ACTIVATIONS),
    ("layer_norm_epsilon", "layer_norm_eps", 1e-12),
    ("initializer_range", "initializer_range", 0.02),
)
BERT_EMBEDDINGS = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "segment_embedding": "embeddings.token_type_embeddings",
    "embeddings_norm": "embeddings.LayerNorm",
}
_SELF = "encoder.layer.*.attention.self"
BERT_BLOCKS = {
    "blocks.*.attention.query_key_value": [f"{_SELF}.query", f"{_SELF}.key", f"{_SELF}.value"],
    "blocks.*.attention.output_dense": "encoder.layer.*.attention.output.dense",
    "blocks.*.attention_norm": "encoder.layer.*.attention.output.LayerNorm",
    "blocks.*.feed_forward.inner": "encoder.layer.*.intermediate.dense",
    "blocks.*.feed_forward.outer": "encoder.layer.*.output.dense",
    "blocks.*.feed_forward_norm": "encoder.layer.*.output.LayerNorm",
}
BERT_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
POSITION_IDS = r"position_ids$"  # 0, 1, 2, ...
BERT_NAMES: dict[str, Any] = {
    "tensors": {**BERT_EMBEDDINGS, **BERT_BLOCKS, "pooler": "pooler.dense"},
    "ignored": (POSITION_IDS,),
    "renamed": {r"LayerNorm\.gamma$": "LayerNorm.weight", r"LayerNorm\.beta$": "LayerNorm.bias"},
    "optional": ("pooler",),
}


def with_defaults(settings, **defaults):
    """Returns a table of settings with other values for keys that a configuration lacks."""
    return tuple(
        (argument, key, defaults.get(argument, default), *names) for argument, key, default, *names in settings
    )


def shift_positions(rows):
    """Returns `read` and `write` of an architecture whose first `rows` rows of the position table are unused.

    Transformers counts them as positions.
    """

    def read(found, config):
        return {**found, "max_sequence_length": found["max_sequence_length"] - rows}

    def write(config, encoder):
        return {**config, "max_position_embeddings": config["max_position_embeddings"] + rows}

    return {"read": read, "write": write}
