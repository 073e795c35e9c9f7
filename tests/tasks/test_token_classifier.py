"""Tags for words: trained from lists of words, predicted, saved, over every kind of encoder."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import (
    L2SP,
    GradualUnfreezing,
    LayerwiseOptimizer,
    fine_tune,
    freeze,
    get_recipe,
    layer_groups,
)
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import BertEncoder, ElmoEncoder, WordVectorEncoder
from keras_transfer.layers import ScalarMix
from keras_transfer.tasks import TokenClassifier
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, WordPreprocessor, word_batches
from tests.helpers import save_and_load
from tests.processes import run_tests
from tests.tasks.tiny import difference

NAMES = ["LETTER", "WORD", "MARK"]
WORDS = [*"abcdefgh", "good", "bad", ","]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh", "##b", "##c", "good", "bad", ","]
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 24}


def bert():
    return BertEncoder(len(VOCABULARY), dropout=0.0, **SIZES), BertPreprocessor(VOCABULARY, sequence_length=24)


def elmo():
    sizes = {"projection_dim": 8, "units": 16, "num_layers": 1, "max_characters": 8}
    encoder = ElmoEncoder(4, [(1, 4), (2, 8)], dropout=0.0, **sizes)
    return encoder, ElmoPreprocessor(sequence_length=24, max_characters=8)


def vectors():
    found = WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 8)))
    return WordVectorEncoder.from_vectors(found), WordPreprocessor(WORDS, sequence_length=24)


ENCODERS = {"bert": bert, "elmo": elmo, "vectors": vectors}


def tagger(kind="bert", **options):
    keras.utils.set_random_seed(0)
    encoder, preprocessor = ENCODERS[kind]()
    return TokenClassifier(encoder, NAMES, preprocessor, dropout=0.0, **options)


def examples(count=32, longest=9):
    """Sentences of letters, two words and a mark, and what each of these is."""
    random = np.random.default_rng(1)
    words = [random.choice(WORDS, random.integers(1, longest)).tolist() for _ in range(count)]
    return words, [["MARK" if w == "," else "WORD" if len(w) > 1 else "LETTER" for w in row] for row in words]


def values(weights):
    return [keras.ops.convert_to_numpy(weight) for weight in weights]


@pytest.mark.parametrize(("kind", "mix"), [("bert", False), ("bert", True), ("elmo", True), ("vectors", False)])
def test_it_learns_from_words_and_names_over_every_encoder_and_survives_keras(kind, mix):
    words, tags = examples()
    model = tagger(kind, scalar_mix=mix)
    model.compile(keras.optimizers.Adam(0.03))
    assert model.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"] < 0.8
    model.fit(words, tags, epochs={"bert": 12, "elmo": 30, "vectors": 40}[kind], verbose=0)
    accuracy = model.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"]
    assert accuracy > 0.85 if kind == "elmo" else accuracy == 1.0
    found = model.predict_words(words)
    assert [[word for word, _ in row] for row in found] == words
    right = [tag == expected for row, of in zip(found, tags) for (_, tag), expected in zip(row, of)]
    assert np.mean(right) == pytest.approx(accuracy)
    assert all(type(word) is str and type(tag) is str for row in found for word, tag in row)
    same = save_and_load(model)
    assert same.label_names == NAMES and (same.scalar_mix is not None) == mix
    assert difference(same.predict(words, verbose=0), model.predict(words, verbose=0)) == 0
    assert same.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"] == accuracy


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_word_s_logits_are_those_at_its_first_piece(kind):
    model = tagger(kind)
    words = [["good", "abc", ",", "a"], ["bad"]]
    rows = model.preprocessor.encode_words(words)
    logits = keras.ops.convert_to_numpy(model({name: np.asarray(rows.inputs[name]) for name in model.input}))
    expected = logits[np.asarray(rows.row), np.asarray(rows.position)]
    assert rows.position[2] == {"bert": 5, "elmo": 2, "vectors": 2}[kind]
    found = model.predict(words, verbose=0)
    assert [row.shape for row in found] == [(4, 3), (1, 3)]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ENCODERS)
def test_long_sentences_and_empty_ones_lose_no_word(kind):
    words, tags = [["a", "good", ","] * 40, [], ["bad"]], [["LETTER", "WORD", "MARK"] * 40, [], ["WORD"]]
    model = tagger(kind)
    model.compile(keras.optimizers.Adam(0.03))
    model.fit(words, tags, epochs=40 if kind == "vectors" else 10, verbose=0)
    found = model.predict_words(words)
    assert [[word for word, _ in row] for row in found] == words
    right = [tag == expected for row, of in zip(found, tags) for (_, tag), expected in zip(row, of)]
    assert model.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"] == pytest.approx(np.mean(right))
    assert kind == "elmo" or all(right)


def test_sentences_without_words_are_predicted_and_trained_on_as_nothing():
    model = tagger()
    model.compile("sgd")
    before = values(model.weights)
    assert np.isfinite(model.fit([[], []], [[], []], verbose=0).history["loss"]).all()
    assert difference(values(model.weights), before) == 0
    assert model.predict_words([[], []]) == [[], []] and model.predict_words([]) == []


def test_the_loss_is_the_mean_over_words_whatever_the_padding():
    words, tags = [["a", "good", ","], ["bad"]], [["LETTER", "WORD", "MARK"], ["WORD"]]
    model = tagger()
    model.compile("sgd")
    logits = np.concatenate(model.predict(words, verbose=0))
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -logs[range(4), [0, 1, 2, 1]].mean()
    assert model.evaluate(words, tags, verbose=0) == pytest.approx(
        [expected, (logits.argmax(-1) == [0, 1, 2, 1]).mean()]
    )
    inputs, labels = word_batches(words, tags, model.preprocessor, shuffle=False, label_names=NAMES)[0]
    padded = {name: np.pad(ids, [(0, 0), (0, 9)]) for name, ids in inputs.items()}
    labels = np.pad(labels, [(0, 0), (0, 9)], constant_values=-1)
    assert model.evaluate(padded, labels, verbose=0)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("longest", [4, 20])
def test_batches_are_predicted_in_the_order_of_the_sentences(longest):
    words, tags = examples(40, longest)
    model = tagger()
    data = word_batches(words, tags, model.preprocessor, batch_size=8, seed=1, label_names=NAMES)
    assert (len(data.lengths) > 1) == (longest == 20)
    order = data.order.tolist()
    assert difference(model.predict(data, verbose=0), model.predict(words, verbose=0)) < 1e-6
    assert data.epoch == 0 and data.order.tolist() == order


def test_any_label_below_0_is_of_no_word():
    words, tags = examples(8)
    model = tagger()
    model.compile("sgd")
    inputs, labels = word_batches(words, tags, model.preprocessor, shuffle=False, label_names=NAMES)[0]

    class Data(keras.utils.PyDataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return inputs, np.where(labels < 0, -100, labels)

    assert model.evaluate(Data(), verbose=0) == pytest.approx(model.evaluate(inputs, labels, verbose=0))


def test_names_and_answers_are_plain_python():
    encoder, preprocessor = bert()
    model = TokenClassifier(encoder, np.array(NAMES), preprocessor)
    assert all(type(name) is str for name in model.label_names)
    assert all(type(tag) is str for _, tag in model.predict_words([["a", "b"]])[0])
    words, tags = [["a", "good"], ["b", ","]], [["LETTER", "WORD"], ["LETTER", "MARK"]]
    model.compile("sgd")
    expected = model.evaluate(words, tags, verbose=0)
    for kind in (np.array, tuple):
        assert model.evaluate(words, kind(tags), verbose=0) == pytest.approx(expected)
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    assert model.evaluate(pyarrow.array(words), pyarrow.array(tags), verbose=0) == pytest.approx(expected)


def test_it_computes_in_mixed_precision():
    keras.utils.set_random_seed(0)
    encoder = BertEncoder(len(VOCABULARY), dropout=0.0, dtype="mixed_bfloat16", **SIZES)
    model = TokenClassifier(encoder, NAMES, BertPreprocessor(VOCABULARY, sequence_length=24), scalar_mix=True)
    words, tags = examples()
    model.compile(keras.optimizers.Adam(0.03))
    model.fit(words, tags, epochs=12, verbose=0)
    assert model.evaluate(words, tags, verbose=0)[1] > 0.9
    assert model.predict(words, verbose=0)[0].dtype == "float32"


def test_texts_are_split_and_tagged():
    model = tagger()
    assert [word for word, _ in model.predict_words("good, abc.")[0]] == ["good", ",", "abc", "."]
    assert len(model.predict_words(["good", "a b"])) == 2
    words, tags = examples()
    model.compile(keras.optimizers.Adam(0.03))
    model.fit([" ".join(row) for row in words], tags, epochs=12, verbose=0)
    assert model.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"] == 1.0


def test_validation_takes_words_too():
    words, tags = examples()
    model = tagger()
    model.compile(keras.optimizers.Adam(0.03))
    history = model.fit(words, tags, validation_split=0.25, verbose=0).history
    assert {"val_loss", "val_accuracy"} <= set(history)
    history = model.fit(words, tuple(tags), validation_split=0.25, verbose=0).history
    assert history["val_accuracy"][0] == model.evaluate(words[24:], tags[24:], verbose=0)[1]
    history = model.fit(words[:16], tags[:16], validation_data=(words[16:], tags[16:]), verbose=0).history
    assert history["val_loss"][0] == pytest.approx(model.evaluate(words[16:], tags[16:], verbose=0)[0])


@pytest.mark.parametrize("prepared", [False, True])
def test_a_sentence_s_weight_is_that_of_its_words(prepared):
    words, tags = [["a", "good", ","], ["bad"]], [["LETTER", "WORD", "MARK"], ["WORD"]]
    model = tagger()
    model.compile("sgd")
    logits = np.concatenate(model.predict(words, verbose=0))
    losses = np.log(np.exp(logits).sum(-1)) - logits[range(4), [0, 1, 2, 1]]
    weights, expected = np.array([0.5, 3.0]), (losses * [0.5, 0.5, 0.5, 3.0]).mean()
    if prepared:
        words, tags = word_batches(words, tags, model.preprocessor, shuffle=False, label_names=NAMES)[0]
    assert model.evaluate(words, tags, sample_weight=weights, verbose=0)[0] == pytest.approx(expected, rel=1e-5)


def test_entities_are_measured_where_names_are_of_entities():
    keras.utils.set_random_seed(0)
    encoder, preprocessor = bert()
    model = TokenClassifier(encoder, ["O", "B-X", "I-X"], preprocessor, dropout=0.0)
    model.compile(keras.optimizers.Adam(0.03))
    words = [["a", "good", "bad", "b"], ["c", "a", "b", "c"]] * 8
    tags = [["O", "B-X", "I-X", "O"], ["O"] * 4] * 8
    history = model.fit(words, tags, epochs=15, validation_data=(words, tags), verbose=0).history
    assert history["val_entity_f1"][-1] == 1.0 and history["val_accuracy"][-1] == 1.0


@pytest.mark.parametrize("kind", ENCODERS)
def test_the_ladder_freezing_rates_and_the_pull_act_on_it_as_on_any_task(kind):
    words, tags = examples(16)
    model = freeze(tagger(kind, scalar_mix=kind != "vectors"), below="head")
    assert [group.kind for group in layer_groups(model)][-1] == "head"
    model.compile(keras.optimizers.Adam(0.03))
    start = {w.path: v for w, v in zip(model.weights, values(model.weights))}
    model.fit(words, tags, verbose=0)
    moved = {w.path for w, v in zip(model.weights, values(model.weights)) if (start[w.path] != v).any()}
    mix = {"scalar_mix/logits", "scalar_mix/gamma"} if kind != "vectors" else set()
    assert moved == {"logits/kernel", "logits/bias"} | mix

    model = tagger(kind)
    optimizer = LayerwiseOptimizer(keras.optimizers.Adam(0.01), model, decay=0.5, pull=L2SP(0.01))
    model.compile(optimizer)
    start = {w.path: v for w, v in zip(model.weights, values(model.weights))}
    steps = len(layer_groups(model))
    callback = GradualUnfreezing(steps=1)
    model.fit(words, tags, batch_size=-(-16 // steps), epochs=1, verbose=0, callbacks=[callback])
    read = {w.path for w in model.trainable_weights}
    moved = {w.path for w, v in zip(model.weights, values(model.weights)) if (start[w.path] != v).any()}
    assert moved == read


def test_a_recipe_takes_words():
    words, tags = examples()
    model = tagger()
    recipe = get_recipe("bert", epochs=2, batch_size=8)
    history = fine_tune(model, (words, tags), (words, tags), recipe, verbose=0)
    assert history.history["loss"][1] < history.history["loss"][0] and "val_accuracy" in history.history


def test_a_mix_of_one_s_own_keeps_its_options():
    model = save_and_load(tagger(scalar_mix=ScalarMix(dropout=0.2, layer_norm=True, seed=3, name="mine")))
    assert model.scalar_mix.name == "mine" and model.scalar_mix.dropout == 0.2 and model.scalar_mix.layer_norm
    np.testing.assert_allclose(model.scalar_mix.mix, np.full(3, 1 / 3))
    assert tagger().scalar_mix is None


def test_a_keras_hub_backbone_is_an_encoder_here_too():
    keras_hub = pytest.importorskip("keras_hub", reason="needs KerasHub: pip install keras-hub")
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.BertBackbone(len(VOCABULARY), 2, 2, 16, 32, dropout=0.0, max_sequence_length=24)
    model = TokenClassifier(backbone, NAMES, BertPreprocessor(VOCABULARY, sequence_length=24), scalar_mix=True)
    words, tags = examples()
    model.compile(keras.optimizers.Adam(0.03))
    model.fit(words, tags, epochs=15, verbose=0)
    assert model.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"] > 0.9
    assert save_and_load(model).predict_words(words) == model.predict_words(words)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="it is this test that runs the others elsewhere")
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_it_works_on_another_backend(backend, tmp_path):
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    run_tests(__file__, backend, tmp_path, only="survives or mean_over_words or without_words or weight or entities")
