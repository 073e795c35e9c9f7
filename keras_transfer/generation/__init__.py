"""Text generation with language models: samplers, constraints, and the loop that runs them with a cache."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.generation.beam import BeamSearch
from keras_transfer.generation.contrastive import ContrastiveSearch
from keras_transfer.generation.sampler import Sampler, get_sampler
from keras_transfer.generation.token_by_token import Greedy, MinP, Random, TopK, TopP, Typical

# isort: split
# For other subpackages, not for users.
from keras_transfer.generation.continuations import Continuations, TokenStream, cut, text_of
from keras_transfer.generation.defaults import OF_SAMPLERS, generation_defaults, log_unused
from keras_transfer.generation.exported import ExportedLoop
from keras_transfer.generation.generator import PROMPT_STEP, Generator, round_up
from keras_transfer.generation.stops import stop_table

__all__ = [
    "BeamSearch",
    "ContrastiveSearch",
    "Greedy",
    "MinP",
    "Random",
    "Sampler",
    "TopK",
    "TopP",
    "Typical",
    "get_sampler",
]

open_door(sys.modules[__name__])
