"""One vector of each word from all layers of an encoder, by weights that a task learns."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_transfer")
class ScalarMix(keras.layers.Layer):
    """A weighted mean of an encoder's layers, whose weights and scale are learnt with the task (Peters et al. 2018).

    gamma * sum_k softmax(w)_k * h_k, over the `hidden_states` of any encoder. The weights say which layers a task uses:
    look at `mix` or at `plot()` after training.

    Args:
        dropout: float in [0, 1), the chance that a layer is left out of the mean while training.
        layer_norm: bool, whether each layer's vectors are first brought to mean 0 and variance 1, each by itself (the
            original's code takes the statistics of a whole batch).
        seed: int, of the dropout.

    Inputs: a list of tensors of one shape, such as `encode(encoder, hidden_states=True).hidden_states`.

    Returns:
        A tensor of that shape.

    Raises:
        ValueError: `dropout` is out of range; the inputs are no list, or not as many as when it was built.

    Example:
    ```python
    mix = keras_transfer.layers.ScalarMix()
    mixed = mix([np.ones((2, 3, 4)), np.zeros((2, 3, 4))])
    print(mix.mix)
    ```

    Source: https://arxiv.org/abs/1802.05365, equation 1; the dropout, https://arxiv.org/abs/1904.02099.
    """

    def __init__(self, dropout=0.0, layer_norm=False, seed=None, **options):
        super().__init__(**options)
        if not 0 <= dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: {dropout!r}")
        self.dropout, self.layer_norm, self.seed = dropout, layer_norm, seed
        self.random = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, inputs_shape):
        if not isinstance(inputs_shape, list):
            raise ValueError(f"a list of tensors is mixed. Received: one of the shape {inputs_shape}")
        self.logits = self.add_weight((len(inputs_shape),), "zeros", name="logits")
        self.gamma = self.add_weight((), "ones", name="gamma")

    @property
    def mix(self):
        """float array [layers], the share of each layer."""
        return ops.convert_to_numpy(ops.softmax(ops.cast(self.logits, "float32")))

    def call(self, inputs, training=None):
        if len(inputs) != self.logits.shape[0]:
            raise ValueError(f"this mix is of {self.logits.shape[0]} layers. Received: {len(inputs)}")
        logits = ops.cast(self.logits, "float32")
        if training and self.dropout:
            kept = keras.random.uniform(logits.shape, seed=self.random) >= self.dropout
            logits = ops.where(kept, logits, -1e9)  # where none is kept, all are, alike
        shares = ops.cast(ops.softmax(logits) * ops.cast(self.gamma, "float32"), self.compute_dtype)
        if self.layer_norm:
            inputs = [_normalized(layer) for layer in inputs]
        return sum(shares[i] * layer for i, layer in enumerate(inputs))

    def compute_output_shape(self, inputs_shape):
        return inputs_shape[0]

    def plot(self, names=None):
        """Draws the share of each layer.

        Args:
            names: list, what the layers are called; None for their numbers.

        Returns:
            A matplotlib figure.

        Raises:
            ImportError: matplotlib is not installed.
            ValueError: there are not as many names as layers.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(f"a picture needs matplotlib: `pip install matplotlib`. Received: {error}") from error
        mix = self.mix
        names = [str(i) for i in range(len(mix))] if names is None else [str(name) for name in names]
        if len(names) != len(mix):
            raise ValueError(f"{len(mix)} layers have as many names. Received: {len(names)}")
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        bars = axes.bar(names, mix)
        axes.bar_label(bars, [f"{share:.2f}" for share in mix])
        axes.axhline(1 / len(mix), color="grey", linestyle=":", label="all alike")
        axes.set(xlabel="layer", ylabel="share", title=f"{self.name}: gamma {float(self.gamma):.2f}")
        axes.margins(y=0.12)
        axes.legend()
        return figure

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout, "layer_norm": self.layer_norm, "seed": self.seed}


def _normalized(layer):
    values = ops.cast(layer, "float32")
    values = values - ops.mean(values, axis=-1, keepdims=True)
    values = values * ops.rsqrt(ops.mean(ops.square(values), axis=-1, keepdims=True) + 1e-12)
    return ops.cast(values, layer.dtype)
