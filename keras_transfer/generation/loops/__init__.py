"""The loops that continue prompts: compiled, exported, in batches of few shapes, and until a stop string."""

from keras_transfer.generation.loops.continuations import Continuations, TokenStream, cut, text_of
from keras_transfer.generation.loops.exported import ExportedLoop
from keras_transfer.generation.loops.generator import PROMPT_STEP, Generator, round_up
from keras_transfer.generation.loops.stops import stop_table

__all__ = [
    "PROMPT_STEP",
    "Continuations",
    "ExportedLoop",
    "Generator",
    "TokenStream",
    "cut",
    "round_up",
    "stop_table",
    "text_of",
]
