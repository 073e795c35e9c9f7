"""The wrapper that applies adapters to a layer, and the layers of adapters that users can build on."""

from keras_transfer.layers.adapters.bottleneck import BottleneckAdapter, uniform
from keras_transfer.layers.adapters.copies import WeightCopies, WeightSlot
from keras_transfer.layers.adapters.old_files import show_old_places
from keras_transfer.layers.adapters.wrapper import (
    Adapted,
    AdaptedBlock,
    AdaptedDense,
    AdaptedResidual,
    Adapter,
    adapter_policy,
    check_kernel,
    dense_axes,
    stand_in,
)

__all__ = [
    "Adapted",
    "AdaptedBlock",
    "AdaptedDense",
    "AdaptedResidual",
    "Adapter",
    "BottleneckAdapter",
    "WeightCopies",
    "WeightSlot",
    "adapter_policy",
    "check_kernel",
    "dense_axes",
    "show_old_places",
    "stand_in",
    "uniform",
]
