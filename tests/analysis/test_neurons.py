"""Neurons that carry a label by construction come first, and those of single words have the values of the encoder."""

import importlib.util

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer.analysis import rank_neurons, unit_activations
from keras_transfer.analysis.neurons import _by_share
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import WordPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

WORDS = [f"w{number}" for number in range(60)]


def of_vectors():
    """An encoder of 10 neurons, of which 3 and 7 say the label of a word, and its preprocessor."""
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    vectors = random.normal(size=(60, 10))
    vectors[:, 3], vectors[:, 7] = 5.0 * (labels == 1), 100.0 * (labels == 2)  # The scale of a neuron does not matter.
    vectors[:, 5] = 4.0  # It never changes.
    found = WordVectors(WORDS, vectors)
    return WordVectorEncoder.from_vectors(found), WordPreprocessor(WORDS, sequence_length=16)


def sentences(count=80):
    random = np.random.default_rng(1)
    x = [random.choice(WORDS, random.integers(2, 9)).tolist() for _ in range(count)]
    return x, [["ABC"[int(word[1:]) % 3] for word in words] for words in x]


@pytest.mark.core
def test_the_neurons_that_say_the_label_come_first():
    encoder, preprocessor = of_vectors()
    x, y = sentences()
    found = rank_neurons(encoder, x, y, preprocessor=preprocessor, penalty=1e-3, verbose=0)
    assert {number for _, number in found.order[:2]} == {3, 7} and found.order[-1][0] == found.order[0][0]
    rows = {row["neurons"]: row for row in found.rows}
    assert list(rows) == [1, 2, 5, 10] and rows[2]["top"] == 1.0 == rows[2]["low"]
    assert rows[1]["top"] < 1 and rows[5]["bottom"] < 0.6 and rows[10]["bottom"] == rows[10]["random"] > 0.95
    held_out = np.random.default_rng(0).permutation(80)[:16]
    labels = [label for place in held_out for label in y[place]]
    most = max("ABC", key=[label for place in set(range(80)) - {*held_out} for label in y[place]].count)
    assert found.baseline == labels.count(most) / len(labels) and found.label_names == ["A", "B", "C"]
    place = [number for _, number in found.order].index(5)
    assert np.abs(found.weights[place]).max() < 0.02 and found.weights.shape == (10, 3)
    assert "First: embeddings." in str(found) or "First: output." in str(found)


def test_neurons_are_ordered_by_the_share_of_the_weights_of_a_label():
    kernel = np.array([[0.0, 6.0], [-5.0, 1.0], [3.0, 1.0], [2.0, 2.0]])
    # Shares before neurons 0 to 3: 1.0, 0, 0.5, 0.8 of the first label, and 0, 0.8, 0.9, 0.6 of the second.
    assert _by_share(kernel).tolist() == [0, 1, 2, 3]
    kernel = np.array([[0.0, 2.0], [0.0, 2.0], [9.0, 1.0], [1.0, 2.0]])  # Neuron 2 has 90% of a label alone.
    assert _by_share(kernel).tolist() == [2, 0, 1, 3]


def test_texts_are_ranked_by_the_pooled_vectors_of_a_task():
    model = tiny.classifier(label_names=["bad", "good"])
    texts = ["good a b", "bad c", "a good", "c d bad"] * 5
    found = rank_neurons(model, texts, ["good", "bad"] * 10, layer="embeddings", verbose=0)
    assert len(found.order) == 16 and found.rows[-1]["top"] == 1.0
    if importlib.util.find_spec("matplotlib"):
        assert len(found.plot().axes[0].lines) == 4


@pytest.mark.core
def test_a_word_has_the_mean_of_its_pieces(tmp_path):
    keras.utils.set_random_seed(0)
    model = TextClassifier(tiny.encoder(num_layers=2), num_classes=2, preprocessor=tiny.preprocessor())
    found = unit_activations(model, ["good a bad", "c"], layer=1, unit=5)
    states = keras.Model(model.encoder.input, model.encoder.hidden_states[1])(tiny.ids_of(model, ["good a bad", "c"]))
    expected = ops.convert_to_numpy(states)[..., 5]
    np.testing.assert_allclose(found.values[0], expected[0, 1:4], atol=1e-6)
    np.testing.assert_allclose(found.values[1], expected[1, 1:2], atol=1e-6)
    assert found.words == [["good", "a", "bad"], ["c"]] and found.title == "Neuron 5 of the layer block_0"
    best = int(found.values[0].argmax())
    assert found.rows[0]["word"] == found.words[0][best] and found.rows[0]["highest"] == found.values[0][best]
    page = found.to_html(tmp_path / "unit.html").read_text("utf-8")
    shares = [float(part.split("%")[0].split()[-1]) for part in page.split("color-mix(")[1:]]
    every = np.concatenate(found.values)
    distances = np.abs(every - np.median(every))
    np.testing.assert_allclose(shares, 75 * distances / distances.max(), atol=0.5)


def test_a_histogram_has_the_means_of_texts_by_label():
    if not importlib.util.find_spec("matplotlib"):
        pytest.skip("needs matplotlib: pip install 'keras_transfer[plots]'")
    encoder, preprocessor = of_vectors()
    texts = [["w1", "w4"], ["w2", "w5"], ["w7", "w10"], ["w8", "w8"]]
    found = unit_activations(encoder, texts, 0, 3, preprocessor=preprocessor)
    assert [row["mean"] for row in found.rows] == [5, 0, 5, 0]
    axes = found.plot(["B", "C", "B", "C"]).axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["B", "C"] and len(axes.patches) == 2
    many = unit_activations(encoder, [[word] for word in WORDS[:8]], 0, 3, preprocessor=preprocessor)
    assert len(many.plot(list("ABCDEFGH")).axes[0].patches) == 8


def ranked(x, y, **options):
    encoder, preprocessor = of_vectors()
    return lambda: rank_neurons(encoder, x, y, preprocessor=preprocessor, verbose=0, **options)


def activations(texts=("w1",), layer=0, unit=0):
    encoder, preprocessor = of_vectors()
    return lambda: unit_activations(encoder, list(texts), layer, unit, preprocessor=preprocessor)


test_a_mistake_is_one_clear_error = check_errors(
    (
        ranked([["w1", "w2"]] * 6, [["A", "B"]] * 5 + [["A"]]),
        "as many labels as words. Received: sentence=5, expected=2, labels=1",
    ),
    (ranked(["w1"] * 6, ["A"] * 5), "`x` must have as many labels as texts. Received: texts=6, labels=5"),
    (ranked(["w1"] * 4, ["A", "B"] * 2), "at least 5 sentences or texts, ... Received: rows=4"),
    (ranked(["w1"] * 6, ["A"] * 6), "at least 2 labels. Received: labels=['A']"),
    (ranked(["w1"] * 6, ["A", "B"] * 3, layer="block_3"), "`layers` must be some of"),
    (activations(unit=10), "`unit` must be from 0 to 9. Received: unit=10"),
    (activations(layer=4), "`layers` must be some of"),
    (activations([[]]), "Each text must have a word."),
    (lambda: activations(["w1", "w2"])().plot(["A"]), "a label for each text. Received: labels=1, texts=2"),
    (lambda: unit_activations(of_vectors()[0], ["w1"], 0, 0), "Pass `preprocessor`, or a task with one."),
)
