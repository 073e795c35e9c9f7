"""Many small probes that read the same vectors, trained as one Keras model: all layers, seeds, and control tasks."""

import dataclasses
import math
import zlib
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis.stored_states import StoredStates, blocks
from keras_transfer.core.expect import expect

FEWEST_STEPS = 400  # Of a training run. On few rows, an epoch has few steps.
FEWEST_BATCHES = 8  # Of an epoch.
SAMPLE = 16384  # Items of which the mean and the deviation are computed.
WIDTH = 256  # Of the projections of edge probes, and by default of their MLP, as in jiant.


@dataclasses.dataclass
class Items:
    """What probes read: the places of vectors, and labels."""

    states: StoredStates
    places: np.ndarray  # [items], or for spans [items, spans, width], negative at unused places
    labels: np.ndarray  # [items, members], negative if no probe knows the label, or multi-hot [items, classes]
    sentences: np.ndarray  # [items]
    keys: np.ndarray  # [items], equal for items that are the same without their context

    @property
    def of_spans(self):
        """Boolean. Whether the items are spans, which can have several labels."""
        return self.places.ndim > 1

    def some(self, chosen):
        """Returns some of the items, given a slice, or an array of their numbers or of booleans."""
        names = ("places", "labels", "sentences", "keys")
        return dataclasses.replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def read(self, chosen, weights):
        """Returns the inputs of a bank."""
        places = self.places[chosen]
        if self.of_spans:  # Batches have few different widths, because each may be compiled.
            width = int((places >= 0).sum(axis=-1).max(initial=2))  # Keras warns of a softmax over one place.
            places = places[..., : 2 ** math.ceil(math.log2(width))]
        vectors = [self.states.column(name)[np.maximum(places, 0)] for name in self.states.names]
        inputs = {"vectors": vectors, "labels": self.labels[chosen].astype("int32"), "weights": weights}
        return {**inputs, "inside": (places >= 0).astype("float32")} if self.of_spans else inputs

    def statistics(self):
        """Returns the mean and 1 / deviation of each dimension in each layer, over a sample, as two lists."""
        places = np.unique(self.places[self.places >= 0])
        places = places[np.linspace(0, len(places) - 1, min(len(places), SAMPLE)).astype(int)]
        means, scales = [], []
        for name in self.states.names:
            values = self.states.column(name)[places].astype("float64")
            deviation = values.std(axis=0)
            means.append(values.mean(axis=0).astype("float32"))
            scales.append((1 / np.where(deviation > 1e-7, deviation, 1)).astype("float32"))
        return means, scales

    def __len__(self):
        return len(self.labels)


