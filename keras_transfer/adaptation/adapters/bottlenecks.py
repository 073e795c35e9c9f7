"""Bottleneck adapters: Houlsby, Pfeiffer and parallel."""

import dataclasses

import keras

from keras_transfer.adaptation.adapters.kind import AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import blocks_of, copy_weights, norms_of, put_at_outputs
from keras_transfer.core.expect import FLAG, expects, integer
from keras_transfer.layers import BottleneckAdapter


@expects(size=integer(1), norms=FLAG)
@register_kind(houlsby={})
class Houlsby(AdapterKind):
    """Bottleneck adapters after attention and after the feed-forward network (Houlsby et al. 2019).

    Decoder blocks also have them after cross-attention. Copies of the norms of the blocks are trained, too.

    Args:
        size: Integer. Width of the bottleneck. Defaults to `64`.
        activation: String. Activation of the bottleneck. Defaults to `"gelu"`.
        norms: Boolean. Whether to train copies of the norms of the blocks. Defaults to `True`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Houlsby(size=32))
    ```
    """

    for_backbones = True
    size: int = 64
    _: dataclasses.KW_ONLY
    activation: str = "gelu"
    norms: bool = True

    def attach(self, encoder, name):
        arguments = {"units": self.size, "activation": self.activation}
        put_at_outputs(encoder, ["attention", "cross_attention", "feed_forward"], name, BottleneckAdapter, **arguments)
        for block in blocks_of(encoder) if self.norms else ():
            for place, norm in norms_of(block).items():
                weights = ("scale",) if isinstance(norm, keras.layers.RMSNormalization) else ("gamma", "beta")
                copy_weights(encoder, norm, weights, f"{block.name}.{place}", name)


@expects(size=integer(1))
@register_kind(pfeiffer={})
class Pfeiffer(AdapterKind):
    """One bottleneck adapter after the feed-forward network, applied to the sum with the residual (Pfeiffer 2021).

    Args:
        size: Integer. Width of the bottleneck. Defaults to `48`.
        activation: String. Activation of the bottleneck. Defaults to `"relu"`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Pfeiffer(size=32))
    ```
    """

    size: int = 48
    _: dataclasses.KW_ONLY
    activation: str = "relu"

    def attach(self, encoder, name):
        arguments = {"units": self.size, "activation": self.activation, "source": "summed"}
        put_at_outputs(encoder, ["feed_forward"], name, BottleneckAdapter, **arguments)


@expects(size=integer(1))
@register_kind(parallel={})
class Parallel(AdapterKind):
    """A bottleneck parallel to the feed-forward network, with the same inputs (He et al. 2022).

    Args:
        size: Integer. Width of the bottleneck. Defaults to `64`.
        scale: Float. Factor of its outputs. Defaults to `4.0`.
        activation: String. Activation of the bottleneck. Defaults to `"relu"`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Parallel(size=32))
    ```
    """

    size: int = 64
    _: dataclasses.KW_ONLY
    scale: float = 4.0
    activation: str = "relu"

    def attach(self, encoder, name):
        arguments = {"units": self.size, "activation": self.activation, "source": "inputs", "scale": float(self.scale)}
        put_at_outputs(encoder, ["feed_forward"], name, BottleneckAdapter, **arguments)
