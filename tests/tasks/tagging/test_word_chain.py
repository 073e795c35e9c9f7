"""A `TokenClassifier` with a conditional random field learns from, measures and predicts whole sequences."""

import itertools

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import cache_features, estimate_fisher, freeze
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.metrics import entity_report
from keras_transfer.tasks import TokenClassifier
from keras_transfer.tasks.token_classifier import ChainLoss, allowed_transitions
from keras_transfer.text import word_batches
from tests.helpers import EAGER, save_and_load
from tests.tasks.tagging.taggers import NAMES, examples, tagger
from tests.tasks.tiny import difference

BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]
# The words do not tell the labels, which alternate: only transitions can.
ALIKE = [["a"] * 6] * 8, [["B-X", "O"] * 3] * 8


def values(weights):
    return [keras.ops.convert_to_numpy(weight) for weight in weights]


def random_tagger(names=BIO):
    """A tagger with a random field, whose large weights prefer any labels in any order."""
    model = tagger("vectors", names, crf=True)
    random = np.random.default_rng(0)
    for layer in ("logits", "crf"):
        for weight in model.get_layer(layer).weights:
            weight.assign(random.normal(scale=3.0, size=weight.shape))
    return model


@pytest.mark.report(
    "Keras 3 has no CRF, or a model with one cannot be saved.",
    "keras-hub#2122",
    "addons#337",
    "addons#2237",
    "addons#2433",
    "delft#170",
)
def test_it_learns_what_only_transitions_tell_and_survives_keras_files():
    words, tags = ALIKE
    model = tagger("vectors", ["O", "B-X"], crf=True)
    model.compile(keras.optimizers.Adam(0.3), run_eagerly=EAGER)
    before = values(model.trainable_weights)
    history = model.fit(words, tags, epochs=10, verbose=0).history
    assert history["loss"][-1] < 0.2 < history["loss"][0]
    assert all((old != new).any() for old, new in zip(before, values(model.trainable_weights)))
    result = model.evaluate(words, tags, verbose=0, return_dict=True)
    assert result["accuracy"] == result["entity_f1"] == 1.0
    assert [tag for _, tag in model.predict_words([["a"] * 4])[0]] == ["B-X", "O", "B-X", "O"]

    same = save_and_load(model)
    assert same.crf and same.random_field.allowed == model.random_field.allowed
    assert difference(values(same.weights), values(model.weights)) == 0
    assert same.evaluate(words, tags, verbose=0, return_dict=True) == pytest.approx(result)
    assert same.train_on_batch(words[:8], tags[:8])[0] < 0.2


def test_without_transitions_the_loss_is_the_cross_entropy():
    words, tags = examples()
    losses = []
    for crf in (False, True):
        model = tagger("vectors", crf=crf)
        model.compile("sgd", run_eagerly=True)
        weights = np.linspace(0.5, 2, len(words))
        losses.append([model.evaluate(words, tags, sample_weight=w, verbose=0)[0] for w in (None, weights)])
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_the_metrics_are_those_of_the_predicted_labels():
    words, _ = examples()
    model = random_tagger()
    random = np.random.default_rng(1)
    tags = [random.choice(["O", "B-X", "B-Y"], len(row)).tolist() for row in words]
    model.compile("sgd", run_eagerly=True)
    result = model.evaluate(words, tags, verbose=0, return_dict=True)
    found = [[tag for _, tag in row] for row in model.predict_words(words)]
    right = [ours == tag for row, of in zip(found, tags) for ours, tag in zip(row, of)]
    assert result["accuracy"] == pytest.approx(np.mean(right))
    assert result["entity_f1"] == pytest.approx(entity_report(tags, found)["micro"]["f1"])

    class Batches(keras.metrics.Metric):
        """Counts the batches of which it is told, without a variable of Keras."""

        count = 0

        def update_state(self, *arguments, sample_weight=None):
            self.count += 1

        def result(self):
            return 0.0

    metric = Batches()
    model.compile("sgd", metrics=[metric], run_eagerly=True)
    counts = [(model.test_on_batch(words, tags), metric.count)[1] for _ in range(3)]
    assert counts[2] - counts[1] == counts[1] - counts[0] == 1
    logits = model.predict(words, verbose=0)
    assert any(BIO[best] != tag for row, of in zip(logits, found) for best, tag in zip(row.argmax(-1), of))


