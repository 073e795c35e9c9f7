"""Probes of all layers are trained together, and each is what it would be alone, next to its controls."""

import pathlib

import keras
import numpy as np
import pytest

from keras_transfer.analysis import Probe, probe_correlation
from keras_transfer.analysis.probing.bank import EdgeBank, Items, ProbeBank, answers, schedule, train
from keras_transfer.analysis.probing.probes import control_labels, description_length
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
from keras_transfer.hub import HubEncoder
from keras_transfer.layers import ScalarMix
from keras_transfer.text import ElmoPreprocessor, WordPreprocessor
from tests.errors import check_errors
from tests.tasks import tiny

REFERENCES = pathlib.Path(__file__).parents[2] / "references"
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
    return Items(states, np.arange(count), labels, sentences, keys)


@pytest.mark.core
@pytest.mark.parametrize("hidden_dim", [None, 5])
def test_each_probe_of_a_bank_is_what_it_would_be_alone(hidden_dim, monkeypatch):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 12)
    items, seeds = made_items(), [3, 4]
    means, scales = items.statistics()
    bank = ProbeBank([4, 4], 2, 3, hidden_dim, mixes=True)
    train(bank, items, items, (means, scales), seeds, **OPTIONS)
    batch_size, epochs, _, steps = schedule(40, 1, 16)
    assert (batch_size, epochs, steps) == (16, 4, 12)
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
            for ours, theirs in zip(of_member(bank, layer, member), ordered(weights, layer == 2)):
                np.testing.assert_allclose(ours, keras.ops.convert_to_numpy(theirs), atol=1e-5)


def single(bank, layer, member, hidden_dim):
    """A Keras model of one probe, with a mix below it for the last layer of the bank."""
    sizes = [keras.Input((4,))] * 1 if layer < 2 else [keras.Input((4,)), keras.Input((4,))]
    x = sizes[0] if layer < 2 else ScalarMix()(sizes)
    dense = [keras.layers.Dense(hidden_dim, "relu"), keras.layers.Dense(3)] if hidden_dim else [keras.layers.Dense(3)]
    for each in dense:
        x = each(x)
    model = keras.Model(sizes if layer == 2 else sizes[0], x)
    initial = of_member(bank, layer, member)
    for i, each in enumerate(dense):
        each.set_weights(initial[2 * i : 2 * i + 2])
    return model


def of_member(bank, layer, member):
    """The weights of one probe of a bank, as arrays."""
    return [np.take(keras.ops.convert_to_numpy(each), member, -2) for each in bank.probes[layer].values()]


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


@pytest.mark.core
def test_a_linear_probe_finds_a_linear_rule_but_not_the_control_task():
    encoder, preprocessor, sentences, tags = corpus()
    probe = Probe(epochs=3, seeds=2, controls=["selectivity", "word_types"], learning_rate=0.01)
    train, test = (sentences[:90], tags[:90]), (sentences[90:], tags[90:])
    found = probe.sweep(encoder, train, test=test, preprocessor=preprocessor, verbose=0)
    [row] = found.rows
    assert row["score"] == row["high"] == 1.0 and row["seeds_std"] == 0
    assert 0.4 < row["control"] < 0.8  # Six dimensions do not hold 60 random bits.
    assert row["selectivity"] == pytest.approx(1 - row["control"]) and found.word_types == 1.0
    assert found.best == "embeddings" and found.mix is None
    assert "150 labels of 30 texts of the test data, 2 classes" in str(found)
    same = found.compare_with(found).rows[0]
    assert same["difference"] == same["low"] == same["high"] == 0 and "[+0.0000, +0.0000]" in str(
        found.compare_with(found)
    )
    assert found.to_frame().loc["embeddings", "score"] == 1.0


