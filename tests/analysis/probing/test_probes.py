"""Probes of all layers are trained together, and each is what it would be alone, next to its controls."""

import keras
import numpy as np
import pytest

from keras_transfer.analysis import (
    Probe,
    control_labels,
    description_length,
    probe_correlation,
)
from keras_transfer.analysis.probing.bank import EdgeBank, Items, ProbeBank, answers, schedule, train
from keras_transfer.analysis.stored_states import StoredStates, blocks
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import (
    AlbertEncoder,
    AWDLSTMEncoder,
    BartEncoder,
    DebertaV2Encoder,
    ElmoEncoder,
    GPT2Encoder,
    ModernBertEncoder,
    T5Encoder,
    WordVectorEncoder,
    XLNetEncoder,
)
from keras_transfer.layers import ScalarMix
from keras_transfer.text import ElmoPreprocessor, WordPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

OPTIONS = {"epochs": 1, "batch_size": 16, "learning_rate": 0.01}


class Rows:
    """Stored rows in memory."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape


def made_items(count=40, layers=2, members=2, classes=3, dim=4):
    random = np.random.default_rng(0)
    vectors = {f"layer_{i}": random.normal(1, 2, (count, dim)).astype("float32") for i in range(layers)}
    states = StoredStates({name: Rows(values) for name, values in vectors.items()}, [2] * (count // 2))
    labels = random.integers(0, classes, (count, members))
    sentences, keys = np.repeat(np.arange(count // 2), 2), np.arange(count)
    return Items(states, np.arange(count), labels, sentences, keys, list)


@pytest.mark.core
@pytest.mark.parametrize("hidden_dim", [None, 5])
def test_each_probe_of_a_bank_is_what_it_would_be_alone(hidden_dim, monkeypatch):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 12)
    items, seeds = made_items(), [3, 4]
    means, scales = items.statistics()
    bank = ProbeBank([4, 4], 2, 3, hidden_dim, mixes=True)
    train(bank, items, items, (means, scales), seeds, **OPTIONS)
    batch_size, epochs, _ = schedule(40, 1, 16)
    assert (batch_size, epochs) == (16, 4)
    start = ProbeBank([4, 4], 2, 3, hidden_dim, mixes=True)
    start.begin((means, scales), seeds)
    for layer in range(3):
        for member in range(2):
            own = single(start, layer, member, hidden_dim)
            weights = [variable for variable in own.weights if variable.trainable]
            optimizer, number = keras.optimizers.Adam(), 0
            own.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            for epoch in range(epochs):
                for chosen, some in blocks(40, batch_size, seeds[0], epoch):
                    optimizer.learning_rate = 0.01 * 0.5 * (1 + np.cos(np.pi * number / 12))
                    vectors = [
                        (items.states.column(name)[chosen] - mean) * scale
                        for name, mean, scale in zip(items.states.names, means, scales)
                    ]
                    x = vectors if layer == 2 else vectors[layer]
                    own.train_on_batch(x, items.labels[chosen, member], some * len(some) / some.sum())
                    number += 1
            found = [
                np.take(keras.ops.convert_to_numpy(variable), member, axis) for variable, axis in bank.members_of(layer)
            ]
            for ours, theirs in zip(found, ordered(weights, layer == 2)):
                np.testing.assert_allclose(ours, keras.ops.convert_to_numpy(theirs), atol=1e-5)


def single(bank, layer, member, hidden_dim):
    """A Keras model of one probe, with a mix below it for the last layer of the bank."""
    sizes = [keras.Input((4,))] * 1 if layer < 2 else [keras.Input((4,)), keras.Input((4,))]
    x = sizes[0] if layer < 2 else ScalarMix()(sizes)
    dense = [keras.layers.Dense(hidden_dim, "relu"), keras.layers.Dense(3)] if hidden_dim else [keras.layers.Dense(3)]
    for each in dense:
        x = each(x)
    model = keras.Model(sizes if layer == 2 else sizes[0], x)
    initial = [np.take(keras.ops.convert_to_numpy(v), member, axis) for v, axis in bank.members_of(layer)]
    for i, each in enumerate(dense):
        each.set_weights(initial[2 * i : 2 * i + 2])
    return model


def ordered(weights, mixed):
    """The weights in the order of a bank: those of the probe, then those of the mix."""
    return [*weights[2:], *weights[:2]] if mixed else weights


@pytest.mark.core
def test_a_member_keeps_the_weights_of_its_best_epoch(monkeypatch):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 1)
    items, found = made_items(), []
    bank = ProbeBank([4, 4], 2, 3)

    def losses(bank, items, batch_size):
        order = [[[3, 1], [1, 3]], [[2, 2], [2, 2]], [[1, 3], [3, 1]]][len(found)]
        found.append([keras.ops.convert_to_numpy(probe["kernel"]) for probe in bank.probes])
        return {"loss": np.array([order], "float32")}

    monkeypatch.setattr("keras_transfer.analysis.probing.bank.answers", losses)
    train(bank, items, items, items.statistics(), [0, 1], **{**OPTIONS, "epochs": 3})
    for layer in range(2):
        kernel = keras.ops.convert_to_numpy(bank.probes[layer]["kernel"])
        for member in range(2):
            best = 2 if layer == member else 0
            np.testing.assert_array_equal(kernel[:, member], found[best][layer][:, member])


def corpus(count=120, seed=0):
    """Sentences over word vectors whose first dimension is the class of the word, and its tags."""
    random = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(60)]
    table = random.normal(size=(60, 6))
    table[:, 0] = np.where(np.arange(60) % 2, 2, -2)
    sentences = [[words[i] for i in random.integers(0, 60, 5)] for _ in range(count)]
    tags = [["odd" if int(word[1:]) % 2 else "even" for word in words] for words in sentences]
    vectors = WordVectors(words, table)
    return WordVectorEncoder.from_vectors(vectors), WordPreprocessor(words), sentences, tags


def test_a_linear_probe_finds_a_linear_rule_but_not_the_control_task():
    encoder, preprocessor, sentences, tags = corpus()
    probe = Probe(epochs=3, seeds=2, controls=["selectivity", "word_types"], learning_rate=0.01)
    train, test = (sentences[:90], tags[:90]), (sentences[90:], tags[90:])
    found = probe.sweep(encoder, train, test=test, preprocessor=preprocessor, verbose=0)
    [row] = found.rows
    assert row["score"] == row["high"] == 1.0 and row["seeds_std"] == 0
    assert 0.4 < row["control"] < 0.8  # Six dimensions do not hold 60 random bits.
    assert row["selectivity"] == pytest.approx(1 - row["control"]) and found.word_types == 1.0
    np.testing.assert_array_equal(found.confusion("embeddings").sum(), 150)
    assert found.predictions("embeddings") == [tag for own in tags[90:] for tag in own]
    assert found.best == "embeddings" and found.mix is None
    assert "150 labels of 30 texts of the test data, 2 classes" in str(found)
    same = found.compare_with(found).rows[0]
    assert same["difference"] == same["low"] == same["high"] == 0
    assert found.to_frame().loc["embeddings", "score"] == 1.0


def test_a_sweep_has_all_layers_the_mix_and_all_controls(monkeypatch):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 4)
    model = tiny.classifier(num_layers=2)
    random = np.random.default_rng(0)
    words = [random.choice([*"abcdefgh"], 4).tolist() for _ in range(40)]
    labels = [["ace" if word in "ace" else "other" for word in own] for own in words]
    probe = Probe(epochs=2, seeds=2, control_rows=10)
    found = probe.sweep(model, (words[:30], labels[:30]), test=(words[30:], labels[30:]), verbose=0)
    assert [row["layer"] for row in found.rows] == ["embeddings", "block_0", "block_1", "mix"]
    for row in found.rows:
        assert row["gain"] == pytest.approx(row["subset"] - row["random"])
        assert row["gain_low"] <= row["gain"] <= row["gain_high"] and row["bits"] > 0
        assert row["compression"] == pytest.approx(row["bits"] and found.uniform_bits / row["bits"])
    assert found.mix.shape == (2, 3) and 0 <= found.center_of_gravity <= 2
    np.testing.assert_allclose(found.mix.sum(axis=1), 1, atol=1e-5)
    heads, cells = found._cells()
    assert len(cells) == 4 and len(heads) == len(cells[0]) == 11
    figure = found.plot()
    assert [line.get_label() for line in figure.axes[0].lines][:3] == ["probe", "control task", "random weights"]
    assert "<table" in found._repr_html_() and "mix" in found.to_markdown()


def test_texts_are_probed_with_held_out_texts_and_another_encoder(monkeypatch):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 4)
    model, (texts, labels) = tiny.classifier(), tiny.examples(60)
    encoder, preprocessor, *_ = corpus()
    probe = Probe("sentence", epochs=2, seeds=1, controls=[])
    found = probe.sweep(model, (texts, labels), against=(encoder, preprocessor), verbose=0)
    assert found.classes == ["0", "1"] and not found.has_test
    assert found.against.layers == ["embeddings"] and found.rows[0]["seeds_std"] is None
    assert "The other encoder" in str(found) and "too high" in str(found)
    assert len(found._items) == len(np.unique(found._items.sentences)) < 20


@pytest.mark.core
def test_an_edge_probe_projects_pools_and_compares_two_spans():
    random = np.random.default_rng(0)
    items = made_items(count=10, layers=1)
    places = np.array([[[0, 1, 2], [4, -1, -1]], [[3, -1, -1], [5, 6, -1]]])
    labels = np.array([[1, 0, 1], [0, 0, 1]])
    edges = Items(items.states, places, labels, np.array([0, 1]), np.arange(2), list)
    bank = EdgeBank([4], 2, 3, hidden_dim=5, spans=2)
    bank.begin((np.zeros((1, 4), "float32"), np.ones((1, 4), "float32")), [0, 1])
    weights = {part: random.normal(size=variable.shape) for part, variable in bank.probes[0].items()}
    for part, variable in bank.probes[0].items():
        variable.assign(weights[part])
    found = answers(bank, edges, 2)
    for row in range(2):
        for member in range(2):
            own = {part: np.take(values, member, values.ndim - 2) for part, values in weights.items()}
            pooled = []
            for span in range(2):
                words = items.states.column("layer_0")[places[row, span][places[row, span] >= 0]]
                words = words @ own[f"project_{span}_kernel"] + own[f"project_{span}_bias"]
                scores = np.exp(words @ own[f"attend_{span}_kernel"][:, 0])
                pooled.append(scores / scores.sum() @ words)
            hidden = np.tanh(np.concatenate(pooled) @ own["hidden_kernel"] + own["hidden_bias"])
            hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5) * own["scale"] + own["offset"]
            logits = hidden @ own["upper_kernel"] + own["upper_bias"]
            loss = np.mean(np.log1p(np.exp(logits)) - labels[row] * logits)
            assert found["loss"][row, 0, member] == pytest.approx(loss, rel=1e-4)
            assert found["answer"][row, 0, member] == logits.argmax()
            assert found["claims"][row, 0, member] == (logits > 0).sum()
            assert found["hits"][row, 0, member] == ((logits > 0) * labels[row]).sum()


def test_pairs_of_spans_are_probed_with_micro_f1(monkeypatch, caplog):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.WIDTH", 8)
    encoder, _, sentences, _ = corpus(60)
    preprocessor = WordPreprocessor([f"w{i}" for i in range(60)], sequence_length=8)
    spans = [[((0, 1), (3, 5)), ((2, 3), (4, 5))] for _ in sentences]
    odd = [[int(word[1:]) % 2 for word in words] for words in sentences]
    labels = [[["odd"] if row[0] else ["even", "other"], ["odd"] if row[2] else ["even", "other"]] for row in odd]
    sentences[0] = sentences[0] * 2  # It is longer than a row.
    probe = Probe("edge", epochs=4, seeds=1, learning_rate=0.01, control_rows=10)
    train, test = (column[:40] for column in (sentences, spans, labels)), (sentences[40:], spans[40:], labels[40:])
    found = probe.sweep(encoder, tuple(train), test=test, preprocessor=preprocessor, verbose=0)
    [row] = found.rows
    assert row["score"] == 1.0 == row["high"] and row["subset"] > row["random"]
    assert "Micro F1 on 40 labels of 20 texts" in str(found) and 0 < found.word_types < 0.5
    assert "1 sentences of `train` are too long for one row" in caplog.text
    assert set(found.predictions("embeddings")) <= {"odd", "even", "other"}


def test_probes_are_correlated_with_a_task_over_encoders():
    probes = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    found = probe_correlation(probes, {"a": 1, "b": 3, "c": 2, "d": 4})
    assert found.correlation == pytest.approx(0.8)  # 1 - 6 * (1 + 1) / (4 * 15)
    # Of the 24 orders, 1 has the correlation 1, 3 have 0.8, and as many have -1 and -0.8.
    assert found.p == pytest.approx(8 / 24) and found.low <= 0.8 <= found.high
    assert "0.80" in str(found) and len(found.to_frame()) == 4


def test_a_label_that_is_missing_from_training_is_an_error_of_the_probe():
    encoder, preprocessor, sentences, tags = corpus(40)
    other = [["new", *own[1:]] for own in tags[:10]]
    probe = Probe(epochs=1, seeds=1, controls=["word_types"], learning_rate=0.01)
    parts = (sentences, tags), (sentences, tags), (sentences[:10], other)
    found = probe.sweep(encoder, *parts, preprocessor=preprocessor, verbose=0)
    assert found.rows[0]["score"] == pytest.approx(0.8, abs=1e-6)
    assert "10 labels are missing from the training data" in str(found)
    assert found.word_types == pytest.approx(0.8) and found.confusion("embeddings").sum() == 40


def test_control_labels_are_one_class_for_each_word_in_all_parts():
    words = ["a", "b", "a", "c", *"defghij"]
    found = control_labels(words, 3, seed=1)
    assert found[0] == found[2] and set(found) <= {0, 1, 2}
    np.testing.assert_array_equal(control_labels([*words, "new"], 3, seed=1)[: len(words)], found)
    drawn = control_labels([str(i) for i in range(10_000)], 3, probabilities=[0.7, 0.2, 0.1])
    np.testing.assert_allclose(np.bincount(drawn) / 10_000, [0.7, 0.2, 0.1], atol=0.02)


def test_the_description_length_is_that_of_the_online_code():
    found = description_length([2.0, 3.0, 0.5, 0.25], [1, 1, 2, 4, 8], 3)
    first, nats = np.log2(3), 5.75
    assert found.bits == pytest.approx(first + nats / np.log(2))
    assert found.authors_kbits == pytest.approx((first + nats) / 1024)
    assert found.uniform_bits == pytest.approx(16 * np.log2(3))
    assert found.compression == pytest.approx(found.uniform_bits / found.bits)


def test_labels_that_the_vectors_hold_need_fewer_bits_than_random_ones(monkeypatch):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 60)
    encoder, preprocessor, sentences, tags = corpus(60)
    random = np.random.default_rng(1)
    lengths = []
    for labels in (tags, [random.choice(["odd", "even"], 5).tolist() for _ in tags]):
        probe = Probe(epochs=1, seeds=1, controls=["description_length"], learning_rate=0.05)
        lengths.append(probe.sweep(encoder, (sentences, labels), preprocessor=preprocessor, verbose=0).rows[0])
    assert lengths[0]["compression"] > 2 > 1.1 > lengths[1]["compression"]


def swept(train, kind="token", **options):
    encoder, preprocessor, *_ = corpus(2)
    return Probe(kind).sweep(encoder, train, preprocessor=preprocessor, verbose=0, **options)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: Probe("sentence", controls=["selectivity"]), "kind 'sentence' must be some of ... ['selectivity']"),
    (lambda: swept([["a"]]), "`train` must be a tuple of sentences, labels"),
    (lambda: swept((["a b"], ["x"])), "`train` must be a tuple of sentences, labels ... kind 'token'"),
    (lambda: swept(([["a"]], ["x"]), "sentence"), "`train` must be a tuple of texts, labels"),
    (lambda: swept(([["a"], ["b"]], [["x"]])), "as many labels as sentences. Received: sentences=2, labels=1"),
    (
        lambda: swept(([["a"], ["b", "c"]], [["x"], ["y"]])),
        "as many labels as words. Received: sentence=1, expected=2, labels=1",
    ),
    (lambda: swept(([["a", "b"]], [["x", "x"]])), "labels of at least two classes. Received: classes=['x']"),
    (lambda: swept(([["a", "b"]], [["x", "y"]]), validation=([["a"]], [[]])), "Each sentence of `validation`"),
    (lambda: swept(([["a", "b"]], [[0.5, 1.5]])), "all names or all integers"),
    (lambda: swept(([["a"]], [[(0, 2)]], [["x"]]), "edge"), "0 <= start < end <= 1. Received: span=(0, 2)"),
    (lambda: swept(([["a"]], [[(0, 0)]], [["x"]]), "edge"), "Spans of sentence 0 of `train`"),
    (lambda: swept(([["a"]], [[(0, 1)]], [["x", "y"]]), "edge"), "as many labels as spans"),
    (lambda: swept(([["a"]], [["x"]]), "edge"), "`train` must be a tuple of sentences, spans, labels"),
    (lambda: probe_correlation({"a": 1.0}, {"a": 1.0}), "a dict of at least 4 encoders"),
    (lambda: probe_correlation(dict.fromkeys("abcd", 1.0), dict.fromkeys("abce", 1.0)), "the same names"),
    (lambda: description_length([1.0], [1, 2, 3], 2), "`losses` must have 2 values"),
    (lambda: control_labels(["a"], 2, probabilities=[1.0]), "`probabilities` must have 2 values"),
)


FAMILIES = {
    "albert": lambda: tiny.encoder(AlbertEncoder, num_layers=2),
    "bart": lambda: tiny.encoder(BartEncoder, num_layers=2),
    "deberta": lambda: DebertaV2Encoder(17, **SIZES),
    "gpt2": lambda: tiny.encoder(GPT2Encoder, num_layers=2),
    "modernbert": lambda: tiny.encoder(ModernBertEncoder, num_layers=2),
    "t5": lambda: T5Encoder(17, **SIZES),
    "xlnet": lambda: XLNetEncoder(17, **SIZES),
}
SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}


@pytest.mark.parametrize("family", FAMILIES)
def test_encoders_of_every_family_are_probed(family, monkeypatch, eagerly):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 1)
    words = [list("abc"), list("de"), ["good", "bad"]] * 4
    tags = [["x" if word in "ace" else "y" for word in own] for own in words]
    probe = Probe(epochs=1, seeds=1, controls=["random_weights"], control_rows=10)
    found = probe.sweep(FAMILIES[family](), (words, tags), preprocessor=tiny.preprocessor(), verbose=0)
    names = [row["layer"] for row in found.rows]
    blocks = ["layer_0", "layer_1"] if family == "albert" else ["block_0", "block_1"]
    assert names[:3] == ["embeddings", *blocks] and names[-1] == "mix" and len(names) in (4, 5)
    assert all(np.isfinite(row["gain"]) and 0 <= row["random"] <= 1 for row in found.rows)


@pytest.mark.parametrize("name", ["elmo", "awd"])
def test_recurrent_encoders_are_probed(name, monkeypatch, eagerly):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 1)
    words, tags = [["a", "b", "a"], ["b"]] * 6, [["x", "y", "x"], ["y"]] * 6
    preprocessor, encoder = ElmoPreprocessor(), None
    if name == "elmo":
        encoder = ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16)
    else:  # Its layers differ in width, so there is no mix.
        preprocessor, encoder = WordPreprocessor(["a", "b"]), AWDLSTMEncoder(4, embedding_dim=6, units=8, num_layers=2)
    found = Probe(epochs=1, seeds=1, controls=()).sweep(encoder, (words, tags), preprocessor=preprocessor, verbose=0)
    assert len(found.rows) == (4 if name == "elmo" else 3) and (found.mix is not None) == (name == "elmo")
