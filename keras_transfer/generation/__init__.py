"""Text generation with language models: samplers, constraints, and the loop that runs them with a cache."""

from keras_transfer.generation.samplers.beam import BeamSearch
from keras_transfer.generation.samplers.contrastive import ContrastiveSearch
from keras_transfer.generation.samplers.sampler import Sampler, get_sampler
from keras_transfer.generation.samplers.token_by_token import Greedy, MinP, Random, TopK, TopP, Typical

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
