"""KerasHub backbones: their layer groups, and an encoder over one whose blocks can have adapters."""

import re

import keras

from keras_transfer.core.expect import expect
from keras_transfer.encoders.encoder import Encoder
from keras_transfer.keras_internals import layer_tracking, remember_trainable
from keras_transfer.layers import Adapted

# Attributes that tasks use if an encoder has them.
_ATTRIBUTES = (
    "vocabulary_size",
    "max_sequence_length",
    "hidden_dim",
    "num_heads",
    "activation",
    "layer_norm_epsilon",
    "initializer_range",
    "token_embedding",
    "transformer_layers",
)


def is_backbone(model):
    """Returns whether a model is a KerasHub backbone, without importing KerasHub."""
    return is_keras_hub(model, "Backbone")


def is_keras_hub(layer, *names):
    """Returns whether a layer is an instance of one of these classes of KerasHub, without importing KerasHub."""
    return any(cls.__name__ in names and cls.__module__.startswith("keras_hub.") for cls in type(layer).__mro__)


def current_encoder(encoder):
    """Returns the `BackboneEncoder` of a KerasHub backbone with adapters, the backbone without, or another encoder."""
    plain = encoder.backbone if isinstance(encoder, BackboneEncoder) else encoder
    inside = layer_tracking.layers_in(plain) if is_backbone(plain) else ()
    found = (layer.encoder for layer in inside if isinstance(layer, Adapted) and layer.encoder is not None)
    return next(found, lambda: plain)()


def backbone_groups(backbone):
    """Returns the embeddings up to the first block, each block, and the layers after the blocks, in order."""
    names = ("transformer_layers", "encoder_transformer_layers", "decoder_transformer_layers")
    # ALBERT has lists of layers.
    blocks = {id(layer) for name in names for layer in keras.tree.flatten(getattr(backbone, name, None) or [])}
    groups, embeddings = [], []
    for layer in backbone.layers:
        if not layer.weights:
            continue
        if id(layer) in blocks or (not blocks and re.search(r"(layer|block)_\d+$", layer.name)):
            groups.append((layer.name, "block", [layer]))
        elif not groups or "embed" in layer.name:
            embeddings.append(layer)
        else:
            groups.append((layer.name, "pooler" if "pool" in layer.name else "other", [layer]))
    return [("embeddings", "embeddings", embeddings), *groups]


@keras.saving.register_keras_serializable(package="keras_transfer")
class BackboneEncoder(Encoder):
    """A KerasHub backbone as an encoder that can have adapters. It uses the layers of the backbone, not copies.

    `adaptation.add_adapters` creates it. While it has adapters, it replaces the backbone as the `encoder` of every task
    over the backbone, so that their configs contain the adapters.
    """

    def __init__(self, backbone, **kwargs):
        restore = remember_trainable(backbone)
        kwargs = {"name": backbone.name, "dtype": backbone.dtype_policy, **kwargs}
        super().__init__(backbone.input, backbone.output, None, **kwargs)
        restore()
        object.__setattr__(self, "backbone", backbone)  # Keras must not track it: this model has its layers.
        self.blocks = [layer for _, kind, layers in backbone_groups(backbone) if kind == "block" for layer in layers]
        expect(self.blocks, "Adapters need a backbone with blocks.", backbone=backbone)
        for attribute in _ATTRIBUTES:
            if hasattr(backbone, attribute):
                setattr(self, attribute, getattr(backbone, attribute))

    def layer_groups(self):
        return backbone_groups(self.backbone)

    def adapters_changed(self):
        for slot in self.attached.slots:  # `current_encoder` finds them in the blocks.
            slot.encoder = lambda: self  # A function, because Keras would load a cycle endlessly.

    def get_config(self):
        return {"backbone": keras.saving.serialize_keras_object(self.backbone), **super().get_config()}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        backbone = keras.saving.deserialize_keras_object(config["backbone"], custom_objects=custom_objects)
        return super().from_config({**config, "backbone": backbone}, custom_objects)
