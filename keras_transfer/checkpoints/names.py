"""The names of settings, tensors and heads that several of Transformers' architectures share."""

import dataclasses
import operator
from typing import Any

from keras_transfer.checkpoints.architecture import get_setting
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.tensors import expect

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
BERT_SETTINGS = (
    ("vocabulary_size", "vocab_size", int),
    ("num_layers", "num_hidden_layers", int),
    ("num_heads", "num_attention_heads", int),
    ("hidden_dim", "hidden_size", int),
    ("intermediate_dim", "intermediate_size", int),
    ("dropout", "hidden_dropout_prob", 0.1),
    ("max_sequence_length", "max_position_embeddings", 512),
    ("attention_dropout", "attention_probs_dropout_prob", 0.1),
    ("activation", "hidden_act", "gelu", ACTIVATIONS),
    ("layer_norm_epsilon", "layer_norm_eps", 1e-12),
    ("initializer_range", "initializer_range", 0.02),
)
BERT_EMBEDDINGS = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "segment_embedding": "embeddings.token_type_embeddings",
    "embeddings_norm": "embeddings.LayerNorm",
}
_SELF = "encoder.layer.*.attention.self"
BERT_BLOCKS = {
    "blocks.*.attention.query_key_value": [f"{_SELF}.query", f"{_SELF}.key", f"{_SELF}.value"],
    "blocks.*.attention.output_dense": "encoder.layer.*.attention.output.dense",
    "blocks.*.attention_norm": "encoder.layer.*.attention.output.LayerNorm",
    "blocks.*.feed_forward.inner": "encoder.layer.*.intermediate.dense",
    "blocks.*.feed_forward.outer": "encoder.layer.*.output.dense",
    "blocks.*.feed_forward_norm": "encoder.layer.*.output.LayerNorm",
}
BERT_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
BERT_NAMES: dict[str, Any] = {
    "tensors": {**BERT_EMBEDDINGS, **BERT_BLOCKS, "pooler": "pooler.dense"},
    "renamed": {r"LayerNorm\.gamma$": "LayerNorm.weight", r"LayerNorm\.beta$": "LayerNorm.bias"},
    "optional": ("pooler",),
}


def with_defaults(settings, **defaults):
    """Returns a table of settings with other values for keys that a configuration lacks."""
    return tuple(
        (argument, key, defaults.get(argument, default), *names) for argument, key, default, *names in settings
    )


def shift_positions(rows):
    """Returns `read` and `write` of an architecture whose first `rows` rows of the position table are unused.

    Transformers counts them as positions.
    """

    def read(found, config):
        return {**found, "max_sequence_length": found["max_sequence_length"] - rows}

    def write(config, encoder):
        return {**config, "max_position_embeddings": config["max_position_embeddings"] + rows}

    return {"read": read, "write": write}


def check_width(encoder):
    """Raises a `CheckpointError` for feed-forward networks of another width than the one that the originals have."""
    name, width, dim = type(encoder).__name__, encoder.intermediate_dim, encoder.hidden_dim
    rule = f"A checkpoint of {name} can be written only if `intermediate_dim` is 4 times `hidden_dim`."
    expect(width == 4 * dim, rule, received=f"intermediate_dim={width}, hidden_dim={dim}")


# The head of a language model is created with the settings of its encoder, and with biases.
AS_ENCODER = {name: operator.attrgetter(name) for name in ("activation", "layer_norm_epsilon")} | {"use_bias": True}


def classifier_dropout(config):
    """Returns the encoder's dropout rate, for a head whose configuration has none."""
    return get_setting(config, "hidden_dropout_prob", 0.1)


_DROPOUT = ("dropout", "classifier_dropout", classifier_dropout)

# A pooled output, dropout and a dense layer.
CLASSIFIER = Head(
    prefix="classifier.",
    model_classes=("ForSequenceClassification",),
    tensors={"logits": "classifier"},
    labels="classifier.weight",
    arguments={"pooling": "pooled", "hidden_activation": None},
    settings=(_DROPOUT,),
)
TOKENS = Head(
    prefix="classifier.",
    model_classes=("ForTokenClassification",),
    tensors={"logits": "classifier"},
    labels="classifier.weight",
    arguments={"hidden_activation": None, "crf": False},
    settings=(_DROPOUT,),
)
SPAN = Head(
    prefix="qa_outputs.",
    model_classes=("ForQuestionAnswering",),
    tensors={"logits": "qa_outputs"},
    arguments={"hidden_activation": None},
)


def masked_lm(prefix, dense="dense", norm="LayerNorm", bias="bias", **options):
    """Returns the head of a masked language model, given its prefix and the names of its layers."""
    names = {"head_dense": f"{prefix}{dense}", "head_norm": f"{prefix}{norm}", "logits.bias": f"{prefix}{bias}"}
    options = {"model_classes": ("ForMaskedLM",), "arguments": AS_ENCODER, **options}
    return Head(prefix=prefix, tensors=names, **options)


def pretraining(masked, pair, **options):
    """Returns the two heads of BERT's pretraining, given the masked language model's and the layer for pairs."""
    arguments = {name: value for name, value in masked.arguments.items() if name != "use_bias"}
    return dataclasses.replace(
        masked,
        prefix=(masked.prefix, f"{pair}."),
        model_classes=("ForPreTraining",),
        tensors={**masked.tensors, "pair_logits": pair},
        arguments={**arguments, **options.pop("arguments", {})},
        by_tensors=True,  # The configuration of bert-base-uncased names the class of a masked language model.
        **options,
    )


def two_layer_classifier(activation, hidden="classifier.dense", logits="classifier.out_proj", dropout=_DROPOUT):
    """Returns a classifier with a dense layer between the first token's vector and the logits."""
    return Head(
        prefix=tuple(dict.fromkeys(f"{name.partition('.')[0]}." for name in (hidden, logits))),
        model_classes=("ForSequenceClassification",),
        tensors={"hidden": hidden, "logits": logits},
        labels=f"{logits}.weight",
        arguments={"pooling": "first", "hidden_activation": activation, "hidden_norm": False},
        settings=(dropout,),
    )


def summary(pooling, activation):
    """Returns `settings` and `fixed` of a head that reads Transformers' `SequenceSummary`.

    Args:
        pooling: String. The pooling of the original's default, and the only one that ignores padding.
    """
    return {
        "settings": (
            ("pooling", "summary_type", pooling, {pooling: pooling}),
            ("hidden_activation", "summary_activation", activation, {**ACTIVATIONS, "tanh": "tanh"}),
            ("dropout", "summary_last_dropout", 0.1),
        ),
        "fixed": {"summary_use_proj": True},
    }


def multiple_choice(classifier):
    """Returns the head of a multiple-choice model, given the classifier's head, which has more rows."""
    return dataclasses.replace(classifier, model_classes=("ForMultipleChoice",), labels=None)


# The heads of RoBERTa and MPNet.
ROBERTA_HEADS: dict[str, Any] = {
    "heads": {
        "masked_lm": masked_lm("lm_head.", norm="layer_norm", arguments={**AS_ENCODER, "activation": "gelu"}),
        "classifier": two_layer_classifier("tanh"),
        "tokens": TOKENS,
        "multiple_choice": multiple_choice(CLASSIFIER),
        "span": SPAN,
    },
    "tied": {"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
}
