"""The task itself: compiling, fitting, predicting, saving and loading, for every kind of task."""

from keras_transfer.tasks.base.compiled import takes_vectors, trains_classes_apart
from keras_transfer.tasks.base.prediction import check_numbers
from keras_transfer.tasks.base.signatures import Signature, encode_texts, most_likely
from keras_transfer.tasks.base.task import Task

__all__ = [
    "Signature",
    "Task",
    "check_numbers",
    "encode_texts",
    "most_likely",
    "takes_vectors",
    "trains_classes_apart",
]
