"""The architectures whose checkpoints load: each file registers its record."""

from keras_transfer.checkpoints.architectures import autoregressive, bidirectional, recurrent

__all__ = ["autoregressive", "bidirectional", "recurrent"]
