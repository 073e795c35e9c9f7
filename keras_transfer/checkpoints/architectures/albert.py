"""ALBERT's checkpoints, of both versions (Lan et al. 2020)."""

import dataclasses

from keras_transfer.checkpoints.architecture import Architecture, get_setting, register_architecture
from keras_transfer.checkpoints.names import (
    BERT_EMBEDDINGS,
    BERT_SETTINGS,
    CLASSIFIER,
    SPAN,
    TOKENS,
    masked_lm,
    multiple_choice,
    pretraining,
    with_defaults,
)
from keras_transfer.encoders import AlbertEncoder

_BLOCK = "encoder.albert_layer_groups.*.albert_layers.0"

_DROPOUT = "classifier_dropout_prob"
_MASKED_LM = masked_lm("predictions.", model_classes=("ForMaskedLM", "ForPreTraining"))
_CLASSIFIER = dataclasses.replace(CLASSIFIER, settings=(("dropout", _DROPOUT, 0.1),))


def _dropout_of_tokens(config):
    return get_setting(config, "hidden_dropout_prob", 0.0) if _DROPOUT in config else 0.1


ALBERT = register_architecture(
    Architecture(
        model_type="albert",
        encoder_class=AlbertEncoder,
        settings=(
            *with_defaults(BERT_SETTINGS, dropout=0.0, attention_dropout=0.0, activation="gelu_new"),
            ("num_segments", "type_vocab_size", 2),
            ("embedding_dim", "embedding_size", 128),
        ),
        tensors={
            **BERT_EMBEDDINGS,
            "embeddings_projection": "encoder.embedding_hidden_mapping_in",
            "blocks.*.attention.query_key_value": [f"{_BLOCK}.attention.{part}" for part in ("query", "key", "value")],
            "blocks.*.attention.output_dense": f"{_BLOCK}.attention.dense",
            "blocks.*.attention_norm": f"{_BLOCK}.attention.LayerNorm",
            "blocks.*.feed_forward.inner": f"{_BLOCK}.ffn",
            "blocks.*.feed_forward.outer": f"{_BLOCK}.ffn_output",
            "blocks.*.feed_forward_norm": f"{_BLOCK}.full_layer_layer_norm",
            "pooler": "pooler",
        },
        model_class="AlbertModel",
        prefix="albert.",
        heads={
            "masked_lm": _MASKED_LM,
            "pretraining": pretraining(_MASKED_LM, "sop_classifier.classifier", settings=(("dropout", _DROPOUT, 0.1),)),
            "classifier": _CLASSIFIER,
            "tokens": dataclasses.replace(TOKENS, settings=(("dropout", _DROPOUT, _dropout_of_tokens),)),
            "multiple_choice": multiple_choice(_CLASSIFIER),
            "span": SPAN,
        },
        tied={
            "predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "predictions.decoder.bias": "predictions.bias",
        },
        optional=("pooler",),
        fixed={"position_embedding_type": "absolute", "num_hidden_groups": 1, "inner_group_num": 1},
    )
)
