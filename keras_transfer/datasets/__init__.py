"""Readers of tables, of the official files of common NLP datasets, and of a small packaged dataset."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.datasets.classified_texts import load_ag_news, load_imdb
from keras_transfer.datasets.conll import read_conll
from keras_transfer.datasets.conll2003 import load_conll2003
from keras_transfer.datasets.conllu import TaggedSentences, Trees, load_universal_dependencies, read_conllu, read_trees
from keras_transfer.datasets.dataset import Split, hold_out
from keras_transfer.datasets.downloading import download
from keras_transfer.datasets.glue import load_glue
from keras_transfer.datasets.multi30k import load_multi30k
from keras_transfer.datasets.multiple_choice import Choices, load_copa, load_race, load_swag
from keras_transfer.datasets.parallel_texts import ParallelTexts, read_parallel, read_parallel_tsv
from keras_transfer.datasets.personachat import Dialogue, DialogueExample, Turn, load_personachat
from keras_transfer.datasets.questions import load_demo_questions, load_trec6
from keras_transfer.datasets.schemes import label_spans, to_bio
from keras_transfer.datasets.senteval import read_senteval
from keras_transfer.datasets.sgm import read_sgm
from keras_transfer.datasets.splits import Splits
from keras_transfer.datasets.squad import Answer, Questions, load_squad
from keras_transfer.datasets.summaries import load_cnn_dailymail, load_xsum, read_stories
from keras_transfer.datasets.superglue import (
    AnswersToGrade,
    ClozeQuestions,
    Coreferences,
    WordsInContext,
    load_superglue,
)
from keras_transfer.datasets.table import read_table
from keras_transfer.datasets.text_files import (
    MinimalPairs,
    load_blimp,
    load_wikitext,
    read_agreement,
    read_minimal_pairs,
)

# isort: split
# For other subpackages, not for users.
from keras_transfer.datasets.conllu import check_heads

__all__ = [
    "Answer",
    "AnswersToGrade",
    "Choices",
    "ClozeQuestions",
    "Coreferences",
    "Dialogue",
    "DialogueExample",
    "MinimalPairs",
    "ParallelTexts",
    "Questions",
    "Split",
    "Splits",
    "TaggedSentences",
    "Trees",
    "Turn",
    "WordsInContext",
    "download",
    "hold_out",
    "label_spans",
    "load_ag_news",
    "load_blimp",
    "load_cnn_dailymail",
    "load_conll2003",
    "load_copa",
    "load_demo_questions",
    "load_glue",
    "load_imdb",
    "load_multi30k",
    "load_personachat",
    "load_race",
    "load_squad",
    "load_superglue",
    "load_swag",
    "load_trec6",
    "load_universal_dependencies",
    "load_wikitext",
    "load_xsum",
    "read_agreement",
    "read_conll",
    "read_conllu",
    "read_minimal_pairs",
    "read_parallel",
    "read_parallel_tsv",
    "read_senteval",
    "read_sgm",
    "read_stories",
    "read_table",
    "read_trees",
    "to_bio",
]
open_door(sys.modules[__name__])
