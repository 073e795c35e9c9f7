"""Attention heads that follow the relations of trees are found, word by word, as in the authors' notebook."""

import importlib.util

import numpy as np
import pytest
from keras import ops

from keras_transfer.adaptation import Prefix, Prompt, add_adapters
from keras_transfer.analysis import RelationHeads, relation_heads
from keras_transfer.analysis.relations import most_attended
from keras_transfer.datasets import Trees
from keras_transfer.encoders import T5, ElmoEncoder
from keras_transfer.tasks import Seq2SeqLM
from tests.errors import check_errors
from tests.tasks.tiny import VOCABULARY, WORDS, encoder, preprocessor, two_blocks


def of_words(count=20):
    """Sentences of words with random trees, whose relations say on which side the governor is."""
    random = np.random.default_rng(0)
    words, heads, relations = [], [], []
    for _ in range(count):
        order = random.permutation(random.integers(3, 8))
        own = np.zeros(len(order), int)
        for place, word in enumerate(order[1:], 1):
            own[word] = order[random.integers(place)] + 1
        words.append(random.choice(WORDS, len(order)).tolist())
        heads.append(own.tolist())
        sides = [("after" if head > word else "before") if head else "root" for word, head in enumerate(own, 1)]
        relations.append(sides)
    return Trees(words, heads, relations, relations)


def follow(model, trees, monkeypatch, queries=0, keys=0):
    """Lets the head 1 of the last block attend to governors, and the head 0 from governors to their words."""
    own = {" ".join(words): heads for words, heads in zip(trees.words, trees.heads)}
    names = np.array(VOCABULARY)

    def made(self, inputs):
        ids = ops.convert_to_numpy(inputs["token_ids"])
        weights = np.full((2, len(ids), 2, ids.shape[1], ids.shape[1]), 0.01)
        weights[..., 0] = 5.0  # Most of the attention is at [CLS], which does not count.
        for row, tokens in enumerate(ids):
            heads = own[" ".join(names[tokens[tokens > 4]])]
            for word, head in enumerate(heads, 1):
                if head:
                    weights[1, row, 1, word, head] = 1.0
                    weights[1, row, 0, head, word] = 1.0
        weights = np.pad(weights, [(0, 0)] * 3 + [(queries, 0), (keys, 0)], constant_values=9.0)  # Those of adapters.
        return {"encoder": [ops.convert_to_tensor(each) for each in weights]}

    monkeypatch.setattr(type(model.encoder), "attention_weights", made)


@pytest.mark.parametrize("queries, keys", [(0, 0), (0, 3), (3, 3)], ids=["alone", "with a prefix", "with a prompt"])
def test_attention_that_follows_the_trees_is_found_in_both_directions(monkeypatch, queries, keys):
    model, trees = two_blocks(), of_words()
    follow(model, trees, monkeypatch, queries, keys)
    found = relation_heads(model, trees, verbose=0)
    assert [*found.accuracies] in (["all", "after", "before"], ["all", "before", "after"])
    assert found.rows[0]["relation"] == "all"
    for row in found.rows:
        assert (row["layer"], row["head"], row["direction"], row["accuracy"]) == (1, 1, "to governor", 1.0)
    for accuracies in found.accuracies.values():
        assert accuracies[0, 1, 1] == accuracies[1, 1, 0] == 1.0
    assert found.accuracies["all"][0, 1, 0] < 1
    words = sum(len(own) - 1 for own in trees.heads[1::2])
    assert found.rows[0]["count"] == words and found.rows[0]["high"] == 1.0


def test_the_best_offset_is_chosen_on_one_half_and_scored_on_the_other(monkeypatch):
    model, trees = two_blocks(), of_words()
    follow(model, trees, monkeypatch)
    found = relation_heads(model, trees, verbose=0)
    steps = [[head - word for word, head in enumerate(heads, 1) if head] for heads in trees.heads]
    first, second = (np.concatenate(steps[half::2]) for half in (0, 1))
    offsets = [offset for offset in range(-5, 6) if offset]
    best = max(offsets, key=lambda offset: (first == offset).sum())
    assert found.rows[0]["offset"] == best
    np.testing.assert_allclose(found.rows[0]["offset_accuracy"], (second == best).mean())


