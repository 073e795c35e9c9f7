"""BitFit: training only biases."""

import keras

from keras_transfer.adaptation.adapters.base import AdapterKind, copy_weights, register_kind
from keras_transfer.keras_internals import layers_within

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

    def attach(self, encoder, name):
        dense, found = (keras.layers.Dense, keras.layers.EinsumDense, *NORMS), {}
        for group in (layer for _, _, layers, *_ in encoder.layer_groups() for layer in layers):
            found |= {id(layer): layer for layer, _ in layers_within(group) if isinstance(layer, dense)}
        biases = [(layer, "beta" if isinstance(layer, NORMS) else "bias") for layer in found.values()]
        biases = [(layer, attribute) for layer, attribute in biases if getattr(layer, attribute, None) is not None]
        if not biases:
            raise ValueError(
                "`BitFit` requires an encoder with biases. Use a different kind, such as 'lora'. "
                f"Received: {type(encoder).__name__}"
            )
        for layer, attribute in biases:
            copy_weights(encoder, layer, (attribute,), layer.path.replace("/", "."), name)
