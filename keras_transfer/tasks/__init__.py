"""Tasks: models with a pretrained encoder, a head and a loss that take raw text."""

from keras_transfer.tasks.base import Task
from keras_transfer.tasks.classification import MultipleChoice, TextClassifier, TextRegressor
from keras_transfer.tasks.dialogue import DialogueModel
from keras_transfer.tasks.embedding import TextEmbedder
from keras_transfer.tasks.language import CausalLM, MaskedLM, ReplacedTokenDetection
from keras_transfer.tasks.questions import SpanExtractor
from keras_transfer.tasks.tagging import TokenClassifier

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