@pytest.mark.core
def test_a_sweep_has_all_layers_the_mix_and_all_controls(monkeypatch):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 4)
    monkeypatch.setattr("keras_transfer.analysis.probing.probes.CONTROL_ROWS", 10)
    model = tiny.classifier(num_layers=2)
    random = np.random.default_rng(0)
    words = [random.choice([*"abcdefgh"], 4).tolist() for _ in range(40)]
    labels = [["ace" if word in "ace" else "other" for word in own] for own in words]
    probe = Probe(epochs=2, seeds=2)
    found = probe.sweep(model, (words[:30], labels[:30]), test=(words[30:], labels[30:]), verbose=0)
    assert [row["layer"] for row in found.rows] == ["embeddings", "block_0", "block_1", "mix"]
    for row in found.rows:
        assert row["gain"] == pytest.approx(row["subset"] - row["random"])
        assert row["gain_low"] <= row["gain"] <= row["gain_high"] and row["bits"] > 0
    uniform = [row["bits"] * row["compression"] / 4 for row in found.rows]  # One bit for each of 4 words of a sentence.
    assert uniform == pytest.approx([round(uniform[0])] * 4)
    assert found.mix.shape == (2, 3) and 0 <= found.center_of_gravity <= 2
    np.testing.assert_allclose(found.mix.sum(axis=1), 1, atol=1e-5)
    heads, cells = found._cells()
    assert len(cells) == 4 and len(heads) == len(cells[0]) == 11
    figure = found.plot()
    assert [line.get_label() for line in figure.axes[0].lines][:3] == ["probe", "control task", "random weights"]
    assert "<table" in found._repr_html_() and "mix" in found.to_markdown()


def test_texts_are_probed_with_held_out_texts_and_compared_with_another_encoder(monkeypatch):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 4)
    model, data = tiny.classifier(), tiny.examples(60)
    encoder, preprocessor, *_ = corpus()
    probe = Probe("sentence", epochs=2, seeds=1, controls=[])
    found = probe.sweep(model, data, verbose=0)
    assert found.classes == ["0", "1"] and "seeds_std" not in found.rows[0] and "too high" in str(found)
    assert len(found._items) == len(np.unique(found._items.sentences)) < 20
    other = probe.sweep(encoder, data, preprocessor=preprocessor, verbose=0)
    rows = found.compare_with(other).rows  # Each layer is compared with the only one of word vectors.
    assert [row["layer"] for row in rows] == found.layers and len({row["other"] for row in rows}) == 1
    assert rows[1]["difference"] == pytest.approx(found.rows[1]["score"] - other.rows[0]["score"])


@pytest.mark.core
@pytest.mark.parametrize("sides", [1, 2])
def test_an_edge_probe_is_that_of_jiant_1(sides, monkeypatch):
    theirs = np.load(REFERENCES / "edge_probe.npz")
    weights = {name.partition("/")[2]: theirs[name] for name in theirs if name.startswith(f"{sides}/")}
    count, length, dim = theirs["vectors"].shape
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.WIDTH", weights["proj1.bias"].shape[0])
    spans, labels = theirs["spans"][:, :sides], theirs["labels"]
    steps = np.arange(length)
    places = np.where(steps < np.diff(spans), spans[..., :1] + steps, -1)
    places = np.where(places < 0, -1, places + length * np.arange(count)[:, None, None])
    rows = {"output": Rows(theirs["vectors"].reshape(-1, dim))}
    items = Items(StoredStates(rows, [length] * count), places, labels, np.arange(count), np.arange(count))
    bank = EdgeBank([dim], 1, labels.shape[1], spans=sides, hidden_dim=weights["classifier.classifier.0.bias"].shape[0])
    bank.begin(([np.zeros(dim)], [np.ones(dim)]), [0])
    names = {"hidden": "0", "scale": "2.weight", "offset": "2.bias", "upper": "4"}
    for part, variable in bank.probes[0].items():
        kind, _, end = part.rpartition("_")
        if kind.startswith(("project", "attend")):
            side = int(kind[-1]) + 1
            own = f"proj{side}" if kind.startswith("project") else f"span_extractor{side}._global_attention._module"
        else:
            own = f"classifier.classifier.{names[kind or part]}"
        name = own if part in names else f"{own}.{'weight' if end == 'kernel' else 'bias'}"
        variable.assign(weights[name].T.reshape(variable.shape))
    sizes = [values.size for name, values in weights.items() if name.endswith(("weight", "bias"))]
    assert bank.count_params() - 2 * dim == sum(sizes) - sides  # The bias of an attention changes nothing.
    found, inputs = answers(bank, items, count), items.read(np.arange(count), np.ones(count))
    inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    logits = keras.ops.convert_to_numpy(bank.logits(inputs))
    np.testing.assert_allclose(logits[:, 0, 0], weights["logits"], atol=1e-5)
    assert found["loss"].mean() == pytest.approx(float(weights["loss"]), abs=1e-5)
    hits, claims = found["hits"].sum(), found["claims"].sum()
    assert 2 * hits / (claims + labels.sum()) == pytest.approx(float(weights["f1"]), abs=1e-6) and 0 < hits < claims