class ProbeBank(keras.Model):
    """Probes [layers, members] that each see the vectors of one layer and labels of their own.

    The loss is the sum of all probes' mean losses, so each of them is what it would be alone. A last layer, if any, is
    a mix: each member's own weighted mean of all layers.
    """

    def __init__(self, widths, members, classes, hidden_dim=None, mixes=False):
        super().__init__()
        self.members, self.classes, self.hidden_dim = members, classes, hidden_dim
        fixed = {"trainable": False, "initializer": "zeros"}
        self.means = [self.add_weight((width,), name=f"mean_{i}", **fixed) for i, width in enumerate(widths)]
        self.scales = [self.add_weight((width,), name=f"scale_{i}", **fixed) for i, width in enumerate(widths)]
        shapes = [self._shapes(width) for width in widths]
        if mixes:
            shapes.append({**shapes[0], "mix_logits": (members, len(widths)), "mix_gamma": (members, 1)})
        self.probes = [
            {part: self.add_weight(shape, "zeros", name=f"probe_{i}_{part}") for part, shape in own.items()}
            for i, own in enumerate(shapes)
        ]
        self.built = True
        self.compile(keras.optimizers.Adam(1e-3), jit_compile=keras.backend.backend() == "jax")

    def _shapes(self, width):
        """Returns the shapes of the weights of the probes of a layer, whose second last axis is that of members."""
        kernel = (width, self.members, self.hidden_dim or self.classes)
        upper = (kernel[-1], self.members, self.classes)
        found = {"kernel": kernel, "bias": kernel[1:]}
        return found | ({"upper_kernel": upper, "upper_bias": upper[1:]} if self.hidden_dim else {})

    def begin(self, statistics, seeds):
        """Sets initial weights, of each member from its seed, and a new state of the optimizer."""
        for variable, value in zip([*self.means, *self.scales], [*statistics[0], *statistics[1]], strict=True):
            variable.assign(value)
        for layer, probe in enumerate(self.probes):
            for part, variable in probe.items():
                variable.assign(self._initial(part, variable.shape, layer, seeds))
        for variable in self.optimizer.variables:
            if variable is not self.optimizer.learning_rate:
                variable.assign(ops.zeros(variable.shape, variable.dtype))

    def _initial(self, part, shape, layer, seeds):
        """Returns the initial values of a weight: Glorot's uniform for kernels, 1 for scales, 0 for the others."""
        if not part.endswith("kernel"):
            return np.full(shape, float(part in ("scale", "mix_gamma")), "float32")
        limit = math.sqrt(6 / (shape[0] + shape[-1]))
        if not self.hidden_dim:
            limit = min(limit, 0.05)  # In few dimensions, a linear probe would need long to undo it.
        draws = (np.random.default_rng([seed, layer, zlib.crc32(part.encode())]) for seed in seeds)
        return np.stack([draw.uniform(-limit, limit, (shape[0], shape[-1])) for draw in draws], axis=1)

    def call(self, inputs):
        logits, wanted = ops.cast(self.logits(inputs), "float32"), inputs["labels"][:, : self.members]
        labels = ops.one_hot(wanted, self.classes)[:, None]  # [batch, 1, members, classes]
        losses = ops.logsumexp(logits, axis=-1) - ops.sum(labels * logits, axis=-1)
        hits = ops.cast(ops.cast(ops.argmax(logits, axis=-1), "int32") == wanted[:, None], "float32")
        known = ops.cast(wanted >= 0, "float32")[:, None]
        return {"loss": losses * known, "hits": hits, "claims": ops.ones_like(hits)}

    def logits(self, inputs):
        """Returns the logits [batch, layers, members, classes]."""
        vectors = [
            (ops.cast(each, "float32") - mean) * scale
            for each, mean, scale in zip(inputs["vectors"], self.means, self.scales)
        ]
        found = [self._answer(*each, inputs, product) for each in zip(vectors, self.probes)]
        if len(self.probes) > len(vectors):  # [batch, ..., layers, dim] to [batch, ..., members, dim]
            mix = self.probes[-1]
            weights = ops.softmax(mix["mix_logits"], axis=-1) * mix["mix_gamma"]
            found.append(self._answer(ops.matmul(weights, ops.stack(vectors, axis=-2)), mix, inputs, member_product))
        return ops.stack(found, axis=1)

    def _answer(self, vectors, probe, inputs, multiply):
        """Returns the logits of one layer [batch, members, classes]."""
        found = multiply(vectors, probe["kernel"]) + probe["bias"]
        if not self.hidden_dim:
            return found
        return member_product(ops.relu(found), probe["upper_kernel"]) + probe["upper_bias"]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        weights = ops.convert_to_tensor(x["weights"])[:, None, None]
        return ops.sum(ops.sum(y_pred["loss"] * weights, axis=0) / ops.maximum(ops.sum(weights), 1.0))


class EdgeBank(ProbeBank):
    """Probes of spans of words, or of pairs of spans, as Tenney et al. (2019) have them in jiant 1.

    For the first and the second span apart, words are projected and pooled by self-attention. The pooled vectors are
    concatenated, and an MLP (tanh and layer normalization) gives a logit for each class. The loss is the binary
    cross-entropy. The SpanComparisonHead of jiant 2 has one pooling, no projection, and a softmax instead. There is no
    dropout: each probe keeps its best epoch.
    """

    def __init__(self, widths, members, classes, hidden_dim=None, mixes=False, spans=1):
        self.spans = spans
        super().__init__(widths, members, classes, hidden_dim or WIDTH, mixes)

    def _shapes(self, width):
        members, hidden, shapes = self.members, self.hidden_dim, {}
        for span in range(self.spans):
            shapes |= {f"project_{span}_kernel": (width, members, WIDTH), f"project_{span}_bias": (members, WIDTH)}
            shapes[f"attend_{span}_kernel"] = (WIDTH, members, 1)
        shapes |= {"hidden_kernel": (self.spans * WIDTH, members, hidden), "hidden_bias": (members, hidden)}
        shapes |= {"scale": (members, hidden), "offset": (members, hidden)}
        return shapes | {"upper_kernel": (hidden, members, self.classes), "upper_bias": (members, self.classes)}

    def _answer(self, vectors, probe, inputs, multiply):
        pooled = []
        for span in range(self.spans):
            words = multiply(vectors[:, span], probe[f"project_{span}_kernel"])
            words = words + probe[f"project_{span}_bias"]  # [batch, width, members, WIDTH]
            scores = member_product(words, probe[f"attend_{span}_kernel"])
            scores = scores - 1e9 * (1 - inputs["inside"][:, span, :, None, None])
            pooled.append(ops.sum(ops.softmax(scores, axis=1) * words, axis=1))
        found = ops.tanh(member_product(ops.concatenate(pooled, -1), probe["hidden_kernel"]) + probe["hidden_bias"])
        found = found - ops.mean(found, axis=-1, keepdims=True)
        found = found * ops.rsqrt(ops.mean(ops.square(found), axis=-1, keepdims=True) + 1e-5)
        return member_product(found * probe["scale"] + probe["offset"], probe["upper_kernel"]) + probe["upper_bias"]

    def call(self, inputs):
        logits = ops.cast(self.logits(inputs), "float32")
        labels = ops.cast(inputs["labels"], "float32")[:, None, None]  # [batch, 1, 1, classes]
        claims = ops.cast(logits > 0, "float32")
        return {
            "loss": ops.mean(ops.softplus(logits) - labels * logits, axis=-1),
            "hits": ops.sum(claims * labels, axis=-1),
            "claims": ops.sum(claims, axis=-1),
        }


