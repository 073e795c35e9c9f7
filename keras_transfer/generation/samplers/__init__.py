"""Samplers, which choose the tokens of a continuation."""

from keras_transfer.generation.samplers.beam import BeamSearch
from keras_transfer.generation.samplers.sampler import get_sampler

__all__ = ["BeamSearch", "get_sampler"]
