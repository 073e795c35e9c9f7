"""Readers of tables, of the official files of common NLP datasets, and of a small packaged dataset."""

from keras_transfer.datasets.answers.multiple_choice import Choices, load_copa, load_race, load_swag
from keras_transfer.datasets.answers.squad import Answer, Questions, load_squad
from keras_transfer.datasets.base.dataset import Split, hold_out
from keras_transfer.datasets.base.downloading import download
from keras_transfer.datasets.base.splits import Splits
from keras_transfer.datasets.corpora.personachat import Dialogue, DialogueExample, Turn, load_personachat
from keras_transfer.datasets.corpora.texts import MinimalPairs, load_blimp, load_wikitext
from keras_transfer.datasets.parallel.multi30k import load_multi30k
from keras_transfer.datasets.parallel.parallel_texts import ParallelTexts, read_parallel, read_parallel_tsv
from keras_transfer.datasets.parallel.sgm import read_sgm
from keras_transfer.datasets.parallel.summaries import load_cnn_dailymail, load_xsum, read_stories
from keras_transfer.datasets.suites.glue import load_glue
from keras_transfer.datasets.suites.superglue import (
    AnswersToGrade,
    ClozeQuestions,
    Coreferences,
    WordsInContext,
    load_superglue,
)
from keras_transfer.datasets.tagging.conll import read_conll
from keras_transfer.datasets.tagging.conll2003 import load_conll2003
from keras_transfer.datasets.tagging.conllu import TaggedSentences, load_universal_dependencies, read_conllu
from keras_transfer.datasets.tagging.schemes import label_spans, to_bio
from keras_transfer.datasets.texts.classified_texts import load_ag_news, load_imdb
from keras_transfer.datasets.texts.questions import load_demo_questions, load_trec6
from keras_transfer.datasets.texts.table import read_table

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
    "read_conll",
    "read_conllu",
    "read_parallel",
    "read_parallel_tsv",
    "read_sgm",
    "read_stories",
    "read_table",
    "to_bio",
]
