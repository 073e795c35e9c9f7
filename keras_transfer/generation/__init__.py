"""Text generation with causal language models: samplers, constraints, and the loop that runs them with a cache.

Names imported `as` themselves are for the other rooms of the library.
"""

from keras_transfer.generation.beam import BeamSearch
from keras_transfer.generation.continuations import Continuations as Continuations
from keras_transfer.generation.continuations import TokenStream as TokenStream
from keras_transfer.generation.continuations import cut as cut
from keras_transfer.generation.continuations import text_of as text_of
from keras_transfer.generation.contrastive import ContrastiveSearch
from keras_transfer.generation.defaults import OF_SAMPLERS as OF_SAMPLERS
from keras_transfer.generation.defaults import generation_defaults as generation_defaults
from keras_transfer.generation.defaults import log_unused as log_unused
from keras_transfer.generation.exported import ExportedLoop as ExportedLoop
from keras_transfer.generation.generator import NEW_STEP as NEW_STEP
from keras_transfer.generation.generator import PROMPT_STEP as PROMPT_STEP
from keras_transfer.generation.generator import Generator as Generator
from keras_transfer.generation.generator import align_right as align_right
from keras_transfer.generation.generator import round_up as round_up
from keras_transfer.generation.sampler import Sampler, get_sampler
from keras_transfer.generation.samplers import Greedy, MinP, Random, TopK, TopP, Typical
from keras_transfer.generation.stops import stop_table as stop_table

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
