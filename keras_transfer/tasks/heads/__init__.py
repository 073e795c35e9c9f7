"""Layers between the outputs of an encoder and the logits of a task."""

from keras_transfer.tasks.heads.hidden import hidden_vectors
from keras_transfer.tasks.heads.mixed import check_encoder, encode_mixed
from keras_transfer.tasks.heads.parts import merge_parts, split_parts
from keras_transfer.tasks.heads.pooled import check_truncation, checked_dense, make_dense, read_by, text_vectors
from keras_transfer.tasks.heads.pooled_task import PooledTask, pooled_reader

__all__ = [
    "PooledTask",
    "check_encoder",
    "check_truncation",
    "checked_dense",
    "encode_mixed",
    "hidden_vectors",
    "make_dense",
    "merge_parts",
    "pooled_reader",
    "read_by",
    "split_parts",
    "text_vectors",
]
