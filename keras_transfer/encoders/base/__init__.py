"""The encoder protocol, and the Transformer stack that carries it out."""

from keras_transfer.encoders.base.encoder import Encoder, constructor_settings, encode, select_inputs
from keras_transfer.encoders.base.id_checks import check_ids
from keras_transfer.encoders.base.running import StackLayers, embed, groups_of, run_blocks, step
from keras_transfer.encoders.base.stack import TransformerStack
from keras_transfer.encoders.base.wiring import make_blocks, make_embeddings, make_pooler

__all__ = [
    "Encoder",
    "StackLayers",
    "TransformerStack",
    "check_ids",
    "constructor_settings",
    "embed",
    "encode",
    "groups_of",
    "make_blocks",
    "make_embeddings",
    "make_pooler",
    "run_blocks",
    "select_inputs",
    "step",
]
