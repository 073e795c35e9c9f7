"""Suites of datasets: GLUE and SuperGLUE."""

from keras_transfer.datasets.suites.glue import load_glue
from keras_transfer.datasets.suites.superglue import (
    AnswersToGrade,
    ClozeQuestions,
    Coreferences,
    WordsInContext,
    load_superglue,
)

__all__ = [
    "AnswersToGrade",
    "ClozeQuestions",
    "Coreferences",
    "WordsInContext",
    "load_glue",
    "load_superglue",
]
