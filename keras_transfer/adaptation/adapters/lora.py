"""LoRA and DoRA: low-rank changes to dense layers, and their form in PEFT folders."""

import dataclasses
import math
import re
import weakref
from typing import Any

import numpy as np
from keras import ops

from keras_transfer.adaptation.adapters.kind import NAMES, AdapterKind, register_kind
from keras_transfer.adaptation.adapters.places import choose_targets, put
from keras_transfer.core.expect import FLAG, RATE, expect, expects, integer, number
from keras_transfer.layers import AdaptedDense, Adapter, Dropout, dense_axes, stand_in, uniform


@expects(rank=integer(1), alpha=number(), targets=NAMES, dropout=RATE, rank_stabilized=FLAG, magnitude=FLAG)
@register_kind(lora={}, rslora={"rank_stabilized": True}, dora={"magnitude": True})
class LoRA(AdapterKind):
    """Low-rank changes to dense layers (Hu et al. 2022), or DoRA (Liu et al. 2024).

    Args:
        rank: Integer. Rank of the changes. Defaults to `8`.
        alpha: Float. The change is multiplied by `alpha / rank`. Defaults to `None`, twice the rank.
        targets: List of names of dense layers (`"query"`, `"key"`, `"value"`, `"output"`, `"inner"`, `"outer"`,
            `"gate"`), or regular expressions that match whole paths (`"block_[01].query"`). In an encoder-decoder,
            these names include cross-attention, `"cross_attention.query"` selects only that, and whole paths begin with
            `"encoder_"` or `"decoder_"` (`"decoder_.*value"`). Defaults to `("query", "value")`.
        dropout: Float between 0 and 1. Dropout rate of the inputs. Defaults to `0.0`.
        rank_stabilized: Boolean. Whether the factor is `alpha / sqrt(rank)` (rsLoRA, Kalajdzievski 2023). Defaults to
            `False`.
        magnitude: Boolean. Whether the length of each kernel column is a separate weight (DoRA). Defaults to `False`.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    keras_transfer.adaptation.add_adapters(model, keras_transfer.adaptation.LoRA(rank=4, targets=["query", "inner"]))
    ```
    """

    for_backbones = True
    merges = True
    peft_type = "LORA"
    rank: int = 8
    _: dataclasses.KW_ONLY
    alpha: float | None = None
    targets: tuple = ("query", "value")
    dropout: float = 0.0
    rank_stabilized: bool = False
    magnitude: bool = False

    @property
    def scale(self) -> float:
        """Float. The factor by which the low-rank change is multiplied."""
        alpha = 2 * self.rank if self.alpha is None else self.alpha
        return alpha / (self.rank**0.5 if self.rank_stabilized else self.rank)

    def count_weights(self, encoder: Any) -> int:
        """Returns how many weights `add_adapters` would add to an encoder, without adding them.

        Args:
            encoder: Encoder with blocks.

        Returns:
            Integer.

        Raises:
            ValueError: If a target matches no dense layer of the encoder.

        Example:
        ```python
        encoder = keras_transfer.encoders.Encoder.from_pretrained("minilm-l6")
        keras_transfer.adaptation.LoRA(rank=8).count_weights(encoder)  # 73728
        ```
        """
        count = 0
        for parent, attribute, _, parts in choose_targets(encoder, self.targets):
            layer = getattr(parent, attribute)
            layer = getattr(layer, "base", layer)  # It may have other adapters.
            rows = math.prod(layer.kernel.shape[axis] for axis in dense_axes(layer)[0])
            count += sum(self.rank * (rows + size) + self.magnitude * size for _, size in parts.values())
        return count

    def attach(self, encoder, name):
        for parent, attribute, place, parts in choose_targets(encoder, self.targets):
            slot = stand_in(AdaptedDense, parent, attribute, place)
            options = {"dtype": parent.dtype_policy, "name": name}
            layer = LowRankAdapter(slot, parts, self.rank, self.scale, self.dropout, self.magnitude, **options)
            put(encoder, slot, name, layer)

    # === PEFT folders ===

    def to_peft(self, modules, arrays, prefix):
        tensors, ranks, used = {}, {}, set()
        suffixes = ("_a", "_b", "_magnitude") if self.magnitude else ("_a", "_b")
        for name, segments in modules.items():
            pieces = [piece for segment in segments for piece in segment.pieces(arrays, "_a")]
            if not pieces:
                continue
            used |= {f"{key}{suffix}" for key, _, _ in pieces for suffix in suffixes}
            # Targets with the same first matrix share it.
            firsts = {arrays[f"{key}_a"].tobytes(): arrays[f"{key}_a"] for key, _, _ in pieces}
            starts = np.cumsum([0, *(a.shape[1] for a in firsts.values())])
            b = np.zeros((starts[-1], sum(segment.size for segment in segments)), "float32")
            for key, columns, own in pieces:
                start, values = starts[list(firsts).index(arrays[f"{key}_a"].tobytes())], arrays[f"{key}_b"]
                b[start : start + len(values), columns] = values[:, own]
            module = f"{prefix}{name}"
            ranks[module] = len(b)
            tensors[f"{module}.lora_A.weight"] = np.concatenate([*firsts.values()], axis=1).T.copy()
            tensors[f"{module}.lora_B.weight"] = b.T.copy()
            if self.magnitude:  # Columns that DoRA does not change keep their lengths.
                lengths = np.concatenate([np.linalg.norm(segment.kernel, axis=0) for segment in segments])
                for key, columns, own in pieces:
                    lengths[columns] = arrays[f"{key}_magnitude"][own]
                tensors[f"{module}.lora_magnitude_vector"] = lengths
        others = {module: rank for module, rank in ranks.items() if rank != self.rank}
        power = 0.5 if self.rank_stabilized else 1
        alphas = {rank: self.scale * rank**power for rank in {self.rank, *ranks.values()}}
        settings = {
            "bias": "none",
            "lora_bias": False,
            "r": self.rank,
            "lora_alpha": alphas[self.rank],
            "rank_pattern": others,
            "alpha_pattern": {module: alphas[rank] for module, rank in others.items()},
            "lora_dropout": self.dropout,
            "use_rslora": self.rank_stabilized,
            "use_dora": self.magnitude,
            "init_lora_weights": True,
        }
        return tensors, list(ranks), used, settings

    @classmethod
    def from_peft(cls, config, modules, folder):
        # Ranks and scales that differ between modules become one rank, the largest, and one scale: smaller matrices are
        # padded with zeros, and differing scales are multiplied into the second matrices.
        stabilized, magnitude = bool(config.get("use_rslora")), bool(config.get("use_dora"))
        rank = max((len(parts["lora_A"]) for _, parts in modules.values() if "lora_A" in parts), default=config["r"])
        alpha = config["lora_alpha"]
        if rank != config["r"]:
            alpha = alpha * (rank / config["r"]) ** (0.5 if stabilized else 1)
        options = {"alpha": alpha, "dropout": config.get("lora_dropout", 0.0), "rank_stabilized": stabilized}
        kind, targets, found = cls(rank, **options, magnitude=magnitude), set(), {}
        for name, (segments, parts) in modules.items():
            rule = f"{folder} must have all tensors of each module."
            has_all = {"lora_A", "lora_B"} <= set(parts) and (len(parts) == 3) == magnitude
            expect(has_all, rule, parts=sorted(parts), name=name)
            a, b = parts["lora_A"].T, parts["lora_B"].T
            own_rank = a.shape[1]
            own_scale = _scale_of(config, name, own_rank)
            if abs(own_scale / kind.scale - 1) > 1e-12:
                b = (b * (own_scale / kind.scale)).astype(b.dtype)
            if own_rank < rank:
                a, b = np.pad(a, ((0, 0), (0, rank - own_rank))), np.pad(b, ((0, rank - own_rank), (0, 0)))
            for segment in segments:
                targets.add(segment.path)
                key = f"adapter/{segment.layer}/{segment.target}"
                found[f"{key}_a"], found[f"{key}_b"] = a, b[:, segment.columns]
                if magnitude:
                    found[f"{key}_magnitude"] = parts["lora_magnitude_vector"].ravel()[segment.columns]
        expect(targets, "The folder must contain LoRA for at least one module.", folder=folder)
        return dataclasses.replace(kind, targets=sorted(targets)), found