@pytest.mark.core
def test_pairs_of_spans_are_probed_with_micro_f1(monkeypatch, caplog):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.WIDTH", 8)
    monkeypatch.setattr("keras_transfer.analysis.probing.probes.CONTROL_ROWS", 10)
    encoder, _, sentences, _ = corpus(60)
    preprocessor = WordPreprocessor([f"w{i}" for i in range(60)], sequence_length=8)
    spans = [[((0, 1), (3, 5)), ((2, 3), (4, 5))] for _ in sentences]
    odd = [[int(word[1:]) % 2 for word in words] for words in sentences]
    labels = [[["odd"] if row[0] else ["even", "other"], ["odd"] if row[2] else ["even", "other"]] for row in odd]
    sentences[0] = sentences[0] * 2  # It is longer than a row.
    probe = Probe("edge", epochs=4, seeds=1, learning_rate=0.01)
    train, test = (column[:40] for column in (sentences, spans, labels)), (sentences[40:], spans[40:], labels[40:])
    found = probe.sweep(encoder, tuple(train), test=test, preprocessor=preprocessor, verbose=0)
    [row] = found.rows
    assert row["score"] == 1.0 == row["high"] and row["gain_low"] <= row["gain"] == row["subset"] - row["random"]
    assert "Micro F1 on 40 labels of 20 texts" in str(found) and 0 < found.word_types < 0.5
    assert "1 sentences of `train` are too long for one row" in caplog.text


@pytest.mark.filterwarnings("error:You are using a softmax")
def test_spans_of_one_word_may_have_no_label_or_one_that_is_not_trained(monkeypatch, eagerly):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 30)
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.WIDTH", 8)
    encoder, preprocessor, sentences, tags = corpus(20)
    spans = [[(0, 1), (1, 2)], []] * 10
    labels = [[own[0], []] if i % 2 == 0 else [] for i, own in enumerate(tags)]
    test = sentences[:2], spans[:2], [["new", []], []]
    probe = Probe("edge", epochs=1, seeds=1, controls=["word_types"], learning_rate=0.05)
    found = probe.sweep(encoder, (sentences, spans, labels), test=test, preprocessor=preprocessor, verbose=0)
    assert found.rows[0]["score"] == found.word_types == 0  # The label is missed.
    few = sentences[:3], [[(0, 1)], [(0, 1)], []], [["x"], ["y"], []]  # The last one cannot be held out.
    found = Probe("edge", epochs=1, seeds=1).sweep(encoder, few, preprocessor=preprocessor, verbose=0)
    assert "on 1 labels of 1 texts of the validation data" in str(found) and np.isfinite(found.rows[0]["gain"])


def test_probes_are_correlated_with_a_task_over_encoders():
    probes = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    found = probe_correlation(probes, {"a": 1, "b": 3, "c": 2, "d": 4})
    assert found.correlation == pytest.approx(0.8)  # 1 - 6 * (1 + 1) / (4 * 15)
    # Of the 24 orders, 1 has the correlation 1, 3 have 0.8, and as many have -1 and -0.8.
    assert found.p == pytest.approx(8 / 24) and found.low <= 0.8 <= found.high
    assert "0.80" in str(found) and len(found.to_frame()) == 4
    encoder, preprocessor, sentences, tags = corpus(10)
    sweep = Probe(epochs=1, seeds=1, controls=()).sweep(
        encoder, (sentences, tags), preprocessor=preprocessor, verbose=0
    )
    sweep.rows.append({"layer": "mix", "score": 2.0})  # It is no layer.
    found = probe_correlation({**probes, "a": sweep}, {"a": 1, "b": 3, "c": 2, "d": 4})
    assert found.rows[0]["probe"] == sweep.rows[0]["score"] <= 1


