"""MPNet's checkpoints (Song et al. 2020)."""

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.names import (
    BERT_BLOCKS,
    BERT_EMBEDDINGS,
    BERT_SETTINGS,
    ROBERTA_HEADS,
    shift_positions,
)
from keras_transfer.encoders import MPNetEncoder

_ATTENTION = "encoder.layer.*.attention"

MPNET = register_architecture(
    Architecture(
        model_type="mpnet",
        encoder_class=MPNetEncoder,
        settings=BERT_SETTINGS,
        tensors={
            **BERT_EMBEDDINGS,
            "block_inputs": "encoder.relative_attention_bias",
            **BERT_BLOCKS,
            "blocks.*.attention.query_key_value": [f"{_ATTENTION}.attn.{part}" for part in "qkv"],
            "blocks.*.attention.output_dense": f"{_ATTENTION}.attn.o",
            "blocks.*.attention_norm": f"{_ATTENTION}.LayerNorm",
            "pooler": "pooler.dense",
        },
        model_class="MPNetModel",
        prefix="mpnet.",
        **ROBERTA_HEADS,
        optional=("pooler",),
        fixed={"pad_token_id": 1, "relative_attention_num_buckets": 32},
        **shift_positions(2),
    )
)