def test_predicted_labels_are_well_formed_and_the_chain_of_a_long_sentence_is_whole():
    words = [*examples(64)[0], ["a", "good", ","] * 40, []]
    model = random_tagger()
    found = [[tag for _, tag in row] for row in model.predict_words(words)]
    assert [len(row) for row in found] == [len(row) for row in words]
    steps = {pair for row in found for pair in itertools.pairwise(["O", *row])}
    for kind in "XY":
        assert {before for before, after in steps if after == f"I-{kind}"} <= {f"B-{kind}", f"I-{kind}"}
    model.get_layer("crf").transitions.assign(np.zeros((6, 6)))
    model.get_layer("logits").kernel.assign(np.zeros((8, 5)))
    model.get_layer("logits").bias.assign([0.0, 1.0, 9.0, 2.0, 0.0])  # for each word by itself, "I-X" is best
    assert [tag for _, tag in model.predict_words([["a", "b", "good"]])[0]] == ["B-X", "I-X", "I-X"]


@pytest.mark.parametrize(
    ("names", "pairs", "expected"),
    [
        (BIO, [("O", "I-X"), ("B-Y", "I-X"), ("end", "I-X"), ("I-Y", "I-X")], False),
        (BIO, [("B-X", "I-X"), ("I-X", "I-X"), ("O", "B-X"), ("B-X", "B-Y"), ("B-X", "end"), ("end", "O")], True),
        (["O", "I-X", "I-Y"], [("O", "I-X"), ("I-Y", "I-X"), ("end", "I-X")], True),
        (["O", "B-X", "I-X", "E-X", "S-X"], [("B-X", "O"), ("I-X", "end"), ("E-X", "I-X"), ("S-X", "E-X")], False),
        (["O", "B-X", "I-X", "E-X", "S-X"], [("B-X", "E-X"), ("E-X", "S-X"), ("S-X", "end"), ("I-X", "I-X")], True),
    ],
)
def test_the_names_determine_what_is_allowed(names, pairs, expected):
    allowed, ids = allowed_transitions(names), {name: i for i, name in enumerate([*names, "end"])}
    assert [allowed[ids[before]][ids[after]] for before, after in pairs] == [expected] * len(pairs)
    assert allowed_transitions(NAMES) is None


def test_labels_that_cannot_be_predicted_give_a_warning(caplog):
    model = tagger("vectors", BIO, crf=True)
    model.compile("sgd", run_eagerly=True)
    words = [["a", "b"], ["good", "a", "bad"]]
    model.evaluate(words, [["B-X", "I-X"], ["O", "B-X", "O"]], verbose=0)
    assert caplog.text == ""
    model.evaluate(words, [["B-X", "I-X"], ["O", "I-X", "O"]], verbose=0)
    assert "Received: 'I-X' after 'O' at word 1 of sentence 1" in caplog.text


def test_a_frozen_encoder_leaves_the_head_and_its_upper_part_trains_alone():
    (words, tags), model = examples(8), tagger(crf=True)
    freeze(model, below="head")
    upper, cached = cache_features(model, words, tags, below="head")
    upper.compile("sgd", run_eagerly=True)
    before = {weight.path: value for weight, value in zip(model.weights, values(model.weights))}
    upper.fit(cached, verbose=0)
    moved = {w.path for w, value in zip(model.weights, values(model.weights)) if (before[w.path] != value).any()}
    assert moved == {"logits/kernel", "logits/bias", "crf/transitions"}


def test_checkpoints_have_no_field(tmp_path):
    tagger().save_pretrained(tmp_path / "plain")
    with pytest.raises(CheckpointError, match='has crf=False. .*`head="new"`.*Received: crf=True'):
        TokenClassifier.from_pretrained(tmp_path / "plain", crf=True)
    model = TokenClassifier.from_pretrained(tmp_path / "plain", head="new", label_names=BIO, crf=True)
    assert model.random_field.transitions.shape == (6, 6)
    with pytest.raises(CheckpointError, match="only if it has crf=False"):
        model.save_pretrained(tmp_path / "field")


def test_mistakes_are_errors():
    model, (words, tags) = tagger("vectors", crf=True), examples(4)
    with pytest.raises(ValueError, match="the loss must be `'auto'`, the loss of the CRF. Received: loss='mse'"):
        model.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match="has a likelihood for each row"):
        estimate_fisher(model, words, tags, empirical=True)
    inputs, labels = word_batches(words, tags, preprocessor=model.preprocessor, label_names=NAMES)[0]
    model.compile("sgd", run_eagerly=True)
    assert isinstance(model.loss, ChainLoss)
    rows = model.evaluate(inputs, labels, sample_weight=np.full(len(labels), 2.0), verbose=0)
    assert rows[0] == pytest.approx(2 * model.evaluate(inputs, np.where(labels < 0, -100, labels), verbose=0)[0])
