"""The checkpoints of DeBERTa v2 and v3 (He et al. 2021)."""

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.names import (
    ACTIVATIONS,
    BERT_BLOCKS,
    BERT_EMBEDDINGS,
    BERT_SETTINGS,
    SPAN,
    TOKENS,
    classifier_dropout,
    masked_lm,
    multiple_choice,
    with_defaults,
)
from keras_transfer.checkpoints.tensors import expect, reading
from keras_transfer.encoders import DebertaV2Encoder

_SELF = "encoder.layer.*.attention.self"
_NORMS = {"layer_norm": True, "none": False}
_ACTIVATIONS = {**ACTIVATIONS, "tanh": "tanh"}
_MASKED_LM = "lm_predictions.lm_head."


def _read(found, config):
    """Rejects other kinds of attention, whose settings have defaults that depend on each other."""
    with reading("The configuration"):
        length, dim = found["max_sequence_length"], found["hidden_dim"]
        kinds = config.get("pos_att_type") or []
        kinds = kinds.lower().split("|") if isinstance(kinds, str) else kinds
        problems = {
            "pos_att_type": {*kinds} != {"c2p", "p2c"},
            "position_biased_input": config.get("position_biased_input", True),
            "max_relative_positions": config.get("max_relative_positions", -1) not in (-1, length),
            "embedding_size": config.get("embedding_size", dim) != dim,
        }
        wrong = {key: config.get(key) for key, is_wrong in problems.items() if is_wrong}
        rule = (
            "The configuration does not match DebertaV2Encoder. Expected pos_att_type='p2c|c2p', "
            "position_biased_input=false, `max_relative_positions` of -1 or as `max_position_embeddings`, and "
            "`embedding_size` as `hidden_size`."
        )
        expect(not wrong, rule, received=wrong)
    return {**found, "num_buckets": max(found["num_buckets"], 0)}


def _write(config, encoder):
    kinds = {"pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "max_relative_positions": -1}
    return {**config, **kinds, "position_buckets": encoder.num_buckets or -1}


_CLASSIFIER = Head(
    prefix=("pooler.", "classifier."),
    model_classes=("ForSequenceClassification",),
    tensors={"hidden": "pooler.dense", "logits": "classifier"},
    labels="classifier.weight",
    arguments={"pooling": "first", "hidden_norm": False},
    settings=(
        ("hidden_activation", "pooler_hidden_act", "gelu", _ACTIVATIONS),
        ("dropout", "cls_dropout", classifier_dropout),
    ),
)

DEBERTA_V2 = register_architecture(
    Architecture(
        model_type="deberta-v2",
        encoder_class=DebertaV2Encoder,
        settings=(
            *with_defaults(BERT_SETTINGS, layer_norm_epsilon=1e-7),
            ("num_buckets", "position_buckets", -1),
            ("conv_kernel_size", "conv_kernel_size", 0),
            ("conv_activation", "conv_act", "tanh", _ACTIVATIONS),
            ("distance_norm", "norm_rel_ebd", "none", _NORMS),
        ),
        tensors={
            **{path: BERT_EMBEDDINGS[path] for path in ("token_embedding", "embeddings_norm")},
            **BERT_BLOCKS,
            "blocks.*.attention.query_key_value": [f"{_SELF}.{name}_proj" for name in ("query", "key", "value")],
            "blocks.0.conv": "encoder.conv.conv",
            "blocks.0.conv_norm": "encoder.conv.LayerNorm",
            "block_inputs.embeddings": "encoder.rel_embeddings.weight",
            "block_inputs.norm": "encoder.LayerNorm",
        },
        model_class="DebertaV2Model",
        prefix="deberta.",
        heads={
            "masked_lm": masked_lm(_MASKED_LM, written={"legacy": False}),
            "masked_lm_positions": "embeddings.position_embeddings.",
            "replaced_token": "mask_predictions.",
            "classifier": _CLASSIFIER,
            "tokens": TOKENS,
            "multiple_choice": multiple_choice(_CLASSIFIER),
            "span": SPAN,
        },
        tied={
            f"{_MASKED_LM}decoder.weight": "embeddings.word_embeddings.weight",
            f"{_MASKED_LM}decoder.bias": f"{_MASKED_LM}bias",
        },
        # The "legacy" head computes the same under other names.
        renamed={r"^cls\.predictions\.(transform\.)?": _MASKED_LM},
        fixed={"relative_attention": True, "share_att_key": True, "type_vocab_size": 0, "conv_groups": 1},
        assumed={"relative_attention": False, "share_att_key": False},
        read=_read,
        write=_write,
    )
)
