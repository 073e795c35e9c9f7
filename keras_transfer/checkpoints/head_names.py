"""The heads that several of Transformers' architectures share."""

import dataclasses
import operator
from typing import Any

from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.settings import get_setting
from keras_transfer.checkpoints.tensor_names import ACTIVATIONS

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
