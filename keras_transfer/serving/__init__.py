"""Exports of trained models that answer requests: raw text in, labels out."""

from keras_transfer.serving.saved_model import export

__all__ = ["export"]
