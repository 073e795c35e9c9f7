"""ELECTRA's checkpoints, of discriminators and generators (Clark et al. 2020)."""

import dataclasses

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.names import (
    AS_ENCODER,
    BERT_BLOCKS,
    BERT_EMBEDDINGS,
    BERT_FIXED,
    BERT_SETTINGS,
    SPAN,
    TOKENS,
    multiple_choice,
    summary,
    two_layer_classifier,
)
from keras_transfer.encoders import ElectraEncoder
from keras_transfer.text import BertPreprocessor

ELECTRA = register_architecture(
    Architecture(
        model_type="electra",
        encoder_class=ElectraEncoder,
        settings=(
            *BERT_SETTINGS,
            ("num_segments", "type_vocab_size", 2),
            ("embedding_dim", "embedding_size", 128),
        ),
        tensors={**BERT_EMBEDDINGS, "embeddings_projection": "embeddings_project", **BERT_BLOCKS},
        preprocessor_class=BertPreprocessor,
        model_class="ElectraModel",
        prefix="electra.",
        heads={
            "masked_lm": Head(
                prefix="generator_",
                model_classes=("ForMaskedLM",),
                tensors={
                    "head_dense": "generator_predictions.dense",
                    "head_norm": "generator_predictions.LayerNorm",
                    "logits.bias": "generator_lm_head.bias",
                },
                arguments={**AS_ENCODER, "activation": "gelu"},
            ),
            "replaced_token": Head(
                prefix="discriminator_predictions.",
                model_classes=("ForPreTraining",),
                tensors={
                    "head_dense": "discriminator_predictions.dense",
                    "logits": "discriminator_predictions.dense_prediction",
                },
                arguments={"activation": AS_ENCODER["activation"]},
            ),
            "classifier": two_layer_classifier("gelu"),
            "tokens": TOKENS,
            "multiple_choice": dataclasses.replace(
                multiple_choice(two_layer_classifier("gelu", "sequence_summary.summary", "classifier")),
                arguments={"hidden_norm": False},
                **summary("first", "gelu"),
            ),
            "span": SPAN,
            "choice_summary": "sequence_summary.",
        },
        tied={"generator_lm_head.weight": "embeddings.word_embeddings.weight"},
        fixed=BERT_FIXED,
    )
)
