"""Language models: self-supervised training, generation and likelihoods."""

from keras_transfer.tasks.language.causal_lm import CausalLM
from keras_transfer.tasks.language.generates import cut, text_of
from keras_transfer.tasks.language.masked_lm import MaskedLM
from keras_transfer.tasks.language.replaced_tokens import ReplacedTokenDetection
from keras_transfer.tasks.language.self_supervised import SelfSupervised
from keras_transfer.tasks.language.token_lists import is_texts, text_pieces, token_preprocessor

__all__ = [
    "CausalLM",
    "MaskedLM",
    "ReplacedTokenDetection",
    "SelfSupervised",
    "cut",
    "is_texts",
    "text_of",
    "text_pieces",
    "token_preprocessor",
]
