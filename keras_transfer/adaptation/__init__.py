"""Adaptation methods for any encoder: which layer groups train, when, how fast, and how far from their start."""

from keras_transfer.adaptation.comparison import compare
from keras_transfer.adaptation.comparison_report import Comparison
from keras_transfer.adaptation.fisher import Fisher, estimate_fisher
from keras_transfer.adaptation.freezing import freeze, freeze_to, trainable_summary, unfreeze
from keras_transfer.adaptation.groups import LayerGroup, LayerGroups, layer_groups
from keras_transfer.adaptation.layerwise import LayerwiseOptimizer
from keras_transfer.adaptation.momentum import OneCycleMomentum
from keras_transfer.adaptation.penalties import EWC, L2SP
from keras_transfer.adaptation.penalty_metric import PenaltyLogger
from keras_transfer.adaptation.prediction_penalty import PredictionPenalty
from keras_transfer.adaptation.recipes import RECIPES, Recipe, fine_tune, get_recipe
from keras_transfer.adaptation.schedules import (
    InverseSquareRoot,
    LinearWarmupDecay,
    OneCycle,
    SlantedTriangular,
    WarmupCosine,
)
from keras_transfer.adaptation.selection import is_norm, is_norm_or_bias, select_groups
from keras_transfer.adaptation.staging import Stage
from keras_transfer.adaptation.unfreezing import ChainThaw, GradualUnfreezing, SequentialUnfreezing, StagedTraining
from keras_transfer.training.checkpoint import Checkpoint

__all__ = [
    "EWC",
    "L2SP",
    "RECIPES",
    "ChainThaw",
    "Checkpoint",
    "Comparison",
    "Fisher",
    "GradualUnfreezing",
    "InverseSquareRoot",
    "LayerGroup",
    "LayerGroups",
    "LayerwiseOptimizer",
    "LinearWarmupDecay",
    "OneCycle",
    "OneCycleMomentum",
    "PenaltyLogger",
    "PredictionPenalty",
    "Recipe",
    "SequentialUnfreezing",
    "SlantedTriangular",
    "Stage",
    "StagedTraining",
    "WarmupCosine",
    "compare",
    "estimate_fisher",
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
