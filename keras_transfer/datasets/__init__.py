"""Readers of tables, of the official files of common NLP datasets, and of a small packaged dataset."""

from keras_transfer.datasets.classified_texts import load_ag_news, load_imdb
from keras_transfer.datasets.conll2003 import load_conll2003
from keras_transfer.datasets.conllu import (
    TaggedSentences,
    load_universal_dependencies,
    read_conllu,
)
from keras_transfer.datasets.corpora import MinimalPairs, load_blimp, load_wikitext
from keras_transfer.datasets.dataset import Split, hold_out
from keras_transfer.datasets.downloading import download
from keras_transfer.datasets.glue import load_glue
from keras_transfer.datasets.multiple_choice import Choices, load_copa, load_race, load_swag
from keras_transfer.datasets.personachat import Dialogue, DialogueExample, Turn, load_personachat
from keras_transfer.datasets.questions import TREC_FILES, load_questions, load_trec6
from keras_transfer.datasets.splits import Splits
from keras_transfer.datasets.squad import Answer, Questions, load_squad
from keras_transfer.datasets.superglue import (
    AnswersToGrade,
    ClozeQuestions,
    Coreferences,
    WordsInContext,
    load_superglue,
)
from keras_transfer.datasets.table import read_table

__all__ = [
    "TREC_FILES",
    "Answer",
    "AnswersToGrade",
    "Choices",
    "ClozeQuestions",
    "Coreferences",
    "Dialogue",
    "DialogueExample",
    "MinimalPairs",
    "Questions",
    "Split",
    "Splits",
    "TaggedSentences",
    "Turn",
    "WordsInContext",
    "download",
    "hold_out",
    "load_ag_news",
    "load_blimp",
    "load_conll2003",
    "load_copa",
    "load_glue",
    "load_imdb",
    "load_personachat",
    "load_questions",
    "load_race",
    "load_squad",
    "load_superglue",
    "load_swag",
    "load_trec6",
    "load_universal_dependencies",
    "load_wikitext",
    "read_conllu",
    "read_table",
]
