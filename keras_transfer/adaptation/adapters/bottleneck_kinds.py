"""Bottleneck adapters: Houlsby, Pfeiffer, parallel, Compacter, and their fusion."""

from keras_transfer.adaptation.adapters.kinds import AdapterKind, boolean, positive, register_kind, strings
from keras_transfer.adaptation.adapters.places import blocks_of, copy_weights, norms_of, put, put_in_blocks, width_of
from keras_transfer.layers.adapters import BottleneckAdapter, CompacterAdapter, FusionAdapter, Rule

SUBLAYERS = ("attention", "feed_forward")


@register_kind
class Houlsby(AdapterKind):
    """Bottleneck adapters after attention and after the feed-forward network (Houlsby et al. 2019).

    Copies of the norms of the blocks are trained, too.

    Args:
        size: Integer. Width of the bottleneck. Defaults to `64`.
        activation: String. Defaults to `"gelu"`.
        norms: Boolean. Whether the norms of the blocks train. Defaults to `True`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Houlsby(size=32))
    ```
    """

    for_backbones = True
    size: int = 64
    activation: str = "gelu"
    norms: bool = True

    def __post_init__(self):
        self.check(size=positive(self.size), norms=boolean(self.norms))

    def attach(self, encoder, name):
        put_in_blocks(encoder, SUBLAYERS, name, BottleneckAdapter, self.size, self.activation)
        for block in blocks_of(encoder) if self.norms else ():
            for place, norm in norms_of(block).items():
                copy_weights(encoder, norm, ("gamma", "beta"), f"{block.name}.{place}", name)


@register_kind
class Pfeiffer(AdapterKind):
    """One bottleneck adapter after the feed-forward network, which reads the sum with the residual (Pfeiffer 2021).

    Args:
        size: Integer. Width of the bottleneck. Defaults to `48`.
        activation: String. Defaults to `"relu"`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Pfeiffer(size=32))
    ```
    """

    size: int = 48
    activation: str = "relu"

    def __post_init__(self):
        self.check(size=positive(self.size))

    def attach(self, encoder, name):
        put_in_blocks(encoder, ["feed_forward"], name, BottleneckAdapter, self.size, self.activation, "summed")


@register_kind
class Parallel(AdapterKind):
    """A bottleneck beside the feed-forward network, with the same inputs (He et al. 2022).

    Args:
        size: Integer. Width of the bottleneck. Defaults to `64`.
        scale: Float. Factor of its outputs. Defaults to `4.0`.
        activation: String. Defaults to `"relu"`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Parallel(size=32))
    ```
    """

    size: int = 64
    scale: float = 4.0
    activation: str = "relu"

    def __post_init__(self):
        self.check(size=positive(self.size))

    def attach(self, encoder, name):
        arguments = (self.size, self.activation, "inputs", float(self.scale))
        put_in_blocks(encoder, ["feed_forward"], name, BottleneckAdapter, *arguments)


@register_kind
class Compacter(AdapterKind):
    """Houlsby bottlenecks whose kernels are sums of Kronecker products (Karimi Mahabadi et al. 2021).

    Args:
        size: Integer. Width of the bottleneck. Defaults to `32`.
        terms: Integer. Number of products. It must divide `size` and the width of the encoder. Defaults to `4`.
        rank: Integer. Defaults to `1`.
        activation: String. Defaults to `"gelu"`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.Compacter(size=16, terms=2))
    ```
    """

    for_backbones = True
    size: int = 32
    terms: int = 4
    rank: int = 1
    activation: str = "gelu"

    def __post_init__(self):
        self.check(size=positive(self.size), terms=positive(self.terms), rank=positive(self.rank))

    def attach(self, encoder, name):
        divides = width_of(encoder) % self.terms == self.size % self.terms == 0
        self.check(terms=(divides, "a divisor of both widths"))
        rule = Rule(self.terms, name="rule")
        put_in_blocks(encoder, SUBLAYERS, name, CompacterAdapter, self.size, self.activation, rule, self.rank)


@register_kind
class Fusion(AdapterKind):
    """Attention over the outputs of several trained bottleneck adapters (AdapterFusion, Pfeiffer et al. 2021).

    Args:
        sources: List of at least two names of adapters of the encoder.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    for name in ("first", "second"):
        keras_transfer.adaptation.add_adapters(model, "pfeiffer:8", name=name)
    fusion = keras_transfer.adaptation.Fusion(["first", "second"])
    keras_transfer.adaptation.add_adapters(model, fusion, name="both")
    ```
    """

    for_backbones = True
    sources: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "sources", strings(self.sources))
        self.check(sources=(len(set(self.sources)) > 1, "at least two names of adapters"))

    def attach(self, encoder, name):
        if unknown := [source for source in self.sources if source not in encoder.adapters]:
            raise ValueError(
                f"Unknown adapters. Expected some of {list(encoder.adapters)}. Received: sources={unknown}"
            )
        kinds = {source: encoder.adapters[source] for source in self.sources}
        if norms := [source for source, found in kinds.items() if any(getattr(kind, "norms", False) for kind in found)]:
            raise ValueError(
                "`Fusion` combines bottlenecks, not the norms that were trained with them. Train its sources with "
                f"`norms=False`. Received: sources={norms} with `norms=True`"
            )
        found = [slot for slot in encoder.adapter_slots if all(source in slot.adapters for source in self.sources)]
        found = [slot for slot in found if all(hasattr(slot.adapters[source], "change") for source in self.sources)]
        if not found:
            raise ValueError(f"`Fusion` needs bottleneck adapters at the same places. Received: {self.sources}")
        for slot in found:
            put(encoder, slot, name, FusionAdapter(slot, self.sources, dtype=slot.dtype_policy, name=name))
