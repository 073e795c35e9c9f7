"""Datasets of classified texts: reviews, news, questions, and tables of one's own."""

from keras_transfer.datasets.texts.classified_texts import load_ag_news, load_imdb
from keras_transfer.datasets.texts.questions import TREC_FILES, load_demo_questions, load_trec6
from keras_transfer.datasets.texts.table import read_table

__all__ = [
    "TREC_FILES",
    "load_ag_news",
    "load_demo_questions",
    "load_imdb",
    "load_trec6",
    "read_table",
]
