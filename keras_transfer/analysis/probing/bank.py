"""Many small probes that read the same vectors, trained as one Keras model: all layers, seeds, and control tasks."""

import dataclasses
import math
import zlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis.stored_states import StoredStates, blocks

FEWEST_STEPS = 400  # Of a training run. On few rows, an epoch has few steps.
FEWEST_BATCHES = 8  # Of an epoch.
WIDTH = 256  # Of the projections of edge probes, and by default of their MLP, as in jiant.


@dataclasses.dataclass
class Items:
    """What probes read: places of vectors, and a label for each.

    Attributes:
        places: Integer array [items] or, for spans, [items, spans, width], negative at unused places.
        labels: Integer array [items, members], negative if no probe knows the label, or a multi-hot one [items,
            classes].
        sentences: Integer array [items].
        keys: Integer array [items], equal for items that are the same without their context.
        texts: Function from numbers of sentences to those sentences.
    """

    states: StoredStates
    places: np.ndarray
    labels: np.ndarray
    sentences: np.ndarray
    keys: np.ndarray
    texts: Callable

    def some(self, chosen):
        """Returns some of the items, given a slice, or an array of their numbers or of booleans."""
        names = ("places", "labels", "sentences", "keys")
        return dataclasses.replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def of_some_sentences(self, count, seed=0):
        """Returns the items of at most so many sentences, which are drawn at random."""
        own = np.unique(self.sentences)
        return self.some(np.isin(self.sentences, np.random.default_rng(seed).permutation(own)[:count]))

    def of(self, encode):
        """Returns the items with the vectors of another encoder, given a function that returns `StoredStates`."""
        own, which = np.unique(self.sentences, return_inverse=True)
        states = encode(self.texts(own))
        shift = (states.starts[:-1] - self.states.starts[own])[which]
        shift = shift.reshape(-1, *[1] * (self.places.ndim - 1))
        return dataclasses.replace(self, states=states, places=np.where(self.places < 0, -1, self.places + shift))

    def read(self, chosen, weights):
        """Returns the inputs of a bank."""
        places = self.places[chosen]
        if places.ndim > 1:  # Batches have few different widths, because each may be compiled.
            width = int((places >= 0).sum(axis=-1).max(initial=1))
            places = places[..., : 2 ** math.ceil(math.log2(width))]
        vectors = [self.states.column(name)[np.maximum(places, 0)] for name in self.states.names]
        inputs = {"vectors": vectors, "labels": self.labels[chosen].astype("int32"), "weights": weights}
        return {**inputs, "inside": (places >= 0).astype("float32")} if places.ndim > 1 else inputs

    def statistics(self):
        """Returns the mean and 1 / deviation of each dimension in each layer, as two lists."""
        chosen = np.unique(self.places[self.places >= 0])
        means, scales = [], []
        for name in self.states.names:
            column, count, total, squares = self.states.column(name), 0, 0.0, 0.0
            first = np.asarray(column[chosen[:1]], "float64")  # Squares of differences from it lose no digits.
            for start in range(0, len(chosen), 16384):
                values = column[chosen[start : start + 16384]].astype("float64") - first
                count, total, squares = count + len(values), total + values.sum(0), squares + (values**2).sum(0)
            deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0))
            means.append((first[0] + total / count).astype("float32"))
            scales.append((1 / np.where(deviation > 1e-7, deviation, 1)).astype("float32"))
        return means, scales

    def __len__(self):
        return len(self.labels)


