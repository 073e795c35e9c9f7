"""The heads that several of Transformers' architectures share."""

import dataclasses
import operator

from keras_transfer.checkpoints.heads import Head

# The head of a language model is created with the settings of its encoder, and with biases.
AS_ENCODER = {name: operator.attrgetter(name) for name in ("activation", "layer_norm_epsilon")} | {"use_bias": True}
# A pooled output, dropout and a dense layer.
CLASSIFIER = Head(
    prefix="classifier.",
    model_classes=("ForSequenceClassification",),
    tensors={"logits": "classifier"},
    labels="classifier.weight",
    arguments={"pooling": "pooled", "hidden_activation": None},
    settings=(("dropout", "classifier_dropout", 0.1),),
)
TOKENS = Head(
    prefix="classifier.",
    model_classes=("ForTokenClassification",),
    tensors={"logits": "classifier"},
    labels="classifier.weight",
    arguments={"hidden_activation": None, "crf": False},
    settings=(("dropout", "classifier_dropout", 0.1),),
)
SPAN = Head(
    prefix="qa_outputs.",
    model_classes=("ForQuestionAnswering",),
    tensors={"logits": "qa_outputs"},
    arguments={"hidden_activation": None},
)


def masked_lm(prefix, dense="dense", norm="LayerNorm", bias="bias", **options):
    """Returns the head of a masked language model, given its prefix and the names of its layers.

    Args:
        prefix: String. Prefix of the names of its tensors.
        dense, norm, bias: Strings. The names of its layers and its bias, without the prefix.
        **options: Further arguments of `Head`.
    """
    names = {"head_dense": f"{prefix}{dense}", "head_norm": f"{prefix}{norm}", "logits.bias": f"{prefix}{bias}"}
    options = {"model_classes": ("ForMaskedLM",), "arguments": AS_ENCODER, **options}
    return Head(prefix=prefix, tensors=names, **options)


def two_layer_classifier(
    activation, hidden="classifier.dense", logits="classifier.out_proj", dropout="classifier_dropout"
):
    """Returns a classifier with a dense layer between the first token's vector and the logits.

    Args:
        activation: String. Activation of the dense layer.
        hidden, logits: Strings. Names of the two layers.
        dropout: String. Name of the dropout rate in the configuration.
    """
    return Head(
        prefix=tuple(dict.fromkeys(f"{name.partition('.')[0]}." for name in (hidden, logits))),
        model_classes=("ForSequenceClassification",),
        tensors={"hidden": hidden, "logits": logits},
        labels=f"{logits}.weight",
        arguments={"pooling": "first", "hidden_activation": activation, "hidden_norm": False},
        settings=(("dropout", dropout, 0.1),),
    )


def multiple_choice(classifier):
    """Returns the head of a model for multiple choice, given that of the classifier, which has more rows."""
    return dataclasses.replace(classifier, model_classes=("ForMultipleChoice",), labels=None)


# Of RoBERTa and MPNet.
ROBERTA_HEADS = {
    "heads": {
        "masked_lm": masked_lm("lm_head.", norm="layer_norm", arguments={**AS_ENCODER, "activation": "gelu"}),
        "classifier": two_layer_classifier("tanh"),
        "tokens": TOKENS,
        "multiple_choice": multiple_choice(CLASSIFIER),
        "span": SPAN,
    },
    "tied": {"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
}
