"""Tasks: models with a pretrained encoder, a head and a loss that take raw text."""

from keras_transfer.tasks.base.task import Task
from keras_transfer.tasks.classification.multiple_choice import MultipleChoice
from keras_transfer.tasks.classification.text_classifier import TextClassifier
from keras_transfer.tasks.classification.text_regressor import TextRegressor
from keras_transfer.tasks.dialogue.dialogue_model import DialogueModel
from keras_transfer.tasks.embedding.text_embedder import TextEmbedder
from keras_transfer.tasks.language.bidirectional_lm import BidirectionalLM
from keras_transfer.tasks.language.causal_lm import CausalLM
from keras_transfer.tasks.masked.bert_pretraining import BertPretraining
from keras_transfer.tasks.masked.masked_lm import MaskedLM
from keras_transfer.tasks.masked.permutation_lm import PermutationLM
from keras_transfer.tasks.masked.replaced_tokens import ReplacedTokenDetection
from keras_transfer.tasks.questions.span_extractor import SpanExtractor
from keras_transfer.tasks.sequence_to_sequence.seq2seq_lm import Seq2SeqLM
from keras_transfer.tasks.tagging.token_classifier import Entity, TokenClassifier

__all__ = [
    "BertPretraining",
    "BidirectionalLM",
    "CausalLM",
    "DialogueModel",
    "Entity",
    "MaskedLM",
    "MultipleChoice",
    "PermutationLM",
    "ReplacedTokenDetection",
    "Seq2SeqLM",
    "SpanExtractor",
    "Task",
    "TextClassifier",
    "TextEmbedder",
    "TextRegressor",
    "TokenClassifier",
]
