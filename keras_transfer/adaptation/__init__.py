"""Adaptation methods for any encoder: which layer groups train, when, at what rate, and how far they may move."""

import sys

from keras_transfer.adaptation.adapters.adapter_files import load_adapters, save_adapters
from keras_transfer.adaptation.adapters.adapters import (
    add_adapters,
    merge_adapters,
    remove_adapters,
    set_active_adapter,
)
from keras_transfer.adaptation.adapters.bitfit import BitFit, LayerCopies
from keras_transfer.adaptation.adapters.bottlenecks import Houlsby, Parallel, Pfeiffer
from keras_transfer.adaptation.adapters.compacter import Compacter
from keras_transfer.adaptation.adapters.fusion import Fusion
from keras_transfer.adaptation.adapters.ia3 import IA3
from keras_transfer.adaptation.adapters.lora import LoRA
from keras_transfer.adaptation.adapters.pals import PALs
from keras_transfer.adaptation.adapters.prefix import Prefix
from keras_transfer.adaptation.adapters.prompt import Prompt
from keras_transfer.adaptation.cached_features import cache_features
from keras_transfer.adaptation.distillation import distill, student_from, teacher_margins
from keras_transfer.adaptation.distillation_signals import AttentionScores, HiddenStates, Signal
from keras_transfer.adaptation.ensembles import Ensemble
from keras_transfer.adaptation.few_shot import sample_pairs, setfit
from keras_transfer.adaptation.fine_tuning import fine_tune
from keras_transfer.adaptation.fisher import Fisher, estimate_fisher
from keras_transfer.adaptation.language_model_loss import with_language_model_loss
from keras_transfer.adaptation.merging import Soup, combine_adapters, greedy_soup, merge_models
from keras_transfer.adaptation.pruning import Importance, head_importance, prune
from keras_transfer.adaptation.recipe import Recipe, get_recipe
from keras_transfer.adaptation.rematerialization import rematerialize
from keras_transfer.adaptation.self_training import augment_texts, self_train
from keras_transfer.adaptation.slices import SliceClassifier
from keras_transfer.adaptation.sparsity import Movement, WeightPruning
from keras_transfer.adaptation.static_tables import static_embeddings
from keras_transfer.adaptation.unlabeled import CVT, UDA, VAT, fit_with_unlabeled
from keras_transfer.adaptation.vocabulary_trimming import trim_vocabulary
from keras_transfer.adaptation.weak_supervision import WeakLabels, apply_labeling_functions, combine_votes
from keras_transfer.core.door import open_door
from keras_transfer.training import (
    EWC,
    L2SP,
    LayerGroup,
    LayerGroups,
    freeze,
    freeze_to,
    layer_groups,
    select_groups,
    trainable_summary,
    unfreeze,
)

# isort: split
# For other subpackages, not for users.
from keras_transfer.adaptation.adapters.adapters import (
    adapted_encoder,
    adapter_weights,
    check_names,
    get_adapters,
    head_for,
)
from keras_transfer.adaptation.adapters.kind import KINDS
from keras_transfer.adaptation.pruning import blocks_of
from keras_transfer.adaptation.recipe import RECIPES, STEPS, enough_epochs, steps_of

__all__ = [
    "CVT",
    "EWC",
    "IA3",
    "L2SP",
    "UDA",
    "VAT",
    "AttentionScores",
    "BitFit",
    "Compacter",
    "Ensemble",
    "Fisher",
    "Fusion",
    "HiddenStates",
    "Houlsby",
    "Importance",
    "LayerCopies",
    "LayerGroup",
    "LayerGroups",
    "LoRA",
    "Movement",
    "PALs",
    "Parallel",
    "Pfeiffer",
    "Prefix",
    "Prompt",
    "Recipe",
    "Signal",
    "SliceClassifier",
    "Soup",
    "WeakLabels",
    "WeightPruning",
    "add_adapters",
    "apply_labeling_functions",
    "augment_texts",
    "cache_features",
    "combine_adapters",
    "combine_votes",
    "distill",
    "estimate_fisher",
    "fine_tune",
    "fit_with_unlabeled",
    "freeze",
    "freeze_to",
    "get_recipe",
    "greedy_soup",
    "head_importance",
    "layer_groups",
    "load_adapters",
    "merge_adapters",
    "merge_models",
    "prune",
    "rematerialize",
    "remove_adapters",
    "sample_pairs",
    "save_adapters",
    "select_groups",
    "self_train",
    "set_active_adapter",
    "setfit",
    "static_embeddings",
    "student_from",
    "teacher_margins",
    "trainable_summary",
    "trim_vocabulary",
    "unfreeze",
    "with_language_model_loss",
]

open_door(sys.modules[__name__])
