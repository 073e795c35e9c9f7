"""Attention heads that follow the relations of trees are found, word by word, as in the authors' notebook."""

import importlib.util

import numpy as np
from keras import ops

from keras_transfer.adaptation import Prefix, add_adapters
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


def follow(model, trees, monkeypatch, both=True):
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
        return {"encoder": [ops.convert_to_tensor(each) for each in weights]}

    monkeypatch.setattr(type(model.encoder), "attention_weights", made)


def test_attention_that_follows_the_trees_is_found_in_both_directions(monkeypatch):
    model, trees = two_blocks(), of_words()
    follow(model, trees, monkeypatch)
    found = relation_heads(model, trees, batch_size=3, verbose=0)
    assert found.relations == ["all", "after", "before"]
    assert found.rows[0]["relation"] == "all"
    for row in found.rows:
        assert (row["layer"], row["head"], row["direction"], row["accuracy"]) == (1, 1, "to governor", 1.0)
    np.testing.assert_array_equal(found.accuracies[:, 0, 1, 1], 1.0)
    np.testing.assert_array_equal(found.accuracies[:, 1, 1, 0], 1.0)
    assert found.accuracies[0, 0, 1, 0] < 1
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
    weights = random.random((2, 3, 7, 9))  # Two keys of a prefix, [CLS], words of 2, 1 and 2 pieces, and [SEP].
    found = most_attended(weights, np.array([1, 3, 4]), 6)
    pieces = [[1, 2], [3], [4, 5]]
    for layer, head in np.ndindex(2, 3):
        own = weights[layer, head][:, 2:]
        words = np.array([[own[np.ix_(a, b)].sum(axis=1).mean() for b in pieces] for a in pieces])
        np.fill_diagonal(words, 0)
        np.testing.assert_array_equal(found[0, layer, head], words.argmax(axis=1))
        np.testing.assert_array_equal(found[1, layer, head], words.T.argmax(axis=1))


def test_an_encoder_with_a_prefix_and_long_sentences_are_read():
    model, trees = two_blocks(), of_words(6)
    add_adapters(model, Prefix(3))
    long = Trees([["a"] * 40], [[0, *range(1, 40)]], [["x"] * 40], [["x"] * 40])
    both = Trees(*(first + second for first, second in zip(trees, long)))
    found = relation_heads(model, both, verbose=0)
    alone = relation_heads(model.encoder, trees, preprocessor=model.preprocessor, verbose=0)
    np.testing.assert_allclose(found.accuracies[:3], alone.accuracies)
    assert "x" not in [row["relation"] for row in found.rows]


def test_the_table_and_the_figure_show_the_most_frequent_relations_first():
    counts = np.array([[10, 2, 8], [9, 1, 8]])
    rights, offsets = np.zeros((2, 3, 2, 1, 2), int), np.zeros((2, 3, 10), int)
    rights[:, 2, 1, 0, 1] = 6
    offsets[:, 2, 5] = 4
    found = RelationHeads(rights, offsets, counts, ["all", "$x_$", "det"])
    assert [row["relation"] for row in found.rows] == ["all", "det", "$x_$"]
    cells = str(found).splitlines()[3].split()
    assert (
        cells[:6] == ["det", "8", "0", "1", "from", "governor"]
        and cells[6] == "0.750"
        and cells[-2:] == ["+1", "0.500"]
    )
    if importlib.util.find_spec("matplotlib"):
        labels = [label.get_text() for label in found.plot().axes[0].get_yticklabels()]
        assert labels == ["$x_$ (0-0)", "det (0-1)", "all (0-0)"]
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
        "a task with a Transformer encoder of `keras_transfer.encoders`",
    ),
    (
        lambda: relation_heads(
            Seq2SeqLM(T5(17, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=8), preprocessor()), TREES
        ),
        "a task with a Transformer encoder of",
    ),
    (lambda: relation_heads(two_blocks(), TREES.words), "`trees` must be `datasets.Trees`"),
    (
        lambda: relation_heads(two_blocks(), TREES._replace(heads=[[0, 0, 0]] * 4)),
        "`trees`, sentence 0: A sentence must have",
    ),
    (
        lambda: relation_heads(two_blocks(), Trees(*(column[:1] for column in TREES)), verbose=0),
        "At least two sentences of one row must have a governor.",
    ),
)
