"""Attention heads that follow the relations of syntax trees."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transfer.analysis.probing.trees import TREES, check_trees
from keras_transfer.analysis.result import Result
from keras_transfer.analysis.scores import fraction_with_interval
from keras_transfer.analysis.stored_states import subject_of
from keras_transfer.core.expect import expect, expects, integer
from keras_transfer.core.plots import BLUE, GREY, new_axes
from keras_transfer.data import Batches, preprocess_words
from keras_transfer.datasets import Trees
from keras_transfer.encoders import Encoder, EncoderDecoder, select_inputs
from keras_transfer.text import check_word_level, to_sentences

DIRECTIONS = ("to governor", "from governor")
_OFFSETS = [offset for offset in range(-5, 6) if offset]


class RelationHeads(Result):
    """For each syntactic relation, the attention head that follows it best, which `relation_heads` returns.

    Args:
        rights: Integer array `[2, relations, directions, blocks, heads]`. How often each head is right, in each half of
            the sentences.
        offsets: Integer array `[2, relations, offsets]`. The same for fixed offsets from -5 to 5, without 0.
        counts: Integer array `[2, relations]`. Number of words.
        relations: List of strings, of which the first is `"all"`.

    Attributes:
        rows: List of dicts, one for each relation, the most frequent first. `layer`, `head` and `direction` are those
            of the head that is right most often in one half of the sentences. `accuracy` is how often it is right in
            the other half, with the limits `low` and `high` of its 95% interval, and `count` the number of words there.
            `offset` is the best fixed offset of the governor in the first half, such as 1 for the next word, and
            `offset_accuracy` its accuracy in the other half.
        accuracies: Float array `[relations, directions, blocks, heads]`. The accuracy of each head on all sentences.
        relations: List of strings. The relations of `accuracies`.
    """

    title, index = "Attention heads by relation", ("relation",)
    columns = {
        **{name: (name, "") for name in ("relation", "count", "layer", "head", "direction")},
        "accuracy": ("accuracy", ".3f"),
        "95% interval": (("low", "high"), ".3f"),
        "offset": ("offset", "+d"),
        "its accuracy": ("offset_accuracy", ".3f"),
    }

    def __init__(self, rights: np.ndarray, offsets: np.ndarray, counts: np.ndarray, relations: list):
        self.relations, self.accuracies, self.rows = relations, [], []
        self.accuracies = rights.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)[:, None, None, None]
        for i in np.argsort(-counts.sum(axis=0), kind="stable"):
            chosen, scored = counts[:, i]
            if chosen and scored:
                direction, layer, head = np.unravel_index(rights[0, i].argmax(), rights.shape[2:])
                best = offsets[0, i].argmax()
                score = fraction_with_interval(int(rights[1, i, direction, layer, head]), int(scored), 0.95)
                self.rows.append(
                    {
                        "relation": relations[i],
                        "count": int(scored),
                        "layer": int(layer),
                        "head": int(head),
                        "direction": DIRECTIONS[direction],
                        "accuracy": score.value,
                        "low": score.low,
                        "high": score.high,
                        "offset": _OFFSETS[best],
                        "offset_accuracy": float(offsets[1, i, best] / scored),
                    }
                )

    def _notes(self):
        return ["Heads and offsets were chosen on one half of the sentences, and scored on the other."]

    def plot(self, count: int = 12) -> Any:
        """Plots the accuracy of the best head and of the best offset for the most frequent relations.

        Args:
            count: Integer. Number of relations. Defaults to `12`.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        rows = self.rows[:count][::-1]
        axes, places = new_axes(6.4, 1 + 0.35 * len(rows)), np.arange(len(rows))
        values = [row["accuracy"] for row in rows]
        errors = [[row["accuracy"] - row["low"] for row in rows], [row["high"] - row["accuracy"] for row in rows]]
        axes.barh(places + 0.2, values, 0.4, xerr=errors, color=BLUE, label="best head")
        axes.barh(places - 0.2, [row["offset_accuracy"] for row in rows], 0.4, color=GREY, label="best fixed offset")
        axes.set_yticks(places, [f"{row['relation']} ({row['layer']}-{row['head']})" for row in rows], parse_math=False)
        axes.set_xlabel("accuracy")
        axes.figure.legend(frameon=False, loc="outside upper center", ncols=2)
        return axes.figure


