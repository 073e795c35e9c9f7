"""Which weights train, when, how fast and how far: functions of the ladder, for any backbone."""

from keras_transfer.adaptation.freezing import freeze, freeze_to, trainable_summary, unfreeze
from keras_transfer.adaptation.groups import Ladder, LayerGroup, layer_groups
from keras_transfer.adaptation.layerwise import LayerwiseOptimizer
from keras_transfer.adaptation.pull import EWC, L2SP
from keras_transfer.adaptation.recipes import RECIPES, Recipe, fine_tune, get_recipe
from keras_transfer.adaptation.schedules import (
    InverseSquareRoot,
    LinearWarmupDecay,
    OneCycle,
    SlantedTriangular,
    WarmupCosine,
)
from keras_transfer.adaptation.selection import is_norm, is_norm_or_bias, select_groups
from keras_transfer.adaptation.unfreezing import (
    ChainThaw,
    GradualUnfreezing,
    SequentialUnfreezing,
    Stage,
    StagedTraining,
)

__all__ = [
    "EWC",
    "L2SP",
    "RECIPES",
    "ChainThaw",
    "GradualUnfreezing",
    "InverseSquareRoot",
    "Ladder",
    "LayerGroup",
    "LayerwiseOptimizer",
    "LinearWarmupDecay",
    "OneCycle",
    "Recipe",
    "SequentialUnfreezing",
    "SlantedTriangular",
    "Stage",
    "StagedTraining",
    "WarmupCosine",
    "fine_tune",
    "freeze",
    "freeze_to",
    "get_recipe",
    "is_norm",
    "is_norm_or_bias",
    "layer_groups",
    "select_groups",
    "trainable_summary",
    "unfreeze",
]