class LowRankAdapter(Adapter):
    """Adds `scale * x A B` to the outputs of a dense layer (LoRA, Hu et al. 2022). `B` starts as zero.

    With `magnitude=True` (DoRA, Liu et al. 2024), each column of the changed kernel is scaled to a learned length.

    Args:
        parts: Dict from names to slices `(start, size)` of the outputs. Each has separate factors `A` and `B`.
        scale: Float. Factor of each change.
        magnitude: Boolean. Whether the column lengths are learned. Defaults to `False`.
    """

    def __init__(self, base, parts, rank, scale, dropout=0.0, magnitude=False, **kwargs):
        super().__init__(**kwargs)
        self.base = weakref.ref(base)
        self.parts = dict(parts)
        self.rank = rank
        self.scale = scale
        self.magnitude = magnitude
        self.dropout = Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, _=None):
        rows, self.units = self.base().kernel.shape
        self.factors = []
        for name, (_, size) in self.parts.items():
            a = self.add_weight(name=f"{name}_a", shape=(rows, self.rank), initializer=uniform())
            b = self.add_weight(name=f"{name}_b", shape=(self.rank, size), initializer="zeros")
            self.factors.append((a, b))
        self.magnitudes = []
        if self.magnitude:
            norms = self._norms()
            for name, (start, size) in self.parts.items():
                weight = self.add_weight(name=f"{name}_magnitude", shape=(size,), initializer="ones")
                weight.assign(norms[start : start + size])
                self.magnitudes.append(weight)

    def _norms(self):
        """Returns the lengths of the columns of the kernel without this change."""
        return np.linalg.norm(ops.convert_to_numpy(self.base().kernel), axis=0)

    def starts(self):
        if not self.magnitude:
            return []
        slices, norms = [slice(start, start + size) for start, size in self.parts.values()], self._norms()
        return [(weight, norms[part]) for weight, part in zip(self.magnitudes, slices)]

    def _factors(self):
        """Returns the `A` factors of all parts concatenated, and the `B` factors as one block matrix."""
        placed = [
            ops.pad(ops.convert_to_tensor(b), ((0, 0), (start, self.units - start - size)))
            for (_, b), (start, size) in zip(self.factors, self.parts.values())
        ]
        return ops.concatenate([a for a, _ in self.factors], axis=1), ops.concatenate(placed, axis=0)

    def _gain(self, kernel):
        """Returns the factor of each column of a changed kernel."""
        norms = ops.stop_gradient(ops.sqrt(ops.sum(ops.square(kernel), axis=0)))
        gain = ops.ones((self.units,), norms.dtype)
        for weight, (start, size) in zip(self.magnitudes, self.parts.values()):
            change = ops.cast(weight, norms.dtype) / norms[start : start + size] - 1
            gain = gain + ops.pad(change, ((start, self.units - start - size),))
        return gain

    def call(self, outputs, inputs, summed=None, training=None):
        a, b = (ops.cast(factor, self.compute_dtype) for factor in self._factors())
        x = self.dropout(inputs, training=training)
        outputs = outputs + ops.matmul(ops.matmul(x, a), b) * self.scale
        if not self.magnitude:
            return outputs
        kernel, bias = self.base().kernel, self.base().bias
        gain = ops.cast(self._gain(self._changed(ops.convert_to_tensor(kernel))), outputs.dtype)
        return gain * outputs if bias is None else gain * (outputs - bias) + bias

    def _changed(self, kernel):
        a, b = (ops.cast(factor, kernel.dtype) for factor in self._factors())
        return kernel + ops.matmul(a, b) * self.scale

    def merged(self, kernel, bias):
        changed, base = self._changed(kernel), self.base()
        if not self.magnitude:
            return changed, bias
        gain = self._gain(self._changed(ops.convert_to_tensor(base.kernel)))
        return changed * gain, None if bias is None else gain * (bias - base.bias) + base.bias


def _scale_of(config, module, rank):
    """Returns the factor of LoRA in a module, whose alpha may differ: PEFT has a dict of endings or expressions."""
    patterns = (config.get("alpha_pattern") or {}).items()
    alpha = next((value for end, value in patterns if re.match(rf"(.*\.)?({end})$", module)), config["lora_alpha"])
    return LoRA(rank, alpha=alpha, rank_stabilized=bool(config.get("use_rslora"))).scale


def changed_weight(config, module, parts, weight):
    """Returns the weight of a Transformers module with LoRA or DoRA, or the table of an embedding with LoRA."""
    if "lora_embedding_A" in parts and len(parts) == 2:
        a, b = parts["lora_embedding_A"], parts["lora_embedding_B"]
        return weight + (b @ a).T * _scale_of(config, module, len(a))
    a, b, lengths = parts["lora_A"], parts["lora_B"], parts.get("lora_magnitude_vector")
    changed = weight + b @ a * _scale_of(config, module, len(a))
    return changed if lengths is None else changed * (lengths.ravel() / np.linalg.norm(changed, axis=1))[:, None]