@expects(trees=TREES, batch_size=integer(1))
def relation_heads(
    model: keras.Model,
    trees: Trees,
    *,
    preprocessor: Any = None,
    batch_size: int = 16,
    verbose: str | int = "auto",
) -> RelationHeads:
    """Finds the attention heads that follow syntactic relations: from a word to its governor, or the other way round.

    A head is right about a word if the other word with the largest weight is its governor. The weight of a word for
    another one is the sum over the pieces of that one, and the mean over its own pieces. Special tokens, adapters'
    keys, and the word itself do not count. A high accuracy does not show that the model uses the relation.

    The best of hundreds of heads is too good by chance. So every second sentence is for choosing the head, and the
    others are for its accuracy. (The authors choose and score on the same sentences.)

    Args:
        model: A task with a Transformer of `keras_transfer.encoders`, or such an encoder.
        trees: `datasets.Trees`, such as a few hundred sentences. Sentences that need several rows are left out.
        preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.
        batch_size: Integer. Number of sentences in a batch. Defaults to `16`.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `RelationHeads`.

    Raises:
        ValueError: If the encoder has no such weights, if there is no preprocessor, if a sentence has no tree, or if
            fewer than two sentences have a word with a governor.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    trees = keras_transfer.datasets.Trees(
        [["Dogs", "bark"], ["They", "bark", "loudly"]],
        [[2, 0], [2, 0, 2]],
        [["nsubj", "root"], ["nsubj", "root", "advmod"]],
        [["NOUN", "VERB"], ["PRON", "VERB", "ADV"]],
    )
    print(keras_transfer.analysis.relation_heads(model, trees, verbose=0))
    ```

    Source: Clark et al. 2019, section 4.2. https://arxiv.org/abs/1906.04341
    """
    encoder, preprocessor = subject_of(model, preprocessor)
    has_weights = isinstance(encoder, Encoder) and type(encoder).attention_weights is not Encoder.attention_weights
    rule = "`model` must be a task with a Transformer encoder of `keras_transfer.encoders`, or such an encoder."
    expect(has_weights and not isinstance(encoder, EncoderDecoder), rule, encoder=encoder)
    check_word_level(preprocessor)
    check_trees(trees, "trees")
    inputs, layout = preprocess_words(to_sentences(trees.words), preprocessor)
    rows = np.flatnonzero(np.bincount(layout.owner)[layout.owner] == 1)
    names = sorted({name for own, heads in zip(trees.relations, trees.heads) for name, head in zip(own, heads) if head})
    names = ["all", *names]
    data = Batches.of(inputs, batch_size=batch_size, shuffle=False).grouped()
    counts, offsets, rights = np.zeros((2, len(names)), int), np.zeros((2, len(names), len(_OFFSETS)), int), None
    halves = dict(zip(rows.tolist(), np.arange(len(rows)) % 2))
    bar = keras.utils.Progbar(len(layout.owner), verbose=1 if verbose == "auto" else verbose, unit_name="row")
    tail = preprocessor.num_special_tokens - preprocessor.num_start_tokens
    for number, (_, batch) in enumerate(data.planned()):
        (tensors,) = data[number]
        ends = tensors["padding_mask"].sum(axis=1) - tail
        tensors = {
            name: ops.convert_to_tensor(values) for name, values in select_inputs(tensors, encoder.input).items()
        }
        layers = [ops.convert_to_numpy(weights) for weights in encoder.attention_weights(tensors)["encoder"]]
        if rights is None:
            rights = np.zeros((2, len(names), 2, len(layers), layers[0].shape[1]), int)
        for place, row in enumerate(batch):
            if row not in halves:
                continue
            sentence, half = layout.owner[row], halves[row]
            governors = np.array(trees.heads[sentence]) - 1
            words = np.flatnonzero(governors >= 0)
            if not len(words):
                continue
            kinds = [names.index(trees.relations[sentence][word]) for word in words]
            weights = np.stack([layer[place] for layer in layers])
            found = most_attended(weights, layout.positions(row), ends[place])[..., words] == governors[words]
            shifts = (governors[words] - words)[:, None] == _OFFSETS
            for kind in (kinds, [0] * len(words)):
                np.add.at(counts[half], kind, 1)
                np.add.at(rights[half], kind, np.moveaxis(found, -1, 0))
                np.add.at(offsets[half], kind, shifts)
        bar.add(len(batch))
    expect(counts[:, 0].all(), "At least two sentences of one row must have a governor.", words=counts[:, 0].tolist())
    return RelationHeads(rights, offsets, counts, names)


def most_attended(weights, starts, end):
    """Returns the word to which each word attends most, and that which attends most to it, [2, layers, heads, words].

    Args:
        weights: Array `[layers, heads, queries, keys]`. Adapters may have added keys at the beginning.
        starts: Integer array [words]. Position of the first piece of each word.
        end: Integer. Position after the last piece of all words.
    """
    weights = weights[..., weights.shape[3] - weights.shape[2] :][..., :end, :end]
    weights = np.add.reduceat(np.add.reduceat(weights, starts, axis=3), starts, axis=2)
    weights = weights / np.diff([*starts, end])[:, None]
    words = np.arange(len(starts))
    weights[..., words, words] = -1
    return np.stack([weights.argmax(axis=3), weights.argmax(axis=2)])
