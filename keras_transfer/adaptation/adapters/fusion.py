"""AdapterFusion: attention over the outputs of several trained bottlenecks."""

import weakref

import keras
from keras import ops

from keras_transfer.adaptation.adapters.kind import AdapterKind, register_kind, strings
from keras_transfer.adaptation.adapters.places import put
from keras_transfer.core.expect import expect
from keras_transfer.layers import Adapter


@register_kind()
class Fusion(AdapterKind):
    """Attention over the outputs of several trained bottleneck adapters (AdapterFusion, Pfeiffer et al. 2021).

    Args:
        sources: List of at least two names of bottleneck adapters that the encoder already has. Required.

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
        expect(len(set(self.sources)) > 1, "`sources` must be at least two names of adapters.", sources=self.sources)

    def attach(self, encoder, name):
        unknown = [source for source in self.sources if source not in encoder.adapters]
        expect(not unknown, f"Unknown adapters. Expected some of {list(encoder.adapters)}.", sources=unknown)
        kinds = {source: encoder.adapters[source] for source in self.sources}
        norms = [source for source, found in kinds.items() if any(getattr(kind, "norms", False) for kind in found)]
        rule = (
            "`Fusion` combines bottlenecks, not the norms that were trained with them. Train its sources with "
            "`norms=False`."
        )
        expect(not norms, rule, norms=norms)
        found = [slot for slot in encoder.attached.slots if all(source in slot.adapters for source in self.sources)]
        found = [slot for slot in found if all(hasattr(slot.adapters[source], "change") for source in self.sources)]
        rule = (
            "`Fusion` requires bottleneck adapters at the same places. Train its sources with one kind, such as "
            "'pfeiffer'."
        )
        expect(found, rule, sources=self.sources)
        for slot in found:
            put(encoder, slot, name, FusionAdapter(slot, self.sources, dtype=slot.dtype_policy, name=name))


class FusionAdapter(Adapter):
    """Attends to the changes of several adapters.

    The query is the output of the sub-layer, or its sum with the residual if an adapter uses that sum.

    Source: https://arxiv.org/abs/2005.00247
    """

    def __init__(self, slot, sources, **kwargs):
        super().__init__(**kwargs)
        self.slot = weakref.ref(slot)
        self.sources = list(sources)

    @property
    def uses_sum(self):
        return any(self.slot().adapters[name].uses_sum for name in self.sources)

    def build(self, outputs_shape, *_):
        dim = outputs_shape[-1]
        normal = keras.initializers.RandomNormal(stddev=0.02)
        for name in ("query", "key"):
            kernel = self.add_weight(name=f"{name}_kernel", shape=(dim, dim), initializer=normal.clone())
            bias = self.add_weight(name=f"{name}_bias", shape=(dim,), initializer="zeros")
            setattr(self, name, (kernel, bias))
        self.value = self.add_weight(name="value_kernel", shape=(dim, dim), initializer="identity")

    def call(self, outputs, inputs=None, summed=None, training=None):
        adapters = [self.slot().adapters[name] for name in self.sources]
        changes = ops.stack([layer.change(outputs, inputs, summed) for layer in adapters], axis=-2)
        query = ops.matmul(outputs if summed is None else summed, self.query[0]) + self.query[1]
        key = ops.matmul(changes, self.key[0]) + self.key[1]
        scores = ops.sum(ops.expand_dims(query, -2) * key, axis=-1)
        weights = ops.cast(ops.softmax(ops.cast(scores, "float32")), changes.dtype)
        return outputs + ops.sum(weights[..., None] * ops.matmul(changes, self.value), axis=-2)
