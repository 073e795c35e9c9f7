"""BERT's checkpoints: its configuration and its tensors' names, as Hugging Face has them."""

import numpy as np

from keras_transfer.checkpoints.tensors import CheckpointError, Entry
from keras_transfer.encoders import BertEncoder

encoder_class = BertEncoder

# Weights of heads that were trained on top of the encoder, which an encoder has no use for.
HEAD_PREFIXES = ("cls.", "classifier.", "qa_outputs.")
POOLER_PREFIX = "pooler."

# Our name, theirs, and the value where a file does not say.
_CONFIG = (
    ("vocabulary_size", "vocab_size", None),
    ("num_layers", "num_hidden_layers", None),
    ("num_heads", "num_attention_heads", None),
    ("hidden_dim", "hidden_size", None),
    ("intermediate_dim", "intermediate_size", None),
    ("dropout", "hidden_dropout_prob", 0.1),
    ("max_sequence_length", "max_position_embeddings", 512),
    ("num_segments", "type_vocab_size", 2),
    ("attention_dropout", "attention_probs_dropout_prob", 0.1),
    ("layer_norm_epsilon", "layer_norm_eps", 1e-12),
    ("initializer_range", "initializer_range", 0.02),
)
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# What BertEncoder has no counterpart for: the only value that it can load.
_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}

# Ours in their configuration: the segment table that Transformers' model must have is not the encoder's.
_NO_SEGMENTS = "keras_transfer_no_segments"


def arguments(config, source):
    """Returns the constructor's arguments from a BERT configuration.

    Raises:
        CheckpointError: a size is missing, or a setting has no counterpart here.
    """
    if missing := [theirs for _, theirs, default in _CONFIG if default is None and theirs not in config]:
        raise CheckpointError(f"{source}: the configuration lacks {', '.join(missing)}. Received: {sorted(config)}")
    for key, value in _FIXED.items():
        if config.get(key, value) != value:
            raise CheckpointError(f"{source}: BertEncoder reads only {key}={value!r}. Received: {config[key]!r}")
    activation = config.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise CheckpointError(f"{source}: `hidden_act` must be one of {sorted(_ACTIVATIONS)}. Received: {activation!r}")
    values = {ours: config.get(theirs, default) for ours, theirs, default in _CONFIG}
    if wrong := {key: value for key, value in values.items() if not isinstance(value, (int, float))}:
        raise CheckpointError(f"{source}: sizes and rates in the configuration must be numbers. Received: {wrong}")
    if _NO_SEGMENTS in config:
        values["num_segments"] = 0
    return {**values, "activation": _ACTIVATIONS[activation]}


def configuration(encoder):
    """Returns the Hugging Face configuration of an encoder.

    Raises:
        CheckpointError: Transformers has no name for its activation.
    """
    names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    if encoder.activation not in names:
        raise CheckpointError(
            f"Transformers' BERT knows the activations {sorted(names)}. Received: {encoder.activation!r}"
        )
    ours = encoder.get_config()
    if ours["attention_dropout"] is None:
        ours["attention_dropout"] = ours["dropout"]
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        **{theirs: ours[name] for name, theirs, _ in _CONFIG},
        "type_vocab_size": max(encoder.num_segments, 1),
        "hidden_act": names[encoder.activation],
        "pad_token_id": 0,
        **({} if encoder.num_segments else {_NO_SEGMENTS: True}),
    }


def entries(encoder):
    """Returns an `Entry` for each variable."""
    table = [
        Entry(encoder.token_embedding.embeddings, ["embeddings.word_embeddings.weight"]),
        Entry(encoder.position_embedding.embeddings, ["embeddings.position_embeddings.weight"]),
        *_norm("embeddings.LayerNorm", encoder.embeddings_norm),
    ]
    if encoder.num_segments:
        table.append(Entry(encoder.segment_embedding.embeddings, ["embeddings.token_type_embeddings.weight"]))
    for i, block in enumerate(encoder.blocks):
        layer = f"encoder.layer.{i}"
        attention = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        table += [
            *_dense(attention, block.attention.query_key_value),
            *_dense([f"{layer}.attention.output.dense"], block.attention.output_dense),
            *_norm(f"{layer}.attention.output.LayerNorm", block.attention_norm),
            *_dense([f"{layer}.intermediate.dense"], block.feed_forward.inner),
            *_dense([f"{layer}.output.dense"], block.feed_forward.outer),
            *_norm(f"{layer}.output.LayerNorm", block.feed_forward_norm),
        ]
    return table + (_dense(["pooler.dense"], encoder.pooler) if encoder.pooler is not None else [])


def extra_tensors(encoder):
    """Returns tensors that Transformers' model needs and the encoder does not have: a segment table of zeros."""
    if encoder.num_segments:
        return {}
    return {"embeddings.token_type_embeddings.weight": np.zeros((1, encoder.hidden_dim), "float32")}


def _dense(names, layer):
    return [
        Entry(layer.kernel, [f"{name}.weight" for name in names], transpose=True),
        Entry(layer.bias, [f"{name}.bias" for name in names]),
    ]


def _norm(name, layer):
    return [Entry(layer.gamma, [f"{name}.weight"]), Entry(layer.beta, [f"{name}.bias"])]