def test_pieces_are_summed_to_a_word_and_averaged_from_a_word_and_special_tokens_do_not_count():
    random = np.random.default_rng(0)
    weights = random.random((2, 3, 7, 7))  # [CLS], words of 2, 1 and 2 pieces, and [SEP].
    found = most_attended(weights, np.array([1, 3, 4]), 6)
    pieces = [[1, 2], [3], [4, 5]]
    for layer, head in np.ndindex(2, 3):
        own = weights[layer, head]
        words = np.array([[own[np.ix_(a, b)].sum(axis=1).mean() for b in pieces] for a in pieces])
        np.fill_diagonal(words, 0)
        np.testing.assert_array_equal(found[0, layer, head], words.argmax(axis=1))
        np.testing.assert_array_equal(found[1, layer, head], words.T.argmax(axis=1))


def test_a_word_to_which_or_from_which_there_is_no_attention_follows_no_other():
    weights = np.tril(np.ones((1, 1, 3, 3)))  # A causal head: the first word sees no other, and none sees the last.
    found = most_attended(weights, np.arange(3), 3)
    np.testing.assert_array_equal(found[:, 0, 0], [[-1, 0, 0], [1, 2, -1]])


@pytest.mark.parametrize("kind", [Prefix, Prompt])
def test_sentences_that_are_too_long_and_single_words_are_left_out_also_with_adapters(kind):
    model, trees = two_blocks(), of_words(6)
    add_adapters(model, kind(3))
    other = Trees([["a"] * 40, ["a"]], [[0, *range(1, 40)], [0]], [["x"] * 40, ["x"]], [["x"] * 40, ["x"]])
    both = Trees(*(first + second for first, second in zip(other, trees)))
    found = relation_heads(model, both, verbose=0)
    alone = relation_heads(model.encoder, trees, preprocessor=model.preprocessor, verbose=0)
    assert str(found) == str(alone) and "x" not in found.accuracies


def test_of_an_encoder_decoder_the_encoder_is_read():
    encoder = T5(17, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=8)
    found = relation_heads(Seq2SeqLM(encoder, preprocessor()), TREES, verbose=0)
    assert str(found) == str(relation_heads(encoder.encoder, TREES, preprocessor=preprocessor(), verbose=0))


def test_the_table_and_the_figure_show_the_most_frequent_relations_first():
    names = np.array(["$x_$"] * 3 + ["det"] * 16)
    hits, shifts = np.zeros((19, 2, 1, 2), bool), np.zeros((19, 10), bool)
    hits[3:15, 1, 0, 1] = shifts[3:11, 5] = True
    found = RelationHeads(names, np.arange(19) % 2, hits, shifts)
    assert [row["relation"] for row in found.rows] == ["all", "det", "$x_$"]
    cells = str(found).splitlines()[3].split()
    assert cells[:7] == ["det", "8", "0", "1", "from", "governor", "0.750"] and cells[-2:] == ["+1", "0.500"]
    if importlib.util.find_spec("matplotlib"):
        labels = [label.get_text() for label in found.plot().axes[0].get_yticklabels()]
        assert labels == ["$x_$ (0-0)", "det (0-1)", "all (0-1)"]
        assert found.plot()._repr_png_()


TREES = of_words(4)
test_a_mistake_is_one_clear_error = check_errors(
    (lambda: relation_heads(encoder(), TREES), "Pass `preprocessor`"),
    (
        lambda: relation_heads(
            ElmoEncoder(embedding_dim=2, filters=[[1, 2]], projection_dim=2, units=2),
            TREES,
            preprocessor=preprocessor(),
        ),
        "a task with a Transformer of `keras_transfer.encoders`",
    ),
    (lambda: relation_heads(two_blocks(), Trees([], [], [], [])), "`trees` must have at least one sentence"),
    (lambda: relation_heads(two_blocks(), TREES.words), "`trees` must be `datasets.Trees`"),
    (
        lambda: relation_heads(two_blocks(), TREES._replace(heads=[[0, 0, 0]] * 4)),
        "`trees`, sentence 0: A sentence must have",
    ),
    (
        lambda: relation_heads(two_blocks(), Trees(*(column[:1] for column in TREES)), verbose=0),
        "At least two sentences of one row must have two words or more. Received: sentences=1",
    ),
)
