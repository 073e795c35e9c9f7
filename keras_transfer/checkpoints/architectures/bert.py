"""BERT's checkpoints (Devlin et al. 2019)."""

import numpy as np

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.names import (
    BERT_FIXED,
    BERT_NAMES,
    BERT_SETTINGS,
    CLASSIFIER,
    SPAN,
    TOKENS,
    masked_lm,
    multiple_choice,
    pretraining,
)
from keras_transfer.encoders import BertEncoder
from keras_transfer.text import BertPreprocessor

# Transformers' BERT must have a segment table. This key in its configuration says that the encoder has none.
_NO_SEGMENTS = "keras_transfer_no_segments"
_SEGMENTS = "embeddings.token_type_embeddings.weight"

_MASKED_LM = masked_lm(
    "cls.predictions.",
    dense="transform.dense",
    norm="transform.LayerNorm",
    model_classes=("ForMaskedLM", "ForPreTraining"),
)

BERT = register_architecture(
    Architecture(
        model_type="bert",
        encoder_class=BertEncoder,
        settings=(*BERT_SETTINGS, ("num_segments", "type_vocab_size", 2)),
        **BERT_NAMES,
        preprocessor_class=BertPreprocessor,
        model_class="BertModel",
        prefix="bert.",
        heads={
            "masked_lm": _MASKED_LM,
            "pretraining": pretraining(_MASKED_LM, "cls.seq_relationship", arguments={"dropout": 0.0}),
            "classifier": CLASSIFIER,
            "tokens": TOKENS,
            "multiple_choice": multiple_choice(CLASSIFIER),
            "span": SPAN,
        },
        tied={
            "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        },
        fixed=BERT_FIXED,
        read=lambda found, config: {**found, "num_segments": 0} if _NO_SEGMENTS in config else found,
        write=lambda config, encoder: (
            config if encoder.num_segments else {**config, "type_vocab_size": 1, _NO_SEGMENTS: True}
        ),
        extra_tensors=lambda encoder: (
            {} if encoder.num_segments else {_SEGMENTS: np.zeros((1, encoder.hidden_dim), "float32")}
        ),
    )
)
