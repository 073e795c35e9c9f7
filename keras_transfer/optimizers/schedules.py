"""Schedules of learning rates: with warm-up, in the shape of a triangle, and by the length of a run."""

from keras_transfer.training import (
    InverseSquareRoot,
    LinearWarmupDecay,
    OneCycle,
    SlantedTriangular,
    WarmupCosine,
    WindowRate,
)

__all__ = ["InverseSquareRoot", "LinearWarmupDecay", "OneCycle", "SlantedTriangular", "WarmupCosine", "WindowRate"]
