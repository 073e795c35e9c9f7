"""Adaptation methods for any encoder: which layer groups train, when, at what rate, and how far they may move."""

from keras_transfer.adaptation.adapter_files import load_adapters, save_adapters
from keras_transfer.adaptation.adapters import (
    add_adapters,
    get_adapters,
    merge_adapters,
    remove_adapters,
    set_active_adapter,
)
from keras_transfer.adaptation.attention_kinds import PALs, Prefix, Prompt
from keras_transfer.adaptation.bottleneck_kinds import Compacter, Fusion, Houlsby, Parallel, Pfeiffer
from keras_transfer.adaptation.cached_features import cache_features
from keras_transfer.adaptation.comparison import compare
from keras_transfer.adaptation.comparison_report import Comparison
from keras_transfer.adaptation.few_shot import sample_pairs, set_fit
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
from keras_transfer.adaptation.suggestion import suggest
from keras_transfer.adaptation.unfreezing import ChainThaw, GradualUnfreezing, SequentialUnfreezing, StagedTraining
from keras_transfer.adaptation.weight_kinds import IA3, BitFit, LoRA
from keras_transfer.training.checkpoint import Checkpoint

__all__ = [
    "EWC",
    "IA3",
    "L2SP",
    "RECIPES",
    "BitFit",
    "ChainThaw",
    "Checkpoint",
    "Compacter",
    "Comparison",
    "Fisher",
    "Fusion",
    "GradualUnfreezing",
    "Houlsby",
    "InverseSquareRoot",
    "LayerGroup",
    "LayerGroups",
    "LayerwiseOptimizer",
    "LinearWarmupDecay",
    "LoRA",
    "OneCycle",
    "OneCycleMomentum",
    "PALs",
    "Parallel",
    "PenaltyLogger",
    "Pfeiffer",
    "PredictionPenalty",
    "Prefix",
    "Prompt",
    "Recipe",
    "SequentialUnfreezing",
    "SlantedTriangular",
    "Stage",
    "StagedTraining",
    "WarmupCosine",
    "add_adapters",
    "cache_features",
    "compare",
    "estimate_fisher",
    "fine_tune",
    "freeze",
    "freeze_to",
    "get_adapters",
    "get_recipe",
    "is_norm",
    "is_norm_or_bias",
    "layer_groups",
    "load_adapters",
    "merge_adapters",
    "remove_adapters",
    "sample_pairs",
    "save_adapters",
    "select_groups",
    "set_active_adapter",
    "set_fit",
    "suggest",
    "trainable_summary",
    "unfreeze",
]
