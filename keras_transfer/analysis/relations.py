"""Attention heads that follow the relations of syntax trees."""

from typing import Any

import keras
import numpy as np

from keras_transfer.analysis.attention import attention_weights
from keras_transfer.analysis.probing.trees import TREES, check_trees
from keras_transfer.analysis.result import PlottedResult
from keras_transfer.analysis.scores import fraction_with_interval
from keras_transfer.analysis.stored_states import subject_of
from keras_transfer.core.expect import NotApplicableError, expect, expects
from keras_transfer.core.plots import BLUE, GREY
from keras_transfer.data import Batches, preprocess_words
from keras_transfer.datasets import Trees
from keras_transfer.encoders import EncoderDecoder
from keras_transfer.text import check_word_level, to_sentences

DIRECTIONS = ("to governor", "from governor")
_OFFSETS, _BATCH = [offset for offset in range(-5, 6) if offset], 16


class RelationHeads(PlottedResult):
    """For each syntactic relation, the attention head that follows it best, which `relation_heads` returns.

    `plot()` draws the accuracy of the best head and of the best offset for the twelve most frequent relations.

    Attributes:
        rows: List of dicts, one for each relation, the most frequent first, after `"all"`. `layer`, `head` and
            `direction` are those of the head that is right most often in one half of the sentences, and `accuracy` with
            its 95% interval `low` to `high` is how often it is right about the `count` words in the other half.
            `offset` is the best fixed offset of the governor, from -5 to 5, with its `offset_accuracy`, likewise.
        accuracies: Dict from relations to float arrays `[directions, blocks, heads]`, over all sentences.
    """

    title, index = "Attention heads by relation", ("relation",)
    columns = {
        **dict.fromkeys(("relation", "count", "layer", "head", "direction"), ""),
        **{"accuracy": ".3f", "95% interval": (("low", "high"), ".3f"), "offset": "+d"},
        "its accuracy": ("offset_accuracy", ".3f"),
    }
    notes = ("Heads and offsets were chosen on one half of the sentences, and scored on the other.",)

    def __init__(self, names, halves, hits, shifts):
        self.rows, self.accuracies = [], {}
        unique, counts = np.unique(names, return_counts=True)
        for name in ["all", *unique[np.argsort(-counts, kind="stable")].tolist()]:
            own = np.full(len(names), True) if name == "all" else names == name
            self.accuracies[name] = hits[own].mean(axis=0)
            chosen, scored = (own & (halves == half) for half in (0, 1))
            if chosen.any() and scored.any():
                rights = hits[chosen].sum(axis=0)
                direction, layer, head = np.unravel_index(rights.argmax(), rights.shape)
                score = fraction_with_interval(int(hits[scored, direction, layer, head].sum()), int(scored.sum()), 0.95)
                offset = shifts[chosen].sum(axis=0).argmax()
                row = {"relation": name, "count": int(scored.sum()), "layer": int(layer), "head": int(head)}
                row |= {"direction": DIRECTIONS[direction], "accuracy": score.value, "low": score.low}
                row |= {"high": score.high, "offset": _OFFSETS[offset]}
                self.rows.append({**row, "offset_accuracy": float(shifts[scored, offset].mean())})

    def _draw(self, axes):
        rows = self.rows[:12][::-1]
        places = np.arange(len(rows))
        axes.figure.set_figheight(1 + 0.35 * len(rows))
        errors = [[row["accuracy"] - row["low"] for row in rows], [row["high"] - row["accuracy"] for row in rows]]
        axes.barh(places + 0.2, [row["accuracy"] for row in rows], 0.4, xerr=errors, color=BLUE, label="best head")
        axes.barh(places - 0.2, [row["offset_accuracy"] for row in rows], 0.4, color=GREY, label="best fixed offset")
        axes.set_yticks(places, [f"{row['relation']} ({row['layer']}-{row['head']})" for row in rows], parse_math=False)
        axes.set_xlabel("accuracy")
        axes.figure.legend(frameon=False, loc="outside upper center", ncols=2)


