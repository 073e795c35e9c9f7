"""XLNet's checkpoints (Yang et al. 2019)."""

import dataclasses

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.names import ACTIVATIONS, TOKENS, multiple_choice, summary
from keras_transfer.checkpoints.tensors import Layout
from keras_transfer.encoders import XLNetEncoder

_ATTENTION = "layer.*.rel_attn"


def _heads_apart(encoder):
    """Returns the layout of kernels [dim, heads * head_dim] that are stored as [dim, heads, head_dim]."""
    return Layout(
        lambda tensor: tensor.reshape(len(tensor), -1), lambda array: array.reshape(len(array), encoder.num_heads, -1)
    )


def _heads_apart_transposed(encoder):
    """Returns the layout of the output kernel [heads * head_dim, dim], also stored as [dim, heads, head_dim]."""
    layout = _heads_apart(encoder)
    return Layout(lambda tensor: layout.to_ours(tensor).T, lambda array: layout.to_theirs(array.T))


_CLASSIFIER = Head(
    prefix=("sequence_summary.", "logits_proj."),
    model_classes=("ForSequenceClassification",),
    tensors={"hidden": "sequence_summary.summary", "logits": "logits_proj"},
    labels="logits_proj.weight",
    arguments={"hidden_norm": False},
    **summary("last", "tanh"),
)

XLNET = register_architecture(
    Architecture(
        model_type="xlnet",
        encoder_class=XLNetEncoder,
        settings=(
            ("vocabulary_size", "vocab_size", int),
            ("num_layers", "n_layer", int),
            ("num_heads", "n_head", int),
            ("hidden_dim", "d_model", int),
            ("intermediate_dim", "d_inner", int),
            ("dropout", "dropout", 0.1),
            ("activation", "ff_activation", "gelu", ACTIVATIONS),
            ("layer_norm_epsilon", "layer_norm_eps", 1e-12),
            ("initializer_range", "initializer_range", 0.02),
        ),
        tensors={
            "token_embedding": "word_embedding",
            "streams.mask_embedding": "mask_emb",
            "blocks.*.attention.query_key_value.kernel": ([f"{_ATTENTION}.{part}" for part in "qkv"], _heads_apart),
            "blocks.*.attention.position.kernel": (f"{_ATTENTION}.r", _heads_apart),
            "blocks.*.attention.output_dense.kernel": (f"{_ATTENTION}.o", _heads_apart_transposed),
            "blocks.*.attention.content_bias": f"{_ATTENTION}.r_w_bias",
            "blocks.*.attention.position_bias": f"{_ATTENTION}.r_r_bias",
            "blocks.*.attention.segment_bias": f"{_ATTENTION}.r_s_bias",
            "blocks.*.attention.segment_embedding": f"{_ATTENTION}.seg_embed",
            "blocks.*.attention_norm": f"{_ATTENTION}.layer_norm",
            "blocks.*.feed_forward.inner": "layer.*.ff.layer_1",
            "blocks.*.feed_forward.outer": "layer.*.ff.layer_2",
            "blocks.*.feed_forward_norm": "layer.*.ff.layer_norm",
        },
        model_class="XLNetModel",
        prefix="transformer.",
        heads={
            "permutation_lm": Head("lm_loss.", ("LMHeadModel",), tensors={"logits.bias": "lm_loss.bias"}),
            "classifier": _CLASSIFIER,
            "tokens": dataclasses.replace(TOKENS, settings=(("dropout", "classifier_dropout", 0.0),)),
            "multiple_choice": multiple_choice(_CLASSIFIER),
            "span": "qa_outputs.",
            "span_start": "start_logits.",
            "span_end": "end_logits.",
            "span_answerable": "answer_class.",
        },
        tied={"lm_loss.weight": "word_embedding.weight"},
        fixed={"attn_type": "bi", "bi_data": False, "clamp_len": -1, "untie_r": True},
        write=lambda config, encoder: {**config, "d_head": encoder.hidden_dim // encoder.num_heads},
    )
)
