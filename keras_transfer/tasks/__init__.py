"""Tasks: models with a pretrained encoder, a head and a loss that take raw text."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.tasks.bert_pretraining import BertPretraining
from keras_transfer.tasks.bidirectional_lm import BidirectionalLM
from keras_transfer.tasks.causal_lm import CausalLM
from keras_transfer.tasks.class_labels import ClassNames, MultiHot
from keras_transfer.tasks.dialogue_model import DialogueModel
from keras_transfer.tasks.labels import Labels, Places
from keras_transfer.tasks.masked_lm import MaskedLM
from keras_transfer.tasks.multi_task import MultiTask
from keras_transfer.tasks.multiple_choice import MultipleChoice
from keras_transfer.tasks.named_heads import Head
from keras_transfer.tasks.permutation_lm import PermutationLM
from keras_transfer.tasks.reader import Reader, TextReader, encode_texts
from keras_transfer.tasks.replaced_tokens import ReplacedTokenDetection
from keras_transfer.tasks.seq2seq_lm import Seq2SeqLM
from keras_transfer.tasks.span_extractor import SpanExtractor
from keras_transfer.tasks.task import Signature, Task
from keras_transfer.tasks.text_classifier import TextClassifier
from keras_transfer.tasks.text_embedder import TextEmbedder
from keras_transfer.tasks.text_regressor import Numbers, TextRegressor
from keras_transfer.tasks.token_classifier import Entity, TokenClassifier

# isort: split
# For other subpackages, not for users.
from keras_transfer.tasks.card_facts import facts_of
from keras_transfer.tasks.causal_lm import causal_head, check_causal
from keras_transfer.tasks.class_labels import check_class_labels, check_multi_hot
from keras_transfer.tasks.heads import encode_parts
from keras_transfer.tasks.id_rows import check_rows
from keras_transfer.tasks.pooled_task import SiameseReader
from keras_transfer.tasks.reader import check_kind, input_names, kind_of
from keras_transfer.tasks.saved import config_of_tasks, config_with_adapters, tasks_from_config
from keras_transfer.tasks.source import count_rows, take_rows
from keras_transfer.tasks.token_targets import HiddenTokens, TokenTargets

__all__ = [
    "BertPretraining",
    "BidirectionalLM",
    "CausalLM",
    "ClassNames",
    "DialogueModel",
    "Entity",
    "Head",
    "Labels",
    "MaskedLM",
    "MultiHot",
    "MultiTask",
    "MultipleChoice",
    "Numbers",
    "PermutationLM",
    "Places",
    "Reader",
    "ReplacedTokenDetection",
    "Seq2SeqLM",
    "Signature",
    "SpanExtractor",
    "Task",
    "TextClassifier",
    "TextEmbedder",
    "TextReader",
    "TextRegressor",
    "TokenClassifier",
    "encode_texts",
]

open_door(sys.modules[__name__])