@expects(trees=TREES)
def relation_heads(
    model: keras.Model, trees: Trees, *, preprocessor: Any = None, verbose: str | int = "auto"
) -> RelationHeads:
    """Finds the attention heads that follow syntactic relations: from a word to its governor, or the other way round.

    A head is right about a word if the other word with the largest weight is its governor. The weight of a word for
    another one is the sum over the pieces of that one, and the mean over its own pieces. Special tokens, adapters'
    keys, and the word itself do not count. A high accuracy does not show that the model uses the relation.

    The best of hundreds of heads is too good by chance, so every second sentence is for choosing the head, and the
    others are for its accuracy. (The authors choose and score on the same sentences.)

    Args:
        model: A task with a Transformer of `keras_transfer.encoders`, or such an encoder.
        trees: `datasets.Trees`, such as a few hundred sentences. Sentences that need several rows are left out.
        preprocessor: The preprocessor of the encoder. Defaults to `None`, that of the task.
        verbose: `"auto"`, `0` (silent), `1` (progress bar) or `2` (one line). Defaults to `"auto"`.

    Returns:
        `RelationHeads`.

    Raises:
        ValueError: If the encoder has no such weights, if there is no preprocessor, if a sentence has no tree, or if
            fewer than two sentences have a word with a governor.

    Example:
    ```python
    model = keras_transfer.tasks.TextClassifier.from_pretrained("minilm-l6", num_classes=2)
    words, relations, tags = ["Dogs", "bark"], ["nsubj", "root"], ["NOUN", "VERB"]
    trees = keras_transfer.datasets.Trees([words] * 2, [[2, 0]] * 2, [relations] * 2, [tags] * 2)
    print(keras_transfer.analysis.relation_heads(model, trees, verbose=0))
    ```

    Source: Clark et al. 2019, section 4.2. https://arxiv.org/abs/1906.04341
    """
    encoder, preprocessor = subject_of(model, preprocessor)
    encoder = encoder.encoder if isinstance(encoder, EncoderDecoder) else encoder
    check_word_level(preprocessor)
    check_trees(trees, "trees")
    inputs, layout = preprocess_words(to_sentences(trees.words), preprocessor)
    rows = np.flatnonzero(np.bincount(layout.owner)[layout.owner] == 1)  # Each of a whole sentence with a governor.
    rows = rows[[len(trees.words[sentence]) > 1 for sentence in layout.owner[rows]]]
    rule = "At least two sentences of one row must have two words or more."
    expect(len(rows) > 1, rule, error=NotApplicableError, sentences=len(rows))
    data = Batches.of({name: values[rows] for name, values in inputs.items()}, batch_size=_BATCH).grouped()
    tail = preprocessor.num_special_tokens - preprocessor.num_start_tokens
    bar = keras.utils.Progbar(len(rows), verbose=1 if verbose == "auto" else verbose, unit_name="row")
    names, halves, hits, shifts = [], [], [], []
    for number, (_, batch) in enumerate(data.planned()):
        (tensors,) = data[number]
        ends, layers = tensors["padding_mask"].sum(axis=1), attention_weights(encoder, tensors).encoder
        for place, row in enumerate(batch):
            sentence, starts = layout.owner[rows[row]], layout.positions(rows[row])
            governors = np.array(trees.heads[sentence]) - 1
            words = np.flatnonzero(governors >= 0)
            weights = np.stack([layer[place, :, -ends.max() :, -ends.max() :] for layer in layers])
            found = most_attended(weights, starts, ends[place] - tail)[..., words] == governors[words]
            names += [trees.relations[sentence][word] for word in words]
            halves += [row % 2] * len(words)
            hits.append(np.moveaxis(found, -1, 0))
            shifts.append((governors[words] - words)[:, None] == _OFFSETS)
        bar.add(len(batch))
    return RelationHeads(np.array(names), np.array(halves), np.concatenate(hits), np.concatenate(shifts))


def most_attended(weights, starts, end):
    """Returns the other word to which each word attends most, and that which attends most to it, -1 for none.

    The weights have the shape `[layers, heads, tokens, tokens]`, and the result `[2, layers, heads, words]`.
    """
    weights = np.add.reduceat(np.add.reduceat(weights[..., :end, :end], starts, axis=3), starts, axis=2)
    weights = weights / np.diff([*starts, end])[:, None]
    words = np.arange(len(starts))
    weights[..., words, words] = 0
    return np.stack([np.where(weights.max(axis) > 0, weights.argmax(axis), -1) for axis in (3, 2)])
