"""Hidden states of words and texts are stored once for all layers, as a direct forward pass computes them."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import Prompt, add_adapters
from keras_transfer.analysis import hidden_states, random_weights
from keras_transfer.analysis.stored_states import blocks
from keras_transfer.encoders import T5, AWDLSTMEncoder, ElmoEncoder, GPT2Encoder, encode, named_hidden_states
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, WordPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "##c", "d", "e"]
SENTENCES = [["abc", "d", "e"], ["e"], ["d", "ab", "abc", "e", "d", "d", "e"]]


def bert(**options):
    preprocessor = BertPreprocessor(PIECES, sequence_length=32)
    keras.utils.set_random_seed(1)
    return tiny.encoder(num_layers=2, **options), preprocessor


def forward(encoder, inputs):
    inputs = {name: keras.ops.convert_to_tensor(np.asarray(inputs[name])) for name in encoder.input}
    states = encode(encoder, inputs, hidden_states=True).hidden_states
    return [keras.ops.convert_to_numpy(state) for state in states]


@pytest.mark.core
@pytest.mark.parametrize("pieces", ["first", "last", "mean"])
def test_vectors_of_words_are_those_of_their_pieces(pieces):
    encoder, preprocessor = bert()
    found = hidden_states(
        encoder, SENTENCES, preprocessor=preprocessor, pieces=pieces, dtype=None, batch_size=2, verbose=0
    )
    # "[CLS] a ##b ##c d e [SEP]", "[CLS] e [SEP]", "[CLS] d a ##b a ##b ##c e d d e [SEP]"
    places = [[(1, 3), (4, 4), (5, 5)], [(1, 1)], [(1, 1), (2, 3), (4, 6), (7, 7), (8, 8), (9, 9), (10, 10)]]
    assert found.names == ["embeddings", "block_0", "block_1"]
    assert found.counts.tolist() == [3, 1, 7] and found.whole.all() and len(found) == 11
    for index, sentence in enumerate(SENTENCES):
        states = forward(encoder, preprocessor.encode_words([sentence]).inputs)
        for name, state in zip(found.names, states, strict=True):
            chosen = {
                "first": [state[0, first] for first, _ in places[index]],
                "last": [state[0, last] for _, last in places[index]],
                "mean": [state[0, first : last + 1].mean(axis=0) for first, last in places[index]],
            }
            np.testing.assert_allclose(found.sentence(index)[name], chosen[pieces], atol=2e-6)


@pytest.mark.core
def test_words_of_a_long_sentence_have_the_vectors_of_the_rows_that_read_them():
    encoder, _ = bert()
    preprocessor = BertPreprocessor(PIECES, sequence_length=10)
    sentence = ["abc", "d", "e", "ab", "d"] * 4
    found = hidden_states(encoder, [["d"], sentence, ["e", "ab"]], preprocessor=preprocessor, pieces="last", verbose=0)
    rows = preprocessor.encode_words([sentence])
    states = forward(encoder, rows.inputs)[-1]
    sizes = [{"abc": 3, "ab": 2}.get(word, 1) for word in sentence]
    last = np.minimum(
        np.asarray(rows.position) + sizes - 1, np.asarray(rows.inputs["padding_mask"]).sum(1)[rows.row] - 2
    )
    np.testing.assert_allclose(found.sentence(1)["block_1"], states[np.asarray(rows.row), last], atol=2e-3)
    assert found.whole.tolist() == [True, False, True]
    assert found.sentence(2)["block_0"].shape == (2, 16)


@pytest.mark.core
@pytest.mark.parametrize("pooling", ["mean", "first", "max", "last"])
def test_texts_have_a_pooled_vector_in_each_layer(pooling):
    model = tiny.classifier(num_layers=1)
    texts = ["a b c", "good", "a b c d e f g"]
    found = hidden_states(model, texts, pooling=pooling, dtype=None, verbose=0)
    assert len(found) == 3 and found.layout is None
    for index, text in enumerate(texts):
        inputs = model.preprocessor([text], sequence_length="longest")
        for name, state in zip(found.names, forward(model.encoder, inputs), strict=True):
            pool = {"first": lambda s: s[0], "max": lambda s: s.max(0), "last": lambda s: s[-1]}
            expected = pool.get(pooling, lambda s: s.mean(0))(state[0])
            np.testing.assert_allclose(found.flat([index])[name][0], expected, atol=2e-6)


def test_layers_of_other_architectures_have_names_and_widths():
    words, sentences = WordPreprocessor(["a", "b"]), [["a", "b", "a"], ["b"]]
    awd = AWDLSTMEncoder(4, embedding_dim=6, units=8, num_layers=2)
    found = hidden_states(awd, sentences, preprocessor=words, verbose=0)
    assert list(found.widths.values()) == [6, 8, 6]
    elmo = ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16)
    found = hidden_states(elmo, sentences, preprocessor=ElmoPreprocessor(), verbose=0)
    assert found.column("embeddings").shape == (4, 16) and len(found.names) == 3
    gpt2 = tiny.encoder(GPT2Encoder)
    found = hidden_states(gpt2, ["a b"], preprocessor=tiny.preprocessor(), dtype=None, verbose=0)
    assert found.names == ["embeddings", "block_0", "output"]  # The last block comes before the final norm.
    assert list(named_hidden_states(gpt2)) == ["embeddings", "block_0"]
    some = hidden_states(gpt2, ["a b"], preprocessor=tiny.preprocessor(), layers=["output", 0], verbose=0)
    assert some.names == ["embeddings", "output"]


def test_a_second_call_reads_the_folder(tmp_path, monkeypatch):
    encoder, preprocessor = bert()
    options = {"preprocessor": preprocessor, "folder": tmp_path / "states", "verbose": 0}
    first = hidden_states(encoder, SENTENCES, **options)
    expected = {name: np.array(first.column(name)) for name in first.names}
    monkeypatch.setattr(keras.Model, "predict_on_batch", None)
    again = hidden_states(encoder, SENTENCES, **options)
    for name, values in expected.items():
        np.testing.assert_array_equal(again.column(name), values)
    with pytest.raises(ValueError, match="cache of a different data"):
        hidden_states(encoder, SENTENCES, pieces="last", **options)


def test_blocks_have_one_size_and_contain_each_item_once():
    orders = []
    for seed in (None, 0, 1):
        found = list(blocks(11, 4, seed))
        assert [items.shape for items, _ in found] == [(4,)] * 3
        orders.append(np.concatenate([items[weights == 1] for items, weights in found]).tolist())
        assert sorted(orders[-1]) == list(range(11))
    assert orders[0] == list(range(11)) and orders[1] != orders[2]


def test_random_weights_depend_on_the_seed_alone():
    encoder, _ = bert()
    one, same, other = (random_weights(encoder, seed) for seed in (0, 0, 1))
    kernels = [each.blocks[0].feed_forward.weights[0].numpy() for each in (encoder, one, same, other)]
    np.testing.assert_array_equal(kernels[1], kernels[2])
    assert all(np.abs(kernels[1] - kernels[place]).max() > 0.01 for place in (0, 3))
    assert list(named_hidden_states(one)) == ["embeddings", "block_0", "block_1"]


def of(encoder, x, preprocessor=None, **options):
    return hidden_states(encoder, x, preprocessor=preprocessor or tiny.preprocessor(), verbose=0, **options)


def prompted():
    encoder = tiny.encoder()
    add_adapters(encoder, Prompt(2))
    return encoder


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: hidden_states(tiny.encoder(), ["a"]), "does not hold its preprocessor ... Received: preprocessor=None"),
    (lambda: hidden_states("bert", ["a"]), "must be a task or an encoder ... model='bert'"),
    (lambda: of(tiny.encoder(), []), "`x` must not be empty"),
    (lambda: of(tiny.encoder(), 3), "must be a list of sentences, which are lists of words, or of texts ... x=3"),
    (lambda: of(tiny.encoder(), ["a"], layers=["block_7"]), "some of ['embeddings', 'block_0'] ... ['block_7']"),
    (lambda: of(tiny.encoder(), ["a"], layers=[5]), "some of ['embeddings', 'block_0'] ... layers=[5]"),
    (lambda: of(prompted(), ["a"]), "Adapters of the kind `Prompt` add hidden states"),
    (lambda: of(T5(9, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16), ["a"]), "An encoder-decoder"),
    (lambda: of(tiny.encoder(), [["a"]], lambda texts: texts), "require a preprocessor that takes words"),
    (lambda: of(keras.Model(*[keras.Input((None, 4), name="x")] * 2), ["a"]), "provides no hidden states"),
)