class ProbeBank(keras.Model):
    """Probes [layers, members] that each see the vectors of one layer and labels of their own.

    The loss is the sum of all probes' mean losses, so each of them is what it would be alone. A last layer, if any, is
    a mix: each member's own weighted mean of all layers.

    Args:
        widths: List of integers, the dimensions of each layer.
        members: Integer. Number of probes of each layer.
        hidden_dim: Integer. Width of a hidden layer with ReLU, or `None` for linear probes.
        mixes: Boolean. Whether there is a mix.
    """

    def __init__(self, widths, members, classes, hidden_dim=None, mixes=False):
        super().__init__()
        self.widths, self.members, self.classes, self.hidden_dim = list(widths), members, classes, hidden_dim
        self.means = [self._fixed((width,), f"mean_{i}") for i, width in enumerate(widths)]
        self.scales = [self._fixed((width,), f"scale_{i}") for i, width in enumerate(widths)]
        self.probes: list[dict] = [self._probe(width, f"probe_{i}") for i, width in enumerate(widths)]
        self.mix: dict = {}
        if mixes:
            self.probes.append(self._probe(widths[0], "mix"))
            self.mix = {
                "logits": self.add_weight((members, len(widths)), "zeros", name="mix_logits"),
                "gamma": self.add_weight((members,), "ones", name="mix_gamma"),
            }
        self.built = True
        self.compile(keras.optimizers.Adam(1e-3), jit_compile=keras.backend.backend() == "jax")

    def _fixed(self, shape, name):
        return self.add_weight(shape, "zeros", trainable=False, name=name)

    def _probe(self, width, name):
        """Returns the weights of the probes of a layer by name, with an axis of members, the second last of all."""
        shapes: dict[str, tuple] = {"kernel": (width, self.members, self.hidden_dim or self.classes)}
        shapes["bias"] = shapes["kernel"][1:]
        if self.hidden_dim:
            shapes |= {"upper_kernel": (self.hidden_dim, self.members, self.classes)}
            shapes["upper_bias"] = shapes["upper_kernel"][1:]
        return {part: self.add_weight(shape, "zeros", name=f"{name}_{part}") for part, shape in shapes.items()}

    def begin(self, statistics, seeds):
        """Sets initial weights, of each member from its seed, and a new state of the optimizer."""
        for means, own in zip(statistics, (self.means, self.scales)):
            for variable, value in zip(own, means):
                variable.assign(value)
        for layer, probe in enumerate(self.probes):
            for part, variable in probe.items():
                variable.assign(self._initial(part, variable.shape, layer, seeds))
        for name, variable in self.mix.items():
            variable.assign(ops.zeros(variable.shape) if name == "logits" else ops.ones(variable.shape))
        for variable in self.optimizer.variables:
            if variable is not self.optimizer.learning_rate:
                variable.assign(ops.zeros_like(variable))

    def _initial(self, part, shape, layer, seeds):
        """Returns the initial values of a weight: Glorot's uniform for kernels, 0 for biases, 1 for scales."""
        if not part.endswith("kernel"):
            return np.full(shape, float(part == "scale"), "float32")
        values, limit = np.zeros(shape, "float32"), math.sqrt(6 / (shape[0] + shape[-1]))
        if len(self.probes[layer]) == 2:
            limit = min(limit, 0.05)  # In few dimensions, a linear probe would need long to undo it.
        for member, seed in enumerate(seeds):
            random = np.random.default_rng([seed, layer, zlib.crc32(part.encode())])
            values[:, member] = random.uniform(-limit, limit, (shape[0], shape[-1]))
        return values

    def call(self, inputs):
        logits = ops.cast(self.logits(inputs), "float32")
        labels = ops.one_hot(inputs["labels"], self.classes)[:, None]  # [batch, 1, members, classes]
        losses = ops.logsumexp(logits, axis=-1) - ops.sum(labels * logits, axis=-1)
        answers = ops.cast(ops.argmax(logits, axis=-1), "int32")
        known = ops.cast(inputs["labels"] >= 0, "float32")[:, None]
        hits = ops.cast(answers == inputs["labels"][:, None], "float32")
        return {"loss": losses * known, "answer": answers, "hits": hits, "claims": ops.ones_like(hits)}

    def logits(self, inputs):
        """Returns the logits [batch, layers, members, classes]."""
        vectors = [
            (ops.cast(each, "float32") - mean) * scale
            for each, mean, scale in zip(inputs["vectors"], self.means, self.scales)
        ]
        if self.mix:  # [batch, ..., layers, dim] to [batch, ..., members, dim]
            vectors.append(ops.matmul(self.mixture(), ops.stack(vectors, axis=-2)))
        found = []
        for layer, (each, probe) in enumerate(zip(vectors, self.probes)):
            of_members = bool(self.mix) and layer == len(self.widths)
            found.append(self._answer(each, probe, of_members, inputs.get("inside")))
        return ops.stack(found, axis=1)

    def mixture(self):
        """Returns the factor of each layer in the mixes, [members, layers]."""
        return ops.softmax(self.mix["logits"], axis=-1) * self.mix["gamma"][:, None]

    def _answer(self, vectors, probe, of_members, inside):
        """Returns the logits of one layer [batch, members, classes]."""
        found = product(vectors, probe["kernel"], of_members) + probe["bias"]
        if not self.hidden_dim:
            return found
        return product(ops.relu(found), probe["upper_kernel"], True) + probe["upper_bias"]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        weights = x["weights"][:, None, None]
        return ops.sum(ops.sum(y_pred["loss"] * weights, axis=0) / ops.maximum(ops.sum(weights), 1.0))

    def members_of(self, layer):
        """Returns the weights of the probes of a layer, each with its axis of members."""
        found = [(variable, len(variable.shape) - 2) for variable in self.probes[layer].values()]
        if self.mix and layer == len(self.probes) - 1:
            found += [(variable, 0) for variable in self.mix.values()]
        return found


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

    def _probe(self, width, name):
        members, hidden, shapes = self.members, self.hidden_dim, {}
        for span in range(self.spans):
            shapes |= {f"project_{span}_kernel": (width, members, WIDTH), f"project_{span}_bias": (members, WIDTH)}
            shapes[f"attend_{span}_kernel"] = (WIDTH, members, 1)
        shapes |= {"hidden_kernel": (self.spans * WIDTH, members, hidden), "hidden_bias": (members, hidden)}
        shapes |= {"scale": (members, hidden), "offset": (members, hidden)}
        shapes |= {"upper_kernel": (hidden, members, self.classes), "upper_bias": (members, self.classes)}
        return {part: self.add_weight(shape, "zeros", name=f"{name}_{part}") for part, shape in shapes.items()}

    def _answer(self, vectors, probe, of_members, inside):
        pooled = []
        for span in range(self.spans):
            words = product(vectors[:, span], probe[f"project_{span}_kernel"], of_members)
            words = words + probe[f"project_{span}_bias"]  # [batch, width, members, WIDTH]
            scores = product(words, probe[f"attend_{span}_kernel"], True)
            scores = scores - 1e9 * (1 - inside[:, span, :, None, None])
            pooled.append(ops.sum(ops.softmax(scores, axis=1) * words, axis=1))
        found = ops.tanh(product(ops.concatenate(pooled, -1), probe["hidden_kernel"], True) + probe["hidden_bias"])
        found = found - ops.mean(found, axis=-1, keepdims=True)
        found = found * ops.rsqrt(ops.mean(ops.square(found), axis=-1, keepdims=True) + 1e-5)
        return product(found * probe["scale"] + probe["offset"], probe["upper_kernel"], True) + probe["upper_bias"]

    def call(self, inputs):
        logits = ops.cast(self.logits(inputs), "float32")
        labels = ops.cast(inputs["labels"], "float32")[:, None, None]  # [batch, 1, 1, classes]
        claims = ops.cast(logits > 0, "float32")
        return {
            "loss": ops.mean(ops.softplus(logits) - labels * logits, axis=-1),
            "answer": ops.cast(ops.argmax(logits, axis=-1), "int32"),
            "hits": ops.sum(claims * labels, axis=-1),
            "claims": ops.sum(claims, axis=-1),
        }


