"""Self-supervision: turns token ids into inputs and targets in NumPy, for all backends."""

from keras_transfer.objectives.masking.permutation_language_model import PermutationLanguageModel
from keras_transfer.objectives.masking.token_masking import TokenMasking
from keras_transfer.objectives.masking.translation_masking import TranslationMasking
from keras_transfer.objectives.sequences.denoising import Denoising
from keras_transfer.objectives.sequences.next_token import NextToken
from keras_transfer.objectives.sequences.prefix_lm import PrefixLM
from keras_transfer.objectives.sequences.sequence_autoencoder import SequenceAutoencoder
from keras_transfer.objectives.sequences.sequence_objective import SequenceObjective
from keras_transfer.objectives.sequences.span_corruption import SpanCorruption
from keras_transfer.objectives.sequences.span_prediction import SpanPrediction

__all__ = [
    "Denoising",
    "NextToken",
    "PermutationLanguageModel",
    "PrefixLM",
    "SequenceAutoencoder",
    "SequenceObjective",
    "SpanCorruption",
    "SpanPrediction",
    "TokenMasking",
    "TranslationMasking",
]