def product(vectors, kernel):
    """Returns vectors [..., dim] times kernels [dim, members, out], [..., members, out]."""
    return ops.tensordot(vectors, kernel, axes=1)


def member_product(vectors, kernel):
    """Returns vectors [..., members, dim], each times the kernel of its member."""
    found = ops.einsum("bmd,dmc->bmc", ops.reshape(vectors, (-1, *vectors.shape[-2:])), kernel)  # "..." would be slow.
    return ops.reshape(found, (*ops.shape(vectors)[:-2], *kernel.shape[1:]))


def train(bank, items, validation, statistics, seeds, *, epochs, batch_size, learning_rate, step=lambda: None):
    """Trains all probes of a bank from the seed of each member, and leaves each with the weights of its best epoch."""
    bank.begin(statistics, seeds)
    most, number = batch_size, 0
    batch_size, epochs, checks, steps = schedule(len(items), epochs, batch_size)
    variables = [(layer, variable) for layer, probe in enumerate(bank.probes) for variable in probe.values()]
    kept = [ops.convert_to_numpy(variable) for _, variable in variables]
    best = np.full((len(bank.probes), bank.members), np.inf)
    for epoch in range(epochs):
        for chosen, weights in blocks(len(items), batch_size, seeds[0], epoch):
            bank.optimizer.learning_rate = learning_rate * 0.5 * (1 + math.cos(math.pi * number / steps))
            bank.train_on_batch(items.read(chosen, weights))
            number += 1
            step()
        if epoch in checks:
            losses = answers(bank, validation, most)["loss"].mean(axis=0)
            rule = "The losses must be finite. Lower `learning_rate`, unless the vectors of the model are not finite."
            expect(np.isfinite(losses).all(), rule, losses=losses.mean(axis=1).tolist())
            better, best = losses < best, np.minimum(losses, best)
            for place, (layer, variable) in enumerate(variables):
                kept[place] = np.where(better[layer][:, None], ops.convert_to_numpy(variable), kept[place])
    for (_, variable), values in zip(variables, kept):
        variable.assign(values)


def schedule(count, epochs, batch_size):
    """Returns the batch size, the number of epochs, those after which to validate, and the number of steps."""
    batch_size = min(batch_size, max(32, 2 ** math.ceil(math.log2(max(count / FEWEST_BATCHES, 1)))))
    batches = -(-count // batch_size)
    more = max(epochs, -(-FEWEST_STEPS // batches))
    return batch_size, more, {round((i + 1) * more / epochs) - 1 for i in range(epochs)}, batches * more


def answers(bank, items, batch_size) -> dict[str, Any]:
    """Returns the losses, hits and claims of all probes for all items, a dict of arrays [items, layers, members]."""
    found: dict[str, list] = {}
    for chosen, weights in blocks(len(items), batch_size):
        for name, values in bank.predict_on_batch(items.read(chosen, weights)).items():
            found.setdefault(name, []).append(np.asarray(values)[: int(weights.sum())])
    return {name: np.concatenate(parts) for name, parts in found.items()}
