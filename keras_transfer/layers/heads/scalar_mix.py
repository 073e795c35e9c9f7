"""A weighted mean of all layers of an encoder, with weights that the task learns."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.core.expect import RATE, expect, expects
from keras_transfer.core.plots import BLACK, BLUE, new_axes
from keras_transfer.layers.basic.config import ConfigOfArguments


@keras.saving.register_keras_serializable(package="keras_transfer")
class ScalarMix(ConfigOfArguments, keras.layers.Layer):
    """Mixes an encoder's layers with weights and a scale that are learned with the task (Peters et al. 2018).

    The output is gamma * sum_k softmax(w)_k * h_k over the `hidden_states` of any encoder. After training, `mix` and
    `plot()` show which layers the task uses.

    Args:
        dropout: Float in [0, 1). Probability that a layer is left out of the mean during training. Defaults to `0.0`.
        layer_norm: Boolean. Whether to normalize each vector to mean 0 and variance 1 before mixing. (The original
            code uses the statistics of a whole batch.) Defaults to `False`.
        seed: Integer. Seed of the dropout. Defaults to `None`, a random seed.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        - `inputs`: List of tensors of shape `[batch, length, dim]`, such as `encode(encoder,
          hidden_states=True).hidden_states`.

    Returns:
        A tensor of shape `[batch, length, dim]`.

    Raises:
        ValueError: If the inputs are not a list or differ in width, or if their number has changed since the layer was
            built.

    Example:
    ```python
    mix = keras_transfer.layers.ScalarMix()
    mixed = mix([np.ones((2, 3, 4)), np.zeros((2, 3, 4))])
    print(mix.mix)
    ```

    Source: https://arxiv.org/abs/1802.05365, equation 1; the dropout, https://arxiv.org/abs/1904.02099.
    """

    @expects(dropout=RATE)
    def __init__(self, *, dropout: float = 0.0, layer_norm: bool = False, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.dropout, self.layer_norm, self.seed = dropout, layer_norm, seed
        self.random = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, inputs_shape):
        fits = isinstance(inputs_shape, list) and len({shape[-1] for shape in inputs_shape}) == 1
        expect(fits, "Inputs must be a list of tensors with the same width.", inputs_shape=inputs_shape)
        self.logits = self.add_weight((len(inputs_shape),), "zeros", name="logits")
        self.gamma = self.add_weight((), "ones", name="gamma")

    @property
    def mix(self) -> np.ndarray:
        """Float array of shape `[layers]`: the fraction that each layer contributes."""
        return ops.convert_to_numpy(ops.softmax(ops.cast(self.logits, "float32")))

    def call(self, inputs, training=None):
        rule = f"Expected {self.logits.shape[0]} inputs, as when the layer was built."
        expect(len(inputs) == self.logits.shape[0], rule, inputs=len(inputs))
        logits = ops.cast(self.logits, "float32")
        if training and self.dropout:
            kept = keras.random.uniform(logits.shape, seed=self.random) >= self.dropout
            logits = ops.where(kept, logits, -1e9)  # If all layers are dropped, they get equal weights.
        fractions = ops.cast(ops.softmax(logits) * ops.cast(self.gamma, "float32"), self.compute_dtype)
        if self.layer_norm:
            inputs = [_normalized(layer) for layer in inputs]
        return sum(fractions[i] * layer for i, layer in enumerate(inputs))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape[0]

    def plot(self, names: Sequence | None = None) -> Any:
        """Plots the fraction that each layer contributes.

        Args:
            names: List of the layers' names. Defaults to `None`, their numbers.

        Returns:
            A matplotlib figure.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If the number of names differs from the number of layers.
        """
        mix = self.mix
        names = [str(i) for i in range(len(mix))] if names is None else [str(name) for name in names]
        expect(len(names) == len(mix), f"`names` must contain one name for each of the {len(mix)} layers.", names=names)
        axes = new_axes()
        bars = axes.bar(names, mix, color=BLUE)
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.bar_label(bars, [f"{fraction:.2f}" for fraction in mix], padding=2, bbox=behind)
        axes.axhline(1 / len(mix), color=BLACK, linestyle=":", label="uniform")
        axes.set(xlabel="layer", ylabel="fraction", title=f"{self.name}: gamma {float(self.gamma):.2f}")
        axes.margins(y=0.12)
        axes.legend()
        return axes.figure


def _normalized(layer):
    values = ops.cast(layer, "float32")
    values = values - ops.mean(values, axis=-1, keepdims=True)
    values = values * ops.rsqrt(ops.mean(ops.square(values), axis=-1, keepdims=True) + 1e-12)
    return ops.cast(values, layer.dtype)
