"""Tasks: models with a pretrained encoder, a head and a loss that take raw text."""

from keras_transfer.tasks.causal_lm import CausalLM
from keras_transfer.tasks.dialogue_model import DialogueModel
from keras_transfer.tasks.masked_lm import MaskedLM
from keras_transfer.tasks.multiple_choice import MultipleChoice
from keras_transfer.tasks.replaced_tokens import ReplacedTokenDetection
from keras_transfer.tasks.span_extractor import SpanExtractor
from keras_transfer.tasks.task import Task
from keras_transfer.tasks.text_classifier import TextClassifier
from keras_transfer.tasks.text_embedder import TextEmbedder
from keras_transfer.tasks.text_regressor import TextRegressor
from keras_transfer.tasks.token_classifier import TokenClassifier

__all__ = [
    "CausalLM",
    "DialogueModel",
    "MaskedLM",
    "MultipleChoice",
    "ReplacedTokenDetection",
    "SpanExtractor",
    "Task",
    "TextClassifier",
    "TextEmbedder",
    "TextRegressor",
    "TokenClassifier",
]
