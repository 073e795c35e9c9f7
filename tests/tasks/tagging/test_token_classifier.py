"""`TokenClassifier` learns from lists of words, predicts and is saved, with every kind of encoder."""

import functools

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import freeze, layer_groups
from keras_transfer.layers import ScalarMix
from keras_transfer.metrics import entities
from keras_transfer.tasks import TokenClassifier
from keras_transfer.tasks.token_classifier import WordTags
from keras_transfer.text import BertPreprocessor, word_batches
from tests.helpers import EAGER, save_and_load
from tests.tasks.tagging.taggers import ENCODERS, NAMES, VOCABULARY, examples, tagger
from tests.tasks.tiny import difference

TWO = [["a", "good", ","], ["bad"]], [["LETTER", "WORD", "MARK"], ["WORD"]]  # sentences and their labels
TARGETS = [0, 1, 2, 1]


@pytest.fixture(scope="module")
def untrained():
    """A function from a kind of encoder to its compiled tagger, which tests must not change."""

    @functools.cache
    def make(kind="bert"):
        model = tagger(kind)
        model.compile("sgd", run_eagerly=EAGER)
        return model

    return make


def values(weights):
    return [keras.ops.convert_to_numpy(weight) for weight in weights]


def losses_of(logits, targets):
    """The cross-entropy of each row of logits."""
    return np.log(np.exp(logits).sum(-1)) - logits[range(len(targets)), targets]


@pytest.mark.parametrize(
    ("kind", "mix"),
    [
        pytest.param("bert", True, marks=pytest.mark.core),
        ("vectors", False),
        pytest.param("elmo", True, marks=pytest.mark.slow),
    ],
)
def test_it_learns_from_words_and_names_with_every_encoder(kind, mix):
    words, tags = examples(64, longest=6)  # which are all padded to 8 tokens, because each new shape is compiled
    model = tagger(kind, scalar_mix=mix)
    model.compile(keras.optimizers.Adam(0.1 if kind == "vectors" else 0.03), run_eagerly=EAGER)
    assert model.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"] < 0.8
    model.fit(words, tags, batch_size=8, epochs=20 if kind == "elmo" else 5, verbose=0)
    accuracy = model.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"]
    assert accuracy > 0.85 if kind == "elmo" else accuracy == 1.0
    found = model.predict_words(words)
    assert [[word for word, _ in row] for row in found] == words
    right = [tag == expected for row, of in zip(found, tags) for (_, tag), expected in zip(row, of)]
    assert np.mean(right) == pytest.approx(accuracy)
    assert all(type(word) is str and type(tag) is str for row in found for word, tag in row)


@pytest.mark.parametrize("kind", ENCODERS)
def test_the_logits_of_a_word_are_those_at_its_first_sub_word(untrained, kind):
    model = untrained(kind)
    words = [["good", "abc", ",", "a"], ["bad"]]
    rows = model.preprocessor.encode_words(words)
    logits = keras.ops.convert_to_numpy(model({name: np.asarray(rows.inputs[name]) for name in model.input}))
    expected = logits[np.asarray(rows.row), np.asarray(rows.position)]
    assert rows.position[2] == {"bert": 5, "elmo": 2, "vectors": 2}[kind]
    found = model.predict(words, verbose=0)
    assert [row.shape for row in found] == [(4, 3), (1, 3)]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.report("Long and odd words vanish from the answers of a tagger.", "transformers#11036")
def test_no_word_of_long_or_empty_sentences_is_lost(kind):
    words, tags = [["a", "good", ","] * 40, [], ["bad"]], [["LETTER", "WORD", "MARK"] * 40, [], ["WORD"]]
    model = tagger(kind)
    model.compile("sgd", run_eagerly=True)
    found = model.predict(words, verbose=0)
    assert [len(row) for row in found] == [120, 0, 1]
    logits, targets = np.concatenate(found), [0, 1, 2] * 40 + [1]
    expected = losses_of(logits, targets).mean()
    loss, accuracy = model.evaluate(words, tags, verbose=0)
    assert [loss, accuracy] == pytest.approx([expected, np.mean(logits.argmax(-1) == targets)], rel=1e-5)
    assert model.fit(words, tags, verbose=0).history["loss"] == [pytest.approx(expected, rel=1e-5)]
    found = model.predict_words(words)
    assert [[word for word, _ in row] for row in found] == words


