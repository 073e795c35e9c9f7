"""The checkpoints of BART (Lewis et al. 2020), mBART, Pegasus and Marian."""

import dataclasses
import logging

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.names import ACTIVATIONS, SPAN, two_layer_classifier
from keras_transfer.checkpoints.tensors import Layout, expect
from keras_transfer.encoders import Bart, BartSingleText, Marian, MBart, Pegasus

log = logging.getLogger("keras_transfer")

_SETTINGS = (
    ("vocabulary_size", "vocab_size", int),
    ("num_layers", "encoder_layers", int),
    ("num_heads", "encoder_attention_heads", int),
    ("hidden_dim", "d_model", int),
    ("intermediate_dim", "encoder_ffn_dim", int),
    ("num_decoder_layers", "decoder_layers", int),
    ("num_decoder_heads", "decoder_attention_heads", int),
    ("decoder_intermediate_dim", "decoder_ffn_dim", int),
    ("dropout", "dropout", 0.1),
    ("max_sequence_length", "max_position_embeddings", 1024),
    ("attention_dropout", "attention_dropout", 0.0),
    ("activation_dropout", "activation_dropout", 0.0),
    ("activation", "activation_function", "gelu", ACTIVATIONS),
    ("scale_embedding", "scale_embedding", False),
    ("initializer_range", "init_std", 0.02),
)
_TIED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
_OF_LOGITS = ("lm_head.", "final_logits_bias")
_OF_ONE_TEXT = {"classifier": "classification_head.", "span": "qa_outputs."}
_BIAS = Layout(lambda tensor: tensor[0], lambda array: array[None])


def _half(half):
    """Returns the table of the encoder or the decoder."""

    def attention(ours, theirs):
        parts = {"query_key_value": "qkv", "query": "q", "key_value": "kv"}
        return {
            **{
                f"{half}.blocks.*.{ours}.{name}": [f"{half}.layers.*.{theirs}.{part}_proj" for part in letters]
                for name, letters in parts.items()
            },
            f"{half}.blocks.*.{ours}.output_dense": f"{half}.layers.*.{theirs}.out_proj",
            f"{half}.blocks.*.{ours}_norm": f"{half}.layers.*.{theirs}_layer_norm",
        }

    return {
        f"{half}.position_embedding": f"{half}.embed_positions",
        f"{half}.embeddings_norm": f"{half}.layernorm_embedding",
        **attention("attention", "self_attn"),
        **attention("cross_attention", "encoder_attn"),
        f"{half}.blocks.*.feed_forward.inner": f"{half}.layers.*.fc1",
        f"{half}.blocks.*.feed_forward.outer": f"{half}.layers.*.fc2",
        f"{half}.blocks.*.feed_forward_norm": f"{half}.layers.*.final_layer_norm",
        f"{half}.final_norm": f"{half}.layer_norm",
    }


def _record(model_type, encoder_class, model_class, head_class="ForConditionalGeneration", **options):
    """Returns the record of one of these models, given its names."""
    layout = encoder_class.layout
    return Architecture(
        model_type=model_type,
        encoder_class=encoder_class,
        settings=_SETTINGS,
        tensors={"token_embedding": "shared", **_half("encoder"), **_half("decoder")},
        model_class=model_class,
        prefix="model.",
        heads={
            "seq2seq": Head(_OF_LOGITS, (head_class,), tensors={"logits.bias": ("final_logits_bias", _BIAS)}),
            **_OF_ONE_TEXT,
        },
        tied=dict.fromkeys(_TIED, "shared.weight"),
        ignored=() if layout["positions"] == "learned" else (r"embed_positions\.weight$",),
        fixed={
            "is_decoder": False,
            "tie_word_embeddings": True,
            "normalize_before": layout["norm"] == "pre",
            "add_final_layer_norm": layout["norm"] == "pre",
            "normalize_embedding": layout["embeddings_norm"],
            "static_position_embeddings": layout["positions"] == "sinusoidal",
        },
        synonyms={"num_attention_heads": "encoder_attention_heads"},
        write=lambda config, encoder: {**config, "eos_token_id": None, "is_encoder_decoder": True},
        **{"read": _read, **options},
    )


def _read(found, config):
    dropped = {f"{half}_layerdrop": config.get(f"{half}_layerdrop") for half in ("encoder", "decoder")}
    if dropped := {name: rate for name, rate in dropped.items() if rate}:
        log.warning(
            "LayerDrop is not supported: `fit` trains all blocks in each step. The configuration has %s", dropped
        )
    return found


def _read_marian(found, config):
    sizes = {"vocab_size": config["vocab_size"], "decoder_vocab_size": config.get("decoder_vocab_size")}
    shares = config.get("share_encoder_decoder_embeddings", True)
    rule = "A Marian model must have one vocabulary for both languages, with shared embeddings."
    fits = shares and sizes["decoder_vocab_size"] in (None, sizes["vocab_size"])
    expect(fits, rule, received=f"{sizes}, share_encoder_decoder_embeddings={shares}")
    return _read(found, config)


# The heads use the decoder's vectors, the classifier's head the vector of the last `</s>`, which ends each text.
_CLASSIFIER = two_layer_classifier(
    "tanh", "classification_head.dense", "classification_head.out_proj", ("dropout", "classifier_dropout", 0.0)
)
_CLASSIFIER = dataclasses.replace(_CLASSIFIER, arguments={**_CLASSIFIER.arguments, "pooling": "last"})
_WHOLE = _record("bart", Bart, "BartModel")
_SINGLE_TEXT = dataclasses.replace(
    _WHOLE,
    encoder_class=BartSingleText,
    settings=(*_SETTINGS, ("start_token", "decoder_start_token_id", 2)),
    heads={
        "seq2seq": _OF_LOGITS,
        "classifier": _CLASSIFIER,
        "span": dataclasses.replace(SPAN, prefix=_OF_ONE_TEXT["span"]),
    },
)
BART = register_architecture(dataclasses.replace(_WHOLE, part=_SINGLE_TEXT))
MBART = register_architecture(_record("mbart", MBart, "MBartModel"))
PEGASUS = register_architecture(_record("pegasus", Pegasus, "PegasusModel"))
MARIAN = register_architecture(_record("marian", Marian, "MarianModel", "MTModel", read=_read_marian))
