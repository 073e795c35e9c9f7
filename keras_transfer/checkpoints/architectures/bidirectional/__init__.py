"""Records of the bidirectional Transformers, one architecture a file."""

from keras_transfer.checkpoints.architectures.bidirectional import (
    albert,
    bert,
    deberta_v2,
    distilbert,
    electra,
    modernbert,
    mpnet,
    roberta,
)

__all__ = [
    "albert",
    "bert",
    "deberta_v2",
    "distilbert",
    "electra",
    "modernbert",
    "mpnet",
    "roberta",
]
