"""One step of generation: the scores of the next tokens, what constrains them, and what checkpoints say of both."""

from keras_transfer.generation.decoding.decoder import Decoder, extend, repeat_rows, take_rows, write
from keras_transfer.generation.decoding.defaults import OF_SAMPLERS, generation_defaults, log_unused

__all__ = [
    "OF_SAMPLERS",
    "Decoder",
    "extend",
    "generation_defaults",
    "log_unused",
    "repeat_rows",
    "take_rows",
    "write",
]