def test_sentences_without_words_have_no_predictions_and_train_nothing(untrained):
    model = untrained()
    before = values(model.weights)
    assert np.isfinite(model.fit([[], []], [[], []], verbose=0).history["loss"]).all()
    assert difference(values(model.weights), before) == 0
    assert model.predict_words([[], []]) == [[], []] and model.predict_words([]) == []


@pytest.mark.core
@pytest.mark.report("Padding is trained on, and predicted as an entity.", "transformers#7168")
def test_the_loss_is_the_mean_over_words_whatever_the_padding(untrained):
    (words, tags), model = TWO, untrained()
    logits = np.concatenate(model.predict(words, verbose=0))
    expected = losses_of(logits, TARGETS).mean()
    assert model.evaluate(words, tags, verbose=0) == pytest.approx([expected, (logits.argmax(-1) == TARGETS).mean()])
    inputs, labels = word_batches(words, tags, preprocessor=model.preprocessor, shuffle=False, label_names=NAMES)[0]
    padded = {name: np.pad(ids, [(0, 0), (0, 9)]) for name, ids in inputs.items()}
    labels = np.pad(labels, [(0, 0), (0, 9)], constant_values=-1)
    assert model.evaluate(padded, labels, verbose=0)[0] == pytest.approx(expected, rel=1e-5)


def test_batches_are_predicted_in_the_order_of_the_sentences(untrained):
    (words, tags), model = examples(40, 20), untrained()
    data = word_batches(words, tags, preprocessor=model.preprocessor, batch_size=8, seed=1, label_names=NAMES)
    assert len(data.options.lengths) > 1
    order = data.order.tolist()
    assert difference(model.predict(data, verbose=0), model.predict(words, verbose=0)) < 1e-6
    assert data.epoch == 0 and data.order.tolist() == order


def test_names_and_labels_may_be_arrays_tuples_and_arrow(untrained):
    names = tagger(names=np.array(NAMES)).label_names
    assert names == NAMES and all(type(name) is str for name in names)
    model, words, tags = untrained(), [["a", "good"], ["b", ","]], [["LETTER", "WORD"], ["LETTER", "MARK"]]
    expected = model.evaluate(words, tags, verbose=0)
    for kind in (np.array, tuple):
        assert model.evaluate(words, kind(tags), verbose=0) == pytest.approx(expected)
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    assert model.evaluate(pyarrow.array(words), pyarrow.array(tags), verbose=0) == pytest.approx(expected)


@pytest.mark.slow
def test_it_learns_in_mixed_precision():
    words, tags = examples(64)
    model = tagger(dtype="mixed_bfloat16", scalar_mix=True)
    model.compile(keras.optimizers.Adam(0.03), run_eagerly=True)
    model.fit(words, tags, batch_size=8, epochs=2, verbose=0)
    assert model.evaluate(words, tags, verbose=0)[1] > 0.9
    assert model.predict(words, verbose=0)[0].dtype == "float32"


def test_texts_are_split_and_tagged(untrained):
    (words, tags), model = examples(8), untrained()
    assert [word for word, _ in model.predict_words("good, abc.")[0]] == ["good", ",", "abc", "."]
    assert len(model.predict_words(["good", "a b"])) == 2
    texts, expected = [" ".join(row) for row in words], model.evaluate(words, tags, verbose=0)
    assert model.evaluate(texts, tags, verbose=0) == pytest.approx(expected)
    other = tagger()
    other.compile("sgd", run_eagerly=True)
    history = other.fit(texts, tags, epochs=2, verbose=0).history
    assert history["loss"][0] == pytest.approx(expected[0], rel=1e-5) and history["loss"][1] < history["loss"][0]


