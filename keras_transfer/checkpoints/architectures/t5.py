"""The checkpoints of T5 (Raffel et al. 2020), T5 1.1, FLAN-T5, mT5 and ByT5."""

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.tensors import expect
from keras_transfer.encoders import T5, T5Encoder

_FEED_FORWARD = {  # `feed_forward_proj`: whether the network is gated, and its activation
    "relu": (False, "relu"),
    "gelu": (False, "gelu"),
    "gated-gelu": (True, "gelu_tanh"),
    "gated-silu": (True, "silu"),
}
_IN_TRANSFORMERS = {  # The same values as `is_gated_act` and `dense_act_fn`.
    "relu": (False, "relu"),
    "gelu": (False, "gelu"),
    "gated-gelu": (True, "gelu_new"),
    "gated-silu": (True, "silu"),
}
_SETTINGS = (
    ("vocabulary_size", "vocab_size", int),
    ("num_layers", "num_layers", int),
    ("num_heads", "num_heads", int),
    ("hidden_dim", "d_model", int),
    ("intermediate_dim", "d_ff", int),
    ("head_dim", "d_kv", 64),
    ("dropout", "dropout_rate", 0.1),
    ("num_buckets", "relative_attention_num_buckets", 32),
    ("max_distance", "relative_attention_max_distance", 128),
    ("layer_norm_epsilon", "layer_norm_epsilon", 1e-6),
    ("initializer_factor", "initializer_factor", 1.0),
)
_TIED = {f"{name}.weight": "shared.weight" for name in ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head")}


def _half(ours, theirs, decoder=False):
    """Returns the table of the encoder or the decoder, given what our and their names begin with."""
    blocks, layers = f"{ours}blocks.*", f"{theirs}.block.*.layer"
    last = f"{layers}.{2 if decoder else 1}"
    table = {
        f"{ours}block_inputs": f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias",
        f"{blocks}.attention.query_key_value": [f"{layers}.0.SelfAttention.{part}" for part in "qkv"],
        f"{blocks}.attention.output_dense": f"{layers}.0.SelfAttention.o",
        f"{blocks}.attention_norm.scale": f"{layers}.0.layer_norm.weight",
        f"{blocks}.feed_forward.gate": f"{last}.DenseReluDense.wi_0",
        f"{blocks}.feed_forward.inner": lambda model: f"{last}.DenseReluDense.{'wi_1' if model.gated else 'wi'}",
        f"{blocks}.feed_forward.outer": f"{last}.DenseReluDense.wo",
        f"{blocks}.feed_forward_norm.scale": f"{last}.layer_norm.weight",
        f"{ours}final_norm.scale": f"{theirs}.final_layer_norm.weight",
    }
    if decoder:
        table |= {
            f"{blocks}.cross_attention.query": f"{layers}.1.EncDecAttention.q",
            f"{blocks}.cross_attention.key_value": [f"{layers}.1.EncDecAttention.{part}" for part in "kv"],
            f"{blocks}.cross_attention.output_dense": f"{layers}.1.EncDecAttention.o",
            f"{blocks}.cross_attention_norm.scale": f"{layers}.1.layer_norm.weight",
        }
    return table


def _read_encoder(found, config):
    name = config.get("feed_forward_proj", "relu")
    expect(name in _FEED_FORWARD, f"`feed_forward_proj` must be one of {sorted(_FEED_FORWARD)}.", name)
    for key, wanted in zip(("is_gated_act", "dense_act_fn"), _IN_TRANSFORMERS[name]):
        value = config.get(key, wanted)  # Transformers derives them, but a value in the file counts.
        rule = f"`{key}` must be {wanted!r}, as in `feed_forward_proj`."
        expect(value == wanted, rule, received=f"{key}={value!r} and feed_forward_proj={name!r}")
    gated, activation = _FEED_FORWARD[name]
    return {**found, "gated": gated, "activation": activation}


def _read(found, config):
    # mT5 never scales. Files from before Transformers 5 say with `tie_word_embeddings` whether T5 does.
    scales = config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False)
    return {**_read_encoder(found, config), "scale_outputs": scales and config.get("model_type") != "mt5"}


def _write_encoder(config, model):
    names = {value: name for name, value in _FEED_FORWARD.items()}
    rule = f"A T5 checkpoint can contain the feed-forward networks {list(names)} (gated, activation)."
    expect((model.gated, model.activation) in names, rule, (model.gated, model.activation))
    return {
        **config,
        "feed_forward_proj": names[model.gated, model.activation],
        "is_encoder_decoder": False,
        "eos_token_id": None,
    }


def _write(config, model):
    scales = model.scale_outputs
    return {
        **_write_encoder(config, model),
        "is_encoder_decoder": True,
        "scale_decoder_outputs": scales,
        "tie_word_embeddings": scales,
    }


T5_ENCODER = Architecture(
    model_type="t5",
    encoder_class=T5Encoder,
    settings=_SETTINGS,
    tensors={"token_embedding": "shared", **_half("", "encoder")},
    model_class="T5EncoderModel",
    heads={"decoder": "decoder.", "seq2seq": "lm_head."},
    tied=_TIED,
    fixed={"is_decoder": False},
    synonyms={"num_attention_heads": "num_heads"},
    read=_read_encoder,
    write=_write_encoder,
)
T5_RECORD = register_architecture(
    Architecture(
        model_type="t5",
        encoder_class=T5,
        settings=(*_SETTINGS, ("num_decoder_layers", "num_decoder_layers", lambda config: config.get("num_layers"))),
        tensors={
            "token_embedding": "shared",
            **_half("encoder.", "encoder"),
            **_half("decoder.", "decoder", decoder=True),
        },
        aliases=("mt5",),
        part=T5_ENCODER,
        model_class="T5Model",
        heads={
            "seq2seq": Head(
                "lm_head.", ("ForConditionalGeneration",), tensors={"logits": "lm_head"}, own_table="lm_head.weight"
            ),
            "classifier": "classification_head.",
            "span": "qa_outputs.",
        },
        tied=_TIED,
        ignored=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
        fixed={"is_decoder": False},
        synonyms={"num_attention_heads": "num_heads"},
        read=_read,
        write=_write,
    )
)