def test_a_label_that_is_missing_from_training_is_an_error_of_the_probe():
    encoder, preprocessor, sentences, tags = corpus(40)
    other = [["new", *own[1:]] for own in tags[:10]]
    probe = Probe(epochs=1, seeds=1, controls=["word_types"], learning_rate=0.01)
    parts = (sentences, tags), (sentences, tags), (sentences[:10], other)
    found = probe.sweep(encoder, *parts, preprocessor=preprocessor, verbose=0)
    assert found.rows[0]["score"] == pytest.approx(0.8, abs=1e-6)
    assert "10 labels are missing from the training data" in str(found)
    assert found.word_types == pytest.approx(0.8)


def test_an_unknown_word_has_the_most_frequent_label_and_not_that_of_the_most_frequent_word(eagerly):
    encoder, preprocessor, *_ = corpus(2)
    data = [["w0", "w0", "w1"], ["w0", "w2", "w3", "w4"]], [["x", "x", "y"], ["x", "y", "y", "y"]]
    probe = Probe(epochs=1, seeds=1, controls=["selectivity", "word_types"])
    found = probe.sweep(encoder, data, data, ([["w0", "w5"]], [["x", "y"]]), preprocessor=preprocessor, verbose=0)
    assert found.word_types == 1.0


def test_vectors_that_are_not_finite_are_an_error(eagerly):
    encoder, preprocessor, sentences, tags = corpus(10)
    encoder.weights[0].assign(np.full(encoder.weights[0].shape, np.nan))
    with pytest.raises(ValueError, match="must be finite"):
        Probe(epochs=1, seeds=1, controls=()).sweep(encoder, (sentences, tags), preprocessor=preprocessor, verbose=0)


def test_control_labels_are_as_frequent_as_real_ones():
    found = control_labels(10_000, [0.7, 0.2, 0.1], [0, 1])
    np.testing.assert_allclose(np.bincount(found[:, 0]) / 10_000, [0.7, 0.2, 0.1], atol=0.02)
    assert np.mean(found[:, 0] == found[:, 1]) == pytest.approx(0.7**2 + 0.2**2 + 0.1**2, abs=0.02)


def test_the_description_length_is_that_of_the_online_code():
    found = description_length([2.0, 3.0, 0.5, 0.25], 2, 3)
    assert found == pytest.approx(2 * np.log2(3) + 5.75 / np.log(2))


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
    (lambda: swept(([["a", "b"]], [[0, 1]], [["x", "y"]]), "edge"), "must be (start, end) ... Received: span=0"),
    (lambda: swept(([["a", "b"]], [[(0, 1), ((0, 1), (1, 2))]], [["x", "y"]]), "edge"), "pairs of spans, or single"),
    (
        lambda: swept(
            ([["a", "b"]] * 2, [[(0, 1)]] * 2, [["x"], ["y"]]),
            "edge",
            test=([["a", "b"]], [[((0, 1), (1, 2))]], [["x"]]),
        ),
        "All parts must have pairs of spans, or all single ones",
    ),
    (lambda: swept(([["a"]], [[(0, 1)]], [["x"]]), "edge", test=([["a"]], [[]], [[]])), "`test` must have labels"),
    (lambda: swept(([["a", "b"]], [["x", "y"]])), "`train` must have two sentences ... Received: count=1"),
    (lambda: probe_correlation({"a": 1.0}, {"a": 1.0}), "a dict of at least 4 encoders"),
    (lambda: probe_correlation(dict.fromkeys("abcd", 1.0), dict.fromkeys("abce", 1.0)), "the same names"),
    (lambda: probe_correlation(dict.fromkeys("abcd", 1.0), dict(zip("abcd", range(4)))), "encoders must differ"),
)


