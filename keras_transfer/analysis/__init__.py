"""Analysis of trained models: what a classifier gets right and wrong, how certain the figures are, where it looks."""

import sys

from keras_transfer.analysis.ablation import Ablation, ablate
from keras_transfer.analysis.attention import AttentionWeights, HeadStatistics, attention_weights
from keras_transfer.analysis.attribution import attribute
from keras_transfer.analysis.attribution_view import Attributions
from keras_transfer.analysis.behavior.acceptability import minimal_pairs, sentence_scores, substitutes
from keras_transfer.analysis.behavior.checklist import (
    Direction,
    Invariance,
    MinimumFunctionality,
    check_behavior,
    fill_templates,
)
from keras_transfer.analysis.behavior.perturbations import (
    add_distractors,
    overlap_tests,
    perturbation_curve,
    typos,
)
from keras_transfer.analysis.bias import association_test, remove_direction, swap_words
from keras_transfer.analysis.classification_report import ClassificationReport
from keras_transfer.analysis.geometry import isotropy, scatter
from keras_transfer.analysis.inspection import Inspection, inspect
from keras_transfer.analysis.multi_label_report import MultiLabelReport
from keras_transfer.analysis.neurons import NeuronRanking, UnitActivations, rank_neurons, unit_activations
from keras_transfer.analysis.probing.probes import Probe
from keras_transfer.analysis.probing.sentence_tasks import sentence_task
from keras_transfer.analysis.probing.structural_probe import StructuralProbe, StructuralSweep
from keras_transfer.analysis.probing.sweeps import LayerSweep, probe_correlation
from keras_transfer.analysis.relations import RelationHeads, relation_heads
from keras_transfer.analysis.reporting import report
from keras_transfer.analysis.similarity import (
    LayerSimilarity,
    MovedLayers,
    layer_similarity,
    moved_layers,
    representation_similarity,
)
from keras_transfer.analysis.stored_states import StoredStates, hidden_states, random_weights
from keras_transfer.analysis.word_tests import analogies, neighbors, word_similarity
from keras_transfer.core.door import open_door

# isort: split
# For other subpackages, not for users.
from keras_transfer.analysis.result import PlottedResult, Result
from keras_transfer.analysis.scores import Score, fraction_with_interval
from keras_transfer.analysis.significance import mean_interval, paired_test
from keras_transfer.analysis.tables import Table

__all__ = [
    "Ablation",
    "AttentionWeights",
    "Attributions",
    "ClassificationReport",
    "Direction",
    "HeadStatistics",
    "Inspection",
    "Invariance",
    "LayerSimilarity",
    "LayerSweep",
    "MinimumFunctionality",
    "MovedLayers",
    "MultiLabelReport",
    "NeuronRanking",
    "Probe",
    "RelationHeads",
    "Result",
    "StoredStates",
    "StructuralProbe",
    "StructuralSweep",
    "UnitActivations",
    "ablate",
    "add_distractors",
    "analogies",
    "association_test",
    "attention_weights",
    "attribute",
    "check_behavior",
    "fill_templates",
    "hidden_states",
    "inspect",
    "isotropy",
    "layer_similarity",
    "minimal_pairs",
    "moved_layers",
    "neighbors",
    "overlap_tests",
    "perturbation_curve",
    "probe_correlation",
    "random_weights",
    "rank_neurons",
    "relation_heads",
    "remove_direction",
    "report",
    "representation_similarity",
    "scatter",
    "sentence_scores",
    "sentence_task",
    "substitutes",
    "swap_words",
    "typos",
    "unit_activations",
    "word_similarity",
]
open_door(sys.modules[__name__])
