"""Adaptation methods for any encoder: which layer groups train, when, at what rate, and how far they may move."""

from keras_transfer.adaptation.adapters.base.adapters import (
    add_adapters,
    merge_adapters,
    remove_adapters,
    set_active_adapter,
)
from keras_transfer.adaptation.adapters.files.adapter_files import load_adapters, save_adapters
from keras_transfer.adaptation.adapters.kinds.bitfit import BitFit, LayerCopies
from keras_transfer.adaptation.adapters.kinds.bottlenecks import Houlsby, Parallel, Pfeiffer
from keras_transfer.adaptation.adapters.kinds.compacter import Compacter
from keras_transfer.adaptation.adapters.kinds.fusion import Fusion
from keras_transfer.adaptation.adapters.kinds.ia3 import IA3
from keras_transfer.adaptation.adapters.kinds.lora import LoRA
from keras_transfer.adaptation.adapters.kinds.pals import PALs
from keras_transfer.adaptation.adapters.kinds.prefix import Prefix
from keras_transfer.adaptation.adapters.kinds.prompt import Prompt
from keras_transfer.adaptation.auxiliary_losses.language_model_loss import with_language_model_loss
from keras_transfer.adaptation.compression.vocabulary import trim_vocabulary
from keras_transfer.adaptation.features.cached_features import cache_features
from keras_transfer.adaptation.fisher.information import Fisher, estimate_fisher
from keras_transfer.adaptation.recipes.few_shot import sample_pairs, set_fit
from keras_transfer.adaptation.recipes.fine_tuning import fine_tune
from keras_transfer.adaptation.recipes.recipe import Recipe, get_recipe
from keras_transfer.adaptation.recipes.rematerialization import rematerialize
from keras_transfer.groups import LayerGroup, LayerGroups, layer_groups, select_groups
from keras_transfer.training.optimizers import (
    EWC,
    L2SP,
    NTASGD,
    FusedAdamW,
    InverseSquareRoot,
    LayerwiseOptimizer,
    LinearWarmupDecay,
    OneCycle,
    PenaltyLogger,
    SlantedTriangular,
    WarmupCosine,
    WindowRate,
)
from keras_transfer.training.resume import TrainingCheckpoint
from keras_transfer.training.runs import (
    ChainThaw,
    GenerationMetrics,
    GradualUnfreezing,
    NonMonotonicTrigger,
    SequentialUnfreezing,
    Stage,
    StagedTraining,
    freeze,
    freeze_to,
    trainable_summary,
    unfreeze,
)

__all__ = [
    "EWC",
    "IA3",
    "L2SP",
    "NTASGD",
    "BitFit",
    "ChainThaw",
    "Compacter",
    "Fisher",
    "FusedAdamW",
    "Fusion",
    "GenerationMetrics",
    "GradualUnfreezing",
    "Houlsby",
    "InverseSquareRoot",
    "LayerCopies",
    "LayerGroup",
    "LayerGroups",
    "LayerwiseOptimizer",
    "LinearWarmupDecay",
    "LoRA",
    "NonMonotonicTrigger",
    "OneCycle",
    "PALs",
    "Parallel",
    "PenaltyLogger",
    "Pfeiffer",
    "Prefix",
    "Prompt",
    "Recipe",
    "SequentialUnfreezing",
    "SlantedTriangular",
    "Stage",
    "StagedTraining",
    "TrainingCheckpoint",
    "WarmupCosine",
    "WindowRate",
    "add_adapters",
    "cache_features",
    "estimate_fisher",
    "fine_tune",
    "freeze",
    "freeze_to",
    "get_recipe",
    "layer_groups",
    "load_adapters",
    "merge_adapters",
    "rematerialize",
    "remove_adapters",
    "sample_pairs",
    "save_adapters",
    "select_groups",
    "set_active_adapter",
    "set_fit",
    "trainable_summary",
    "trim_vocabulary",
    "unfreeze",
    "with_language_model_loss",
]