def keras_hub_backbone():
    models = pytest.importorskip("keras_hub", reason="needs KerasHub: pip install keras-hub").models
    return models.BertBackbone(17, **SIZES, dropout=0.0, max_sequence_length=32)


SIZES = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32}
FAMILIES = {
    "albert": lambda: tiny.encoder(AlbertEncoder, num_layers=2),
    "bart": lambda: tiny.encoder(BartEncoder, num_layers=2),
    "bert": lambda: tiny.encoder(num_layers=2),
    "deberta": lambda: DebertaV2Encoder(17, **SIZES),
    "gpt2": lambda: tiny.encoder(GPT2Encoder, num_layers=2),
    "keras_hub": keras_hub_backbone,
    "modernbert": lambda: tiny.encoder(ModernBertEncoder, num_layers=2),
    "t5": lambda: T5Encoder(17, **SIZES),
    "xlnet": lambda: XLNetEncoder(17, **SIZES),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_encoders_of_every_family_are_probed(family, monkeypatch, eagerly):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 1)
    words = [list("abc"), list("de"), ["good", "bad"]] * 4
    tags = [["x" if word in "ace" else "y" for word in own] for own in words]
    probe = Probe(epochs=1, seeds=1, controls=["random_weights"])
    found = probe.sweep(FAMILIES[family](), (words, tags), preprocessor=tiny.preprocessor(), verbose=0)
    names = [row["layer"] for row in found.rows]
    prefix = {"albert": "layer", "keras_hub": "transformer_layer"}.get(family, "block")
    assert names[:3] == ["embeddings", f"{prefix}_0", f"{prefix}_1"] and names[-1] == "mix" and len(names) in (4, 5)
    assert all(np.isfinite(row["gain"]) and 0 <= row["random"] <= 1 for row in found.rows)


OTHERS = {
    "awd": (lambda: AWDLSTMEncoder(4, embedding_dim=6, units=8, num_layers=2), lambda: WordPreprocessor(["a", "b"]), 3),
    "elmo": (
        lambda: ElmoEncoder(embedding_dim=4, filters=[(1, 4), (2, 8)], projection_dim=8, units=16),
        ElmoPreprocessor,
        4,
    ),
    "word_vectors": (
        lambda: WordVectorEncoder.from_vectors(WordVectors(["a", "b"], np.eye(2))),
        lambda: WordPreprocessor(["a", "b"]),
        1,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_recurrent_encoders_and_word_vectors_are_probed(name, monkeypatch, eagerly):
    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 1)
    words, tags = [["a", "b", "a"], ["b"]] * 6, [["x", "y", "x"], ["y"]] * 6
    encoder, preprocessor, count = OTHERS[name]
    probe = Probe(epochs=1, seeds=1, controls=["random_weights"])
    found = probe.sweep(encoder(), (words, tags), preprocessor=preprocessor(), verbose=0)
    assert len(found.rows) == count and all(np.isfinite(row["gain"]) for row in found.rows)
    assert (found.mix is not None) == (name == "elmo")  # The layers of the others differ in width, or there is one.


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a module requires TensorFlow")
def test_a_module_of_strings_has_one_vector_for_each_text(tmp_path, monkeypatch, eagerly):
    from tests.hub.saved_modules import save_text_module

    monkeypatch.setattr("keras_transfer.analysis.probing.bank.FEWEST_STEPS", 1)
    encoder, probe = HubEncoder(save_text_module(tmp_path / "module")), Probe("sentence", epochs=1, seeds=1)
    found = probe.sweep(encoder, (["good film", "bad film"] * 6, [1, 0] * 6), verbose=0)
    assert [row["layer"] for row in found.rows] == ["output"] and found.rows[0]["bits"] > 0
    assert "random" not in found.rows[0]  # Its architecture is not known.
    with pytest.raises(ValueError, match="returns one vector for each text, and none for words"):
        Probe().sweep(encoder, ([["good"], ["bad"]] * 6, [["x"], ["y"]] * 6), verbose=0)
