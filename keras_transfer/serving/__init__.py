"""Exports of trained models that answer requests: they accept raw text and return labels."""

import sys

from keras_transfer.core.door import open_door
from keras_transfer.serving.exported import FORMATS, is_exported, labels_of_export, open_exported, read_facts
from keras_transfer.serving.exporting import export
from keras_transfer.serving.folder_predictor import FolderPredictor
from keras_transfer.serving.predictor import Predictor

__all__ = ["FolderPredictor", "Predictor", "export"]
open_door(sys.modules[__name__])
