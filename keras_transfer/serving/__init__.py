"""From a trained model to something that answers requests: raw text in, labels out."""

from keras_transfer.serving.export import export

__all__ = ["export"]
