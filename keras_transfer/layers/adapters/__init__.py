"""Layers of adapters, and the slots of other layers that hold them."""

from keras_transfer.layers.adapters.bottleneck import BottleneckAdapter, CompacterAdapter, FusionAdapter, Rule
from keras_transfer.layers.adapters.low_rank import LowRankAdapter, ScalingAdapter
from keras_transfer.layers.adapters.prefix import PrefixAdapter, ProjectedAttention, Projections
from keras_transfer.layers.adapters.prompt import PromptAdapter, PromptSlot
from keras_transfer.layers.adapters.slots import (
    AdaptedDense,
    AdaptedLayer,
    Adapter,
    AdapterSlot,
    PrefixSlot,
    WeightCopies,
    WeightSlot,
    check_kernel,
    dense_axes,
)

__all__ = [
    "AdaptedDense",
    "AdaptedLayer",
    "Adapter",
    "AdapterSlot",
    "BottleneckAdapter",
    "CompacterAdapter",
    "FusionAdapter",
    "LowRankAdapter",
    "PrefixAdapter",
    "PrefixSlot",
    "ProjectedAttention",
    "Projections",
    "PromptAdapter",
    "PromptSlot",
    "Rule",
    "ScalingAdapter",
    "WeightCopies",
    "WeightSlot",
    "check_kernel",
    "dense_axes",
]
