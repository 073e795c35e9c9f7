"""RoBERTa's checkpoints, and those of XLM-R and CamemBERT."""

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.head_names import AS_ENCODER, TOKENS, masked_lm, two_layer_classifier
from keras_transfer.checkpoints.names import BERT_FIXED, BERT_NAMES, BERT_SETTINGS, shift_positions
from keras_transfer.encoders import RobertaEncoder
from keras_transfer.text import TokenPreprocessor

ROBERTA = register_architecture(
    Architecture(
        model_type="roberta",
        aliases=("xlm-roberta", "camembert"),
        encoder_class=RobertaEncoder,
        settings=BERT_SETTINGS,
        **BERT_NAMES,
        preprocessor_class=TokenPreprocessor,
        model_class="RobertaModel",
        prefix="roberta.",
        heads={
            "masked_lm": masked_lm("lm_head.", norm="layer_norm", arguments={**AS_ENCODER, "activation": "gelu"}),
            "classifier": two_layer_classifier("tanh"),
            "tokens": TOKENS,
            "span": "qa_outputs.",
        },
        tied={"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
        fixed={**BERT_FIXED, "type_vocab_size": 1, "pad_token_id": 1},
        **shift_positions(2),
    )
)
