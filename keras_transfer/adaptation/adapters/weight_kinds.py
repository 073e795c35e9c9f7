"""Adapters that change the weights of layers: LoRA, IA3 and BitFit."""

import keras

from keras_transfer.adaptation.adapters.kinds import AdapterKind, boolean, fraction, positive, register_kind, strings
from keras_transfer.adaptation.adapters.places import choose_targets, copy_weights, put, replacing_slot
from keras_transfer.keras_internals import layers_within
from keras_transfer.layers.adapters import AdaptedDense, LowRankAdapter, ScalingAdapter

NORMS = (keras.layers.LayerNormalization, keras.layers.RMSNormalization)


@register_kind
class LoRA(AdapterKind):
    """Low-rank changes to dense layers (Hu et al. 2022), or DoRA (Liu et al. 2024).

    Args:
        rank: Integer. Defaults to `8`.
        alpha: Float. The change is multiplied by `alpha / rank`. Defaults to `None`, twice the rank.
        targets: List of names of dense layers (`"query"`, `"key"`, `"value"`, `"output"`, `"inner"`, `"outer"`,
            `"gate"`), or regular expressions that match whole paths (`"block_[01].query"`). Defaults to
            `("query", "value")`.
        dropout: Float between 0 and 1. Dropout rate of the inputs. Defaults to `0.0`.
        rank_stabilized: Boolean. Whether the factor is `alpha / sqrt(rank)` (rsLoRA, Kalajdzievski 2023). Defaults to
            `False`.
        magnitude: Boolean. Whether the length of each column is a weight of its own (DoRA). Defaults to `False`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.LoRA(rank=4, targets=["query", "inner"]))
    ```
    """

    for_backbones = True
    rank: int = 8
    alpha: float | None = None
    targets: tuple = ("query", "value")
    dropout: float = 0.0
    rank_stabilized: bool = False
    magnitude: bool = False

    def __post_init__(self):
        object.__setattr__(self, "targets", strings(self.targets))
        self.check(rank=positive(self.rank), dropout=fraction(self.dropout), targets=(self.targets, "names"))
        self.check(alpha=(self.alpha is None or isinstance(self.alpha, (int, float)), "a number"))
        self.check(rank_stabilized=boolean(self.rank_stabilized), magnitude=boolean(self.magnitude))

    @property
    def scale(self):
        alpha = 2 * self.rank if self.alpha is None else self.alpha
        return alpha / (self.rank**0.5 if self.rank_stabilized else self.rank)

    def attach(self, encoder, name):
        for parent, attribute, place, parts in choose_targets(encoder, self.targets):
            slot = replacing_slot(AdaptedDense, parent, attribute, place)
            options = {"dtype": parent.dtype_policy, "name": name}
            layer = LowRankAdapter(slot, parts, self.rank, self.scale, self.dropout, self.magnitude, **options)
            put(encoder, slot, name, layer)


@register_kind
class IA3(AdapterKind):
    """Learned scales of keys, values and the inner activations of the feed-forward network (Liu et al. 2022).

    Args:
        targets: List of dense layers whose outputs are scaled, as for `LoRA`. Defaults to `("key", "value")`.
        input_targets: List of dense layers whose inputs are scaled. Defaults to `("outer",)`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.IA3())
    ```
    """

    for_backbones = True
    targets: tuple = ("key", "value")
    input_targets: tuple = ("outer",)

    def __post_init__(self):
        for field in ("targets", "input_targets"):
            object.__setattr__(self, field, strings(getattr(self, field)))
        self.check(targets=(self.targets or self.input_targets, "names"))

    def attach(self, encoder, name):
        found = [(*target[:3], target[3]) for target in choose_targets(encoder, self.targets)]
        found += [(*target[:3], None) for target in choose_targets(encoder, self.input_targets)]
        for parent, attribute, place, parts in found:
            slot = replacing_slot(AdaptedDense, parent, attribute, place)
            put(encoder, slot, name, ScalingAdapter(slot, parts, dtype=parent.dtype_policy, name=name))


@register_kind
class BitFit(AdapterKind):
    """Copies of all biases of the encoder, which train instead of the originals (Ben Zaken et al. 2022).

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.BitFit())
    ```
    """

    for_backbones = True

    def attach(self, encoder, name):
        dense, found = (keras.layers.Dense, keras.layers.EinsumDense, *NORMS), {}
        for group in (layer for *_, layers in encoder.layer_groups() for layer in layers):
            found |= {id(layer): layer for layer, _ in layers_within(group) if isinstance(layer, dense)}
        biases = [(layer, "beta" if isinstance(layer, NORMS) else "bias") for layer in found.values()]
        biases = [(layer, attribute) for layer, attribute in biases if getattr(layer, attribute, None) is not None]
        if not biases:
            raise ValueError(f"`BitFit` needs an encoder with biases. Received: {type(encoder).__name__}")
        for layer, attribute in biases:
            copy_weights(encoder, layer, (attribute,), layer.path.replace("/", "."), name)
