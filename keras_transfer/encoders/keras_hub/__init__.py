"""KerasHub's backbones as encoders."""

from keras_transfer.encoders.keras_hub.backbone import (
    BackboneEncoder,
    backbone_groups,
    current_encoder,
    is_backbone,
    is_keras_hub,
)

__all__ = [
    "BackboneEncoder",
    "backbone_groups",
    "current_encoder",
    "is_backbone",
    "is_keras_hub",
]
