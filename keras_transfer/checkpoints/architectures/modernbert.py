"""ModernBERT's checkpoints (Warner et al. 2024)."""

import dataclasses

import numpy as np

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.names import ACTIVATIONS, AS_ENCODER, multiple_choice
from keras_transfer.checkpoints.tensors import Layout, expect, reading
from keras_transfer.encoders import ModernBertEncoder

_KINDS = ("full_attention", "sliding_attention")  # of blocks, in newer configurations
_BASES = ("rotary_base", "local_rotary_base")
_THETAS = ("global_rope_theta", "local_rope_theta")


_POOLINGS = {"cls": "first", "mean": "mean"}
_HIDDEN = ("hidden_activation", "classifier_activation", "gelu", ACTIVATIONS)
_DROPOUT = ("dropout", "classifier_dropout", 0.0)
# Both classifiers: a dense layer with a norm, as in the head of the language model, and one more dense layer.
_CLASSIFIER = Head(
    prefix=("head.", "classifier."),
    model_classes=("ForSequenceClassification",),
    tensors={"hidden": "head.dense", "hidden_norm": "head.norm", "logits": "classifier"},
    labels="classifier.weight",
    arguments={"hidden_norm": True},
    settings=(("pooling", "classifier_pooling", "cls", _POOLINGS), _HIDDEN, _DROPOUT),
    fixed={"classifier_bias": False},
)


def _transpose_halves(tensor):
    return np.concatenate([half.T for half in np.split(tensor, 2)])


def _read(found, config):
    """Also reads newer configurations, which list the kinds of blocks and the positions of each kind."""
    with reading("The configuration"):
        kinds = config.get("layer_types")
        if kinds is not None:
            every = kinds.index(_KINDS[0], 1) if _KINDS[0] in kinds[1:] else max(len(kinds), 1)
            rule = (
                f"`layer_types` must begin with {_KINDS[0]!r} and repeat it at regular intervals, once for each of the "
                f"{found['num_layers']} blocks."
            )
            regular = [_KINDS[i % every > 0] for i in range(found["num_layers"])]
            expect(kinds == regular, rule, received=f"layer_types={kinds}")
            found = {**found, "global_attention_every": every}
        for name, kind in zip(_BASES, _KINDS):
            found = {**found, name: config.get("rope_parameters", {}).get(kind, {}).get("rope_theta", found[name])}
    return {**found, "window": found["window"] // 2}


def _write(config, encoder):
    positions = {kind: {"rope_type": "default", "rope_theta": config[key]} for kind, key in zip(_KINDS, _THETAS)}
    # Transformers' default for the padding id is too large for small vocabularies.
    kinds = [_KINDS[i % encoder.global_attention_every > 0] for i in range(encoder.num_layers)]
    found = {"local_attention": 2 * encoder.window, "rope_parameters": positions, "layer_types": kinds}
    return {**config, **found, "pad_token_id": None}


MODERN_BERT = register_architecture(
    Architecture(
        model_type="modernbert",
        encoder_class=ModernBertEncoder,
        settings=(
            ("vocabulary_size", "vocab_size", int),
            ("num_layers", "num_hidden_layers", int),
            ("num_heads", "num_attention_heads", int),
            ("hidden_dim", "hidden_size", int),
            ("intermediate_dim", "intermediate_size", int),
            ("dropout", "mlp_dropout", 0.0),
            ("max_sequence_length", "max_position_embeddings", 8192),
            ("window", "local_attention", 128),
            ("global_attention_every", "global_attn_every_n_layers", 3),
            *zip(_BASES, _THETAS, (160000.0, 10000.0)),
            ("embeddings_dropout", "embedding_dropout", 0.0),
            ("attention_dropout", "attention_dropout", 0.0),
            ("activation", "hidden_activation", "gelu", ACTIVATIONS),
            ("layer_norm_epsilon", "norm_eps", 1e-5),
            ("initializer_range", "initializer_range", 0.02),
        ),
        tensors={
            "token_embedding": "embeddings.tok_embeddings",
            "embeddings_norm": "embeddings.norm",
            "blocks.*.attention_norm": "layers.*.attn_norm",
            "blocks.*.attention.query_key_value": "layers.*.attn.Wqkv",
            "blocks.*.attention.output_dense": "layers.*.attn.Wo",
            "blocks.*.feed_forward_norm": "layers.*.mlp_norm",
            ("blocks.*.feed_forward.gate.kernel", "blocks.*.feed_forward.inner.kernel"): (
                "layers.*.mlp.Wi.weight",
                Layout(_transpose_halves, _transpose_halves),
            ),
            "blocks.*.feed_forward.outer": "layers.*.mlp.Wo",
            "final_norm": "final_norm",
        },
        model_class="ModernBertModel",
        prefix="model.",
        heads={
            "masked_lm": Head(
                prefix=("head.", "decoder."),
                model_classes=("ForMaskedLM",),
                tensors={"head_dense": "head.dense", "head_norm": "head.norm", "logits.bias": "decoder.bias"},
                arguments={"layer_norm_epsilon": AS_ENCODER["layer_norm_epsilon"], "use_bias": False},
                settings=(("activation", *_HIDDEN[1:]),),
                fixed={"decoder_bias": True, "classifier_bias": False},
            ),
            "classifier": _CLASSIFIER,
            "tokens": dataclasses.replace(
                _CLASSIFIER,
                model_classes=("ForTokenClassification",),
                arguments={"hidden_norm": True, "crf": False},
                settings=(_HIDDEN, _DROPOUT),
            ),
            "multiple_choice": multiple_choice(_CLASSIFIER),
            "span": dataclasses.replace(
                _CLASSIFIER, model_classes=("ForQuestionAnswering",), labels=None, settings=(_HIDDEN, _DROPOUT)
            ),
        },
        tied={"decoder.weight": "embeddings.tok_embeddings.weight"},
        fixed={
            "attention_bias": False,
            "mlp_bias": False,
            "norm_bias": False,
            "rope_scaling": None,
            **{f"rope_parameters.{kind}.rope_type": "default" for kind in _KINDS},
        },
        read=_read,
        write=_write,
    )
)
