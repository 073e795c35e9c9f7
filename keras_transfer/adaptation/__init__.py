"""Which weights train, when, how fast and how far: functions of the ladder, for any backbone."""

from keras_transfer.adaptation.groups import Ladder, LayerGroup, layer_groups

__all__ = ["Ladder", "LayerGroup", "layer_groups"]