def test_validation_takes_words_too():
    words, tags = examples()
    model = tagger()
    model.compile(keras.optimizers.Adam(0.03), run_eagerly=True)
    history = model.fit(words, tuple(tags), validation_split=0.25, verbose=0).history
    result = model.evaluate(words[24:], tags[24:], verbose=0)
    assert [history["val_loss"][0], history["val_accuracy"][0]] == pytest.approx(result)
    history = model.fit(words[:16], tags[:16], validation_data=(words[16:], tags[16:]), verbose=0).history
    assert history["val_loss"][0] == pytest.approx(model.evaluate(words[16:], tags[16:], verbose=0)[0])


@pytest.mark.parametrize("prepared", [False, True])
def test_the_weight_of_a_sentence_is_that_of_its_words(untrained, prepared):
    (words, tags), model = TWO, untrained()
    losses = losses_of(np.concatenate(model.predict(words, verbose=0)), TARGETS)
    weights, expected = np.array([0.5, 3.0]), (losses * [0.5, 0.5, 0.5, 3.0]).mean()
    if prepared:
        words, tags = word_batches(words, tags, preprocessor=model.preprocessor, shuffle=False, label_names=NAMES)[0]
    assert model.evaluate(words, tags, sample_weight=weights, verbose=0)[0] == pytest.approx(expected, rel=1e-5)


def test_entity_f1_is_measured_if_the_names_are_labels_of_entities():
    model = tagger("vectors", ["O", "B-X", "I-X"])
    model.compile(keras.optimizers.Adam(0.3), run_eagerly=EAGER)
    words = [["a", "good", "bad", "b"], ["c", "a", "b", "c"]] * 32
    tags = [["O", "B-X", "I-X", "O"], ["O"] * 4] * 32
    history = model.fit(words, tags, batch_size=4, validation_data=(words[:8], tags[:8]), verbose=0).history
    assert history["val_entity_f1"] == history["val_accuracy"] == [1.0]


def test_the_mix_of_layers_trains_with_the_head_above_a_frozen_encoder():
    words, tags = examples(16)
    model = freeze(tagger("elmo", scalar_mix=True), below="head")
    assert [group.kind for group in layer_groups(model)][-1] == "head"
    model.compile(keras.optimizers.Adam(0.03), run_eagerly=True)
    start = {w.path: v for w, v in zip(model.weights, values(model.weights))}
    model.fit(words, tags, verbose=0)
    moved = {w.path for w, v in zip(model.weights, values(model.weights)) if (start[w.path] != v).any()}
    assert moved == {"logits/kernel", "logits/bias", "scalar_mix/logits", "scalar_mix/gamma"}


def test_a_given_mix_keeps_its_options():
    model = save_and_load(tagger(scalar_mix=ScalarMix(dropout=0.2, layer_norm=True, seed=3, name="mine")))
    assert model.scalar_mix.name == "mine" and model.scalar_mix.dropout == 0.2 and model.scalar_mix.layer_norm
    np.testing.assert_allclose(model.scalar_mix.mix, np.full(2, 1 / 2))
    assert tagger().scalar_mix is None


@pytest.mark.slow
def test_a_keras_hub_backbone_learns_to_label_words():
    keras_hub = pytest.importorskip("keras_hub", reason="needs KerasHub: pip install keras-hub")
    backbone = keras_hub.models.BertBackbone(len(VOCABULARY), 1, 2, 16, 32, dropout=0.0, max_sequence_length=24)
    model = TokenClassifier(
        backbone, BertPreprocessor(VOCABULARY, sequence_length=24), label_names=NAMES, scalar_mix=True
    )
    words, tags = examples(64)
    model.compile(keras.optimizers.Adam(0.03))
    model.fit(words, tags, batch_size=8, epochs=2, verbose=0)
    model.run_eagerly = True
    assert model.evaluate(words, tags, verbose=0, return_dict=True)["accuracy"] > 0.9
    assert save_and_load(model).predict_words(words) == model.predict_words(words)


