"""The task itself: compiling, fitting, predicting, saving and loading, for every kind of task."""

from keras_transfer.tasks.base.card_facts import facts_of
from keras_transfer.tasks.base.checks import check_sizes
from keras_transfer.tasks.base.data_path import batches_or_stream
from keras_transfer.tasks.base.signatures import Signature
from keras_transfer.tasks.base.task import Task, of_part

__all__ = ["Signature", "Task", "batches_or_stream", "check_sizes", "facts_of", "of_part"]
