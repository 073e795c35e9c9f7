"""The checkpoints of RoBERTa, XLM-R and CamemBERT."""

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.names import BERT_FIXED, BERT_NAMES, BERT_SETTINGS, ROBERTA_HEADS, shift_positions
from keras_transfer.encoders import RobertaEncoder

ROBERTA = register_architecture(
    Architecture(
        model_type="roberta",
        aliases=("xlm-roberta", "camembert"),
        encoder_class=RobertaEncoder,
        settings=BERT_SETTINGS,
        **BERT_NAMES,
        model_class="RobertaModel",
        prefix="roberta.",
        **ROBERTA_HEADS,
        fixed={**BERT_FIXED, "type_vocab_size": 1, "pad_token_id": 1},
        assumed={"type_vocab_size": 2},
        **shift_positions(2),
    )
)