@pytest.mark.parametrize("crf", [False, True])
def test_entities_have_their_places_in_the_characters_of_the_text(crf, monkeypatch):
    model = tagger("vectors", ["O", "B-X", "I-X"], crf=crf)
    texts = ["a  (good bad),\nh", "", "🎉 Zoë"]  # of 7, 0 and 2 words
    best = [[1, 0, 1, 2, 0, 0, 0], [], [0, 1]]
    logits = [np.log(np.eye(3)[row] * 0.7 + 0.1).astype("float32") for row in best]
    monkeypatch.setattr(model, "predict", lambda *arguments, **options: logits)
    found = model.predict_entities(texts)
    places = [[entity[:4] for entity in row] for row in found]
    assert places == [[("X", 0, 1, "a"), ("X", 4, 12, "good bad")], [], [("X", 2, 5, "Zoë")]]
    assert all(text[e.start : e.end] == e.text for text, row in zip(texts, found) for e in row)
    scores = [entity.score for row in found for entity in row]
    if crf:  # The probabilities of whole sequences, of which some are impossible.
        assert all(0.8 < score < 1 for score in scores)
    else:
        assert scores == pytest.approx([0.8] * 3)


def test_entities_of_one_text_are_those_of_its_words(untrained):
    model = tagger("vectors", ["O", "B-X", "I-X"])
    [words], [found] = model.predict_words("a good , bad h"), model.predict_entities("a good , bad h")
    assert [(e.type, e.text.split()) for e in found] == [
        (kind, [word for word, _ in words[start:end]]) for kind, start, end in entities([label for _, label in words])
    ]
    with pytest.raises(ValueError, match="`x` must be texts, .* use `predict_words`. Received: "):
        model.predict_entities([["a", "good"]])
    with pytest.raises(ValueError, match="requires labels of entities. Use `predict_words`.* Received: label='LETTER'"):
        untrained("vectors").predict_entities("a")


@pytest.mark.parametrize("crf", [False, True])
def test_class_weights_weight_the_words(crf):
    words, tags = examples(8)
    weights = {"WORD": 3.0, "MARK": 0.0}
    losses = []
    for in_fit in (True, False):
        model = tagger("vectors", crf=crf)
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        if in_fit:
            found = model.fit(words, tags, class_weight=weights, shuffle=False, verbose=0)
        else:
            options = {"preprocessor": model.preprocessor, "label_names": NAMES, "shuffle": False}
            found = model.fit(word_batches(words, tags, class_weight=weights, **options), verbose=0)
        losses.append([*found.history["loss"], *(np.abs(weight).sum() for weight in model.get_weights())])
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_balanced_class_weights_give_all_labels_of_words_the_same_total_weight():
    labels = WordTags(["a", "b", "c"])
    found = labels.class_weight("balanced", np.array([[0, 0, -1], [0, 1, -1]]))
    assert found == pytest.approx({0: 4 / 9, 1: 4 / 3, 2: 1.0})
    assert labels.class_weight({"b": 2.0, 2: 0.5}) == {0: 1.0, 1: 2.0, 2: 0.5}


def test_class_weights_of_a_stream_and_of_one_batch_weight_the_words():
    tf = pytest.importorskip("tensorflow")
    words, tags = examples(4)
    model = tagger("vectors")
    model.compile(keras.optimizers.SGD(0.0), metrics=None, run_eagerly=True)
    expected = model.fit(words, tags, batch_size=4, class_weight={"WORD": 3.0}, verbose=0).history["loss"][0]
    inputs, labels = word_batches(words, tags, preprocessor=model.preprocessor, label_names=NAMES, batch_size=4)[0]
    dataset = tf.data.Dataset.from_tensors((inputs, labels))
    assert model.fit(dataset, class_weight={1: 3.0}, verbose=0).history["loss"][0] == pytest.approx(expected)
    assert model.train_on_batch(words, tags, class_weight={"WORD": 3.0}) == pytest.approx(expected)
