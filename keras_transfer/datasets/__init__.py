"""Readers of tables, of the official files of common NLP datasets, and of a small packaged dataset."""

from keras_transfer.datasets.answers import Answer, Choices, Questions, load_copa, load_race, load_squad, load_swag
from keras_transfer.datasets.base import Split, Splits, download, hold_out
from keras_transfer.datasets.corpora import (
    Dialogue,
    DialogueExample,
    MinimalPairs,
    Turn,
    load_blimp,
    load_personachat,
    load_wikitext,
)
from keras_transfer.datasets.suites import (
    AnswersToGrade,
    ClozeQuestions,
    Coreferences,
    WordsInContext,
    load_glue,
    load_superglue,
)
from keras_transfer.datasets.tagging import TaggedSentences, load_conll2003, load_universal_dependencies, read_conllu
from keras_transfer.datasets.texts import load_ag_news, load_demo_questions, load_imdb, load_trec6, read_table

__all__ = [
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
    "load_demo_questions",
    "load_glue",
    "load_imdb",
    "load_personachat",
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
