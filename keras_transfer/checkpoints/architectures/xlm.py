"""XLM's checkpoints (Conneau and Lample 2019)."""

import dataclasses

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.names import SPAN, TOKENS, check_width
from keras_transfer.encoders import XlmEncoder

_ATTENTION = "attentions.*"


def _read(found, config):
    return found if config.get("use_lang_emb", True) else {**found, "num_languages": 1}


def _write(config, encoder):
    check_width(encoder)
    return {**config, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


XLM = register_architecture(
    Architecture(
        model_type="xlm",
        encoder_class=XlmEncoder,
        settings=(
            ("vocabulary_size", "vocab_size", lambda config: config.get("n_words", 30145)),
            ("num_layers", "n_layers", int),
            ("num_heads", "n_heads", int),
            ("hidden_dim", "emb_dim", int),
            ("num_languages", "n_langs", 1),
            ("dropout", "dropout", 0.1),
            ("max_sequence_length", "max_position_embeddings", 512),
            ("attention_dropout", "attention_dropout", 0.1),
            ("activation", "gelu_activation", True, {True: "gelu", False: "relu"}),
            ("causal", "causal", False),
            ("train_positions", "sinusoidal_embeddings", False, {False: True, True: False}),
            ("layer_norm_epsilon", "layer_norm_eps", 1e-12),
            ("initializer_range", "init_std", 0.02),
        ),
        tensors={
            "token_embedding": "embeddings",
            "position_embedding": "position_embeddings",
            "language_embedding": "lang_embeddings",
            "embeddings_norm": "layer_norm_emb",
            "blocks.*.attention.query_key_value": [f"{_ATTENTION}.{part}_lin" for part in "qkv"],
            "blocks.*.attention.output_dense": f"{_ATTENTION}.out_lin",
            "blocks.*.attention_norm": "layer_norm1.*",
            "blocks.*.feed_forward.inner": "ffns.*.lin1",
            "blocks.*.feed_forward.outer": "ffns.*.lin2",
            "blocks.*.feed_forward_norm": "layer_norm2.*",
        },
        preprocessor_class=None,
        model_class="XLMModel",
        prefix="transformer.",
        heads={
            "masked_lm": "pred_layer.",
            "classifier": Head(
                prefix="sequence_summary.",
                model_classes=("ForSequenceClassification",),
                tensors={"logits": "sequence_summary.summary"},
                labels="sequence_summary.summary.weight",
                arguments={"pooling": "first", "hidden_activation": None},
                settings=(("dropout", "summary_first_dropout", 0.1),),
                fixed={"summary_type": "first", "summary_use_proj": True, "summary_activation": None},
            ),
            "tokens": dataclasses.replace(TOKENS, settings=(("dropout", "dropout", 0.1),)),
            "span": dataclasses.replace(SPAN, model_classes=("ForQuestionAnsweringSimple",)),
        },
        tied={"pred_layer.proj.weight": "embeddings.weight"},
        fixed={"is_encoder": True},
        read=_read,
        write=_write,
    )
)