def product(vectors, kernel, of_members=False):
    """Returns vectors [..., dim], or [..., members, dim], times kernels [dim, members, out] of the members."""
    axes = len(vectors.shape) - (2 if of_members else 1)
    before = [ops.shape(vectors)[axis] for axis in range(axes)]
    if of_members:
        found = ops.einsum("bmd,dmc->bmc", ops.reshape(vectors, (-1, *vectors.shape[-2:])), kernel)
    else:
        flat = ops.reshape(vectors, (-1, vectors.shape[-1]))
        found = ops.matmul(flat, ops.reshape(kernel, (kernel.shape[0], -1)))
    return ops.reshape(found, (*before, *kernel.shape[1:]))


def train(bank, items, validation, statistics, seeds, *, epochs, batch_size, learning_rate, step=lambda: None):
    """Trains all probes of a bank, each of which then has the weights of its best epoch.

    Args:
        statistics: What `items.statistics()` returns.
        seeds: List of integers. The seed of each member. The first is that of the order of the items, too.
        epochs: Integer. Number of epochs, or more if they would have too few steps. The validation items are read as
            often.
        step: Function that is called after each step.
    """
    bank.begin(statistics, seeds)
    most = batch_size
    batch_size, epochs, checks = schedule(len(items), epochs, batch_size)
    steps, number = -(-len(items) // batch_size) * epochs, 0
    shape = (len(bank.probes), bank.members)
    best, kept = np.full(shape, np.inf), [[None] * len(bank.members_of(layer)) for layer in range(shape[0])]
    for epoch in range(epochs):
        for chosen, weights in blocks(len(items), batch_size, seeds[0], epoch):
            bank.optimizer.learning_rate = learning_rate * 0.5 * (1 + math.cos(math.pi * number / steps))
            bank.train_on_batch(items.read(chosen, weights))
            number += 1
            step()
        if epoch in checks:
            losses = answers(bank, validation, most)["loss"].mean(axis=0)
            better, best = losses < best, np.minimum(losses, best)
            for layer in range(shape[0]):
                for place, (variable, axis) in enumerate(bank.members_of(layer)):
                    values, old = ops.convert_to_numpy(variable), kept[layer][place]
                    improved = better[layer].reshape([-1 if i == axis else 1 for i in range(values.ndim)])
                    kept[layer][place] = np.where(improved, values, values if old is None else old)
    for layer in range(shape[0]):
        for (variable, _), values in zip(bank.members_of(layer), kept[layer]):
            variable.assign(values)


def schedule(count, epochs, batch_size):
    """Returns the batch size and the number of epochs for so many items, and the epochs after which to validate."""
    batch_size = min(batch_size, max(32, 2 ** math.ceil(math.log2(max(count / FEWEST_BATCHES, 1)))))
    batches = -(-count // batch_size)
    more = max(epochs, -(-FEWEST_STEPS // batches))
    return batch_size, more, {round((i + 1) * more / epochs) - 1 for i in range(epochs)}


def steps_of(count, epochs, batch_size):
    """Returns the number of steps in which `train` reads so many items."""
    batch_size, epochs, _ = schedule(count, epochs, batch_size)
    return -(-count // batch_size) * epochs


def answers(bank, items, batch_size) -> dict[str, Any]:
    """Returns the losses, answers and hits of all probes for all items, a dict of arrays [items, layers, members]."""
    found: dict[str, list] = {}
    for chosen, weights in blocks(len(items), batch_size):
        for name, values in bank.predict_on_batch(items.read(chosen, weights)).items():
            found.setdefault(name, []).append(np.asarray(values)[: int(weights.sum())])
    return {name: np.concatenate(parts) for name, parts in found.items()}
