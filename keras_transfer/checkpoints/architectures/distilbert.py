"""DistilBERT's checkpoints (Sanh et al. 2019)."""

import dataclasses

from keras_transfer.checkpoints.architecture import Architecture, get_setting, register_architecture
from keras_transfer.checkpoints.names import (
    ACTIVATIONS,
    AS_ENCODER,
    BERT_EMBEDDINGS,
    SPAN,
    TOKENS,
    masked_lm,
    multiple_choice,
    two_layer_classifier,
)
from keras_transfer.encoders import DistilBertEncoder
from keras_transfer.text import BertPreprocessor

_BLOCK = "transformer.layer.*"
_CLASSIFIER = two_layer_classifier("relu", "pre_classifier", "classifier", ("dropout", "seq_classif_dropout", 0.2))


def _dropout_of_tokens(config):
    return get_setting(config, "dropout", 0.1)


DISTILBERT = register_architecture(
    Architecture(
        model_type="distilbert",
        encoder_class=DistilBertEncoder,
        settings=(
            ("vocabulary_size", "vocab_size", int),
            ("num_layers", "n_layers", int),
            ("num_heads", "n_heads", int),
            ("hidden_dim", "dim", int),
            ("intermediate_dim", "hidden_dim", int),
            ("dropout", "dropout", 0.1),
            ("max_sequence_length", "max_position_embeddings", 512),
            ("attention_dropout", "attention_dropout", 0.1),
            ("activation", "activation", "gelu", ACTIVATIONS),
            ("initializer_range", "initializer_range", 0.02),
        ),
        tensors={
            **BERT_EMBEDDINGS,
            "blocks.*.attention.query_key_value": [f"{_BLOCK}.attention.{part}_lin" for part in "qkv"],
            "blocks.*.attention.output_dense": f"{_BLOCK}.attention.out_lin",
            "blocks.*.attention_norm": f"{_BLOCK}.sa_layer_norm",
            "blocks.*.feed_forward.inner": f"{_BLOCK}.ffn.lin1",
            "blocks.*.feed_forward.outer": f"{_BLOCK}.ffn.lin2",
            "blocks.*.feed_forward_norm": f"{_BLOCK}.output_layer_norm",
        },
        preprocessor_class=BertPreprocessor,
        model_class="DistilBertModel",
        prefix="distilbert.",
        heads={
            "masked_lm": masked_lm(
                "vocab_",
                dense="transform",
                norm="layer_norm",
                bias="projector.bias",
                arguments={**AS_ENCODER, "layer_norm_epsilon": 1e-12},
            ),
            "classifier": _CLASSIFIER,
            "tokens": dataclasses.replace(TOKENS, settings=(("dropout", "classifier_dropout", _dropout_of_tokens),)),
            "multiple_choice": multiple_choice(_CLASSIFIER),
            "span": dataclasses.replace(SPAN, settings=(("dropout", "qa_dropout", 0.1),)),
        },
        tied={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
    )
)
