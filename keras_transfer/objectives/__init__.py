"""Self-supervision: turns token ids into inputs and targets in NumPy, for all backends."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.objectives.denoising import Denoising
from keras_transfer.objectives.next_token import NextToken
from keras_transfer.objectives.objective import Objective
from keras_transfer.objectives.permutation_language_model import PermutationLanguageModel
from keras_transfer.objectives.prefix_lm import PrefixLM
from keras_transfer.objectives.sequence_autoencoder import SequenceAutoencoder
from keras_transfer.objectives.sequence_objective import SequenceObjective
from keras_transfer.objectives.span_corruption import SpanCorruption
from keras_transfer.objectives.span_prediction import SpanPrediction
from keras_transfer.objectives.token_masking import TokenMasking
from keras_transfer.objectives.translation_masking import TranslationMasking

# isort: split
# For other subpackages, not for users.
from keras_transfer.objectives.draws import word_starts_of

__all__ = [
    "Denoising",
    "NextToken",
    "Objective",
    "PermutationLanguageModel",
    "PrefixLM",
    "SequenceAutoencoder",
    "SequenceObjective",
    "SpanCorruption",
    "SpanPrediction",
    "TokenMasking",
    "TranslationMasking",
]

open_door(sys.modules[__name__])
