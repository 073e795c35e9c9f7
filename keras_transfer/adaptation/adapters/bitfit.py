"""Copies of weights that train instead of the originals: of all biases (BitFit), or of whole layers."""

import dataclasses
import re

import keras

from keras_transfer.adaptation.adapters.kind import NAMES, AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import copy_weights
from keras_transfer.core.expect import expect, expects
from keras_transfer.core.names import did_you_mean
from keras_transfer.keras_internals import could_train, layers_within
from keras_transfer.layers import Adapted, Adapter

NORMS = (keras.layers.LayerNormalization, keras.layers.RMSNormalization)


@register_kind(bitfit={})
class BitFit(AdapterKind):
    """Copies of all biases of the encoder, which are trained instead of the originals (Ben Zaken et al. 2022).

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.BitFit())
    ```
    """

    for_backbones = True
    merges = True

    def attach(self, encoder, name):
        dense = (keras.layers.Dense, keras.layers.EinsumDense, *NORMS)
        found = [layer for layer in layers_of(encoder) if isinstance(layer, dense)]
        biases = [(layer, "beta" if isinstance(layer, NORMS) else "bias") for layer in found]
        biases = [(layer, attribute) for layer, attribute in biases if getattr(layer, attribute, None) is not None]
        rule = "`BitFit` requires an encoder with biases. Use a different kind, such as 'lora'."
        expect(biases, rule, encoder=encoder)
        for layer, attribute in biases:
            copy_weights(encoder, layer, (attribute,), place_of(layer), name)


@expects(layers=NAMES)
@register_kind(copies={})
class LayerCopies(AdapterKind):
    """Copies of whole layers of the encoder, which are trained instead of the originals.

    They correspond to `modules_to_save` in PEFT, and are added next to other adapters: `["lora:8", "copies:pooler"]`.

    Args:
        layers: List of names of layers (`"pooler"`, `"embeddings_norm"`), or regular expressions that match whole paths
            (`"block_0.attention_norm"`, `".*_norm"`). Layers without weights of their own cannot be copied.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, ["lora:r=4", keras_transfer.adaptation.LayerCopies(["pooler"])])
    ```
    """

    for_backbones = True
    merges = True
    layers: tuple
    _: dataclasses.KW_ONLY

    def attach(self, encoder, name):
        available = {place_of(layer): layer for layer in layers_of(encoder)}
        for target in self.layers:
            try:
                found = [place for place in available if place == target or re.fullmatch(target, place)]
            except re.error:
                found = []
            rule = (
                f"A name matches no layer with weights. Expected some of {list(available)}, or a regular expression of "
                f"a whole path.{did_you_mean(target, available)}"
            )
            expect(found, rule, target=target)
            for place in found:
                layer = available.pop(place)
                copy_weights(encoder, layer, own_weights(layer), place, name)


def layers_of(encoder):
    """Returns the distinct layers of an encoder that have weights of their own."""
    groups = [layer for _, _, layers, *_ in encoder.layer_groups() for layer in layers]
    layers = {id(layer): layer for group in groups for layer, _ in layers_within(group)}.values()
    return [layer for layer in layers if own_weights(layer)]


def place_of(layer):
    """Returns the path of a layer with dots."""
    return layer.path.replace("/", ".")


def own_weights(layer):
    """Returns a dict from the attributes of a layer to the weights that it computes with and that could train."""
    if isinstance(layer, (Adapted, Adapter)):
        return {}
    could = {id(weight) for weight in could_train(layer)}
    return {key: value for key, value in vars(layer).items() if id(value) in could}
