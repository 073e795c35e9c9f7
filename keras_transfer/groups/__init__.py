"""Layer groups: a model's weights in order from the input to the head, and how to select some of them."""

from keras_transfer.groups.groups import LayerGroup, LayerGroups, layer_groups
from keras_transfer.groups.selection import depth_of, is_norm, is_norm_or_bias, select_groups, selection_for_config

__all__ = [
    "LayerGroup",
    "LayerGroups",
    "depth_of",
    "is_norm",
    "is_norm_or_bias",
    "layer_groups",
    "select_groups",
    "selection_for_config",
]
