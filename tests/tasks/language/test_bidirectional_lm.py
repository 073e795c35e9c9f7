"""`BidirectionalLM` against NumPy and the original's vectors; what its directions see; its loss, files and exports."""

import json

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.encoders import AWDLSTMEncoder, ElmoEncoder
from keras_transfer.tasks import BidirectionalLM
from keras_transfer.text import BertPreprocessor, ElmoPreprocessor, word_vocabulary
from tests.errors import check_errors
from tests.helpers import EAGER, eager, outputs_of
from tests.tasks.loaders import Loader

SIZES = {"embedding_dim": 3, "filters": [(1, 16), (2, 8)], "projection_dim": 4, "units": 6, "max_characters": 8}
LENGTH = 6
TEXTS = ["the film was good", "the book", "", "the film was a bad film"]
WORDS = word_vocabulary(TEXTS)
MASK = "padding_mask"


def make(num_layers=2, **options):
    keras.utils.set_random_seed(0)
    encoder = ElmoEncoder(**SIZES, num_layers=num_layers, dropout=0.0)
    model = BidirectionalLM(encoder, ElmoPreprocessor(LENGTH, max_characters=8, vocabulary=WORDS), **options)
    for k, weight in enumerate(model.trainable_weights):
        weight.assign(np.random.default_rng(k).normal(0.0, 0.3, weight.shape))
    return model


def compiled(rate=0.5, **options):
    model = make(**options)
    model.compile(keras.optimizers.SGD(rate), run_eagerly=EAGER)
    return model


@pytest.fixture(scope="module")
def model():
    return compiled()


@pytest.fixture(scope="module")
def one_layer():
    return compiled(num_layers=1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(model, text):
    """The log-likelihoods `[words + 1, 2]` of a sentence, from the weights of a model."""
    w = {weight.path: to_numpy(weight).astype("float64") for weight in model.weights}
    words = ["<S>", *text.split(), "</S>"]
    ids = [WORDS.index(word) for word in words]
    vectors = []
    for word in words:
        letters = {"<S>": [257], "</S>": [258]}.get(word) or [byte + 1 for byte in word.encode()][:6]
        embedded = w["words/embedding/embeddings"][([259, *letters, 260] + [261] * 8)[:8]]
        parts = []
        for k, (width, _) in enumerate(SIZES["filters"]):
            kernel, bias = (w[f"words/convolution_{k}/{part}"] for part in ("kernel", "bias"))
            rows = [np.einsum("we,wen->n", embedded[i : i + width], kernel) + bias for i in range(9 - width)]
            parts.append(np.maximum(np.max(rows, axis=0), 0))
        x = np.concatenate(parts)
        for k in range(2):
            gate, new = (
                x @ w[f"words/highway_{k}_{part}/kernel"] + w[f"words/highway_{k}_{part}/bias"]
                for part in ("gate", "transform")
            )
            x = sigmoid(gate) * np.maximum(new, 0) + (1 - sigmoid(gate)) * x
        vectors.append(x @ w["words/projection/kernel"] + w["words/projection/bias"])
    found = []
    for name, order in (("forward", 1), ("backward", -1)):
        x = np.array(vectors)[::order]
        for k in range(2):
            h, c, outputs = np.zeros(4), np.zeros(6), []
            for step in x:
                gates = step @ w[f"{name}_{k}/kernel"] + h @ w[f"{name}_{k}/cell/recurrent_kernel"]
                i, f, g, o = np.split(gates + w[f"{name}_{k}/bias"], 4)
                c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g), -3, 3)
                h = np.clip((sigmoid(o) * np.tanh(c)) @ w[f"{name}_{k}/cell/projection"], -3, 3)
                outputs.append(h)
            x = np.array(outputs) + (x if k else 0)
        scores = x[:-1] @ w["softmax/kernel"].T + w["softmax/bias"]
        targets = np.array(ids)[::order][1:]
        logs = scores[np.arange(len(targets)), targets] - np.log(np.exp(scores).sum(axis=1))
        found.append(logs[::order])
    return np.stack(found, axis=1)


@pytest.mark.core
def test_likelihoods_loss_and_perplexity_equal_a_reference_in_numpy(model):
    expected = [reference(model, text) for text in TEXTS]
    scores = model.score(TEXTS, batch_size=3)
    for ours, theirs in zip(scores.word_log_likelihoods, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(scores.log_likelihoods, [each.sum(axis=0) for each in expected], atol=1e-4)
    loss = -np.concatenate(expected).mean()
    assert scores.perplexity == pytest.approx(np.exp(loss), rel=1e-5)
    found = model.evaluate(TEXTS, batch_size=4, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(loss, abs=1e-5)
    assert found["perplexity"] == pytest.approx(np.exp(loss), rel=1e-5)


def item(model, text):
    """The inputs of a sentence with its targets."""
    inputs, targets = model.dataset([text])[0]
    return {name: np.array(values) for name, values in inputs.items()}, np.array(targets)


def test_targets_are_the_words_on_both_sides_of_each_place(model):
    inputs, targets = item(model, "the new film")
    the, film = WORDS.index("the"), WORDS.index("film")
    np.testing.assert_array_equal(targets[0, :4], [[the, 0], [2, the], [film, 2], [1, film]])
    assert (targets[0, 4:] == -1).all() and "word_ids" not in inputs


@pytest.mark.parametrize("direction", [0, 1])
def test_a_direction_has_no_gradient_from_the_words_that_it_predicts(direction):
    model = compiled()
    # Each word has one letter of its own. The second place lies between the first word and the second.
    inputs, targets = item(model, "a b c")
    targets = np.where(np.arange(targets.shape[1])[:, None] == 1, targets, -1)
    targets[..., 1 - direction] = -1
    table = model.encoder.words.embedding.embeddings
    before = to_numpy(table).copy()
    model.train_on_batch({**inputs, "targets": targets}, targets)
    moved = (to_numpy(table) != before).any(axis=1)
    assert [bool(moved[ord(letter) + 1]) for letter in "abc"] == [[True, False, False], [False, True, True]][direction]
    # <S> and </S> are read by the forward and the backward model alone.
    assert [bool(moved[marker]) for marker in (257, 258)] == [direction == 0, direction == 1]


def test_its_vectors_are_those_of_the_original(data_dir):
    h5py = pytest.importorskip("h5py")
    folder = data_dir("elmo_bilm_tf")
    encoder = ElmoEncoder.from_pretrained(folder, dropout=0.0)
    model = BidirectionalLM(encoder, ElmoPreprocessor(vocabulary=WORDS))
    texts = [stream[0] for stream in json.loads((folder / "lm_embeddings_sentences.json").read_text())]
    inputs = {name: np.array(values) for name, values in model.preprocessor(texts, sequence_length="longest").items()}
    found = to_numpy(model.vectors({name: inputs[name] for name in model.input}))
    for row in range(3):
        with h5py.File(folder / f"lm_embeddings_{row}.hdf5") as file:
            forward, backward = file["0"][...]
        # After a word, the forward vector predicts the next one. Before it, the backward vector predicts the previous.
        np.testing.assert_allclose(found[row, 1 : len(forward) + 1, 0], forward, atol=1e-5)
        np.testing.assert_allclose(found[row, : len(backward), 1], backward, atol=1e-5)


def test_training_samples_the_vocabulary_and_evaluation_does_not(one_layer):
    sampled = compiled(num_layers=1, num_sampled=2)
    expected = one_layer.evaluate(TEXTS, batch_size=4, verbose=0)
    np.testing.assert_allclose(sampled.evaluate(TEXTS, batch_size=4, verbose=0), expected, rtol=1e-6)
    inputs, _ = item(sampled, TEXTS[0])
    first, second = (to_numpy(sampled(inputs, training=True)) for _ in range(2))
    assert (first != second).any()
    vectors, (_, softmax) = sampled.vectors({name: inputs[name] for name in sampled.input}), sampled.head_layers
    state = to_numpy(softmax.random.state.value)
    losses = to_numpy(sampled(inputs, training=True))
    softmax.random.state.assign(state)
    drawn = [softmax.draw() for _ in range(2)]
    for k in range(2):
        expected = softmax(vectors[:, :, k], np.maximum(inputs["targets"][..., k], 0), sampled=drawn[k])
        np.testing.assert_allclose(losses[..., k], to_numpy(expected), atol=1e-6)


def test_it_learns(eagerly):
    model = compiled(2.0, num_sampled=6)
    before = model.score(TEXTS).perplexity
    options = {"validation_data": TEXTS, "validation_freq": 4}
    history = model.fit(TEXTS, batch_size=4, epochs=4, verbose=0, **options).history
    assert model.score(TEXTS).perplexity < 0.9 * before
    assert set(history) == {"loss", "perplexity", "val_loss", "val_perplexity"}


def test_loaders_and_prepared_ids_are_data_too(one_layer):
    model = one_layer
    tf = pytest.importorskip("tensorflow")
    expected = model.evaluate(TEXTS, batch_size=4, verbose=0)
    stream = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4)
    inputs = {name: np.array(values) for name, values in model.preprocessor(TEXTS).items()}
    for data in (stream, inputs, Loader([TEXTS]), Loader([inputs])):
        np.testing.assert_allclose(model.evaluate(data, batch_size=4, verbose=0), expected, rtol=1e-6)
    assert outputs_of(model, {name: inputs[name] for name in model.input}).shape == (4, LENGTH + 1, 2, len(WORDS))


def test_texts_of_datasets_train_in_a_graph():
    tf = pytest.importorskip("tensorflow")
    model = make(num_layers=1)
    model.compile(keras.optimizers.SGD(0.0))
    stream = tf.data.Dataset.from_tensor_slices(TEXTS).batch(4)
    found = model.fit(stream, verbose=0).history["loss"][0]
    with eager():
        assert found == pytest.approx(model.evaluate(TEXTS, batch_size=4, verbose=0)[0], abs=1e-5)


def test_the_signature_of_exports_scores_texts(one_layer):
    model = one_layer
    tf = pytest.importorskip("tensorflow")
    function, text = model.signatures()["serving_default"].function, tf.TensorSpec([None], "string")
    answer = tf.function(function, input_signature=[text], autograph=False)
    found = answer(tf.constant(TEXTS))["log_likelihood"]
    np.testing.assert_allclose(to_numpy(found), model.score(TEXTS).log_likelihoods, atol=1e-5)


def test_a_vocabulary_has_the_words_by_their_counts(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("a b b\nc b a\n\nd <S>\n")
    assert word_vocabulary(file) == ["<S>", "</S>", "<UNK>", "b", "a", "c", "d"]
    assert word_vocabulary(["a b, b"], split="punctuation", min_count=2) == ["<S>", "</S>", "<UNK>", "b"]
    assert word_vocabulary(["a b b"], size=4) == ["<S>", "</S>", "<UNK>", "b"]
    # The published files end with a word that is none.
    published = tmp_path / "words.txt"
    published.write_text("</S>\n<S>\n<UNK>\nb\n!!!MAXTERMID\n")
    preprocessor = ElmoPreprocessor(vocabulary=published)
    assert preprocessor.vocabulary == ["</S>", "<S>", "<UNK>", "b"]
    np.testing.assert_array_equal(preprocessor(["b x <S>"], sequence_length=4)["word_ids"], [[3, 2, 1, 0]])


def stream(rows):
    return pytest.importorskip("tensorflow").data.Dataset.from_tensor_slices(rows).batch(2)


def elmo():
    return ElmoEncoder(**SIZES)


IDS = {"character_ids": np.ones((1, 2, 8), "int32"), MASK: np.ones((1, 2), "int32")}
test_mistakes_are_clear_errors = check_errors(
    (
        lambda: BidirectionalLM(AWDLSTMEncoder(9, embedding_dim=4, units=4, num_layers=1)),
        "`encoder` must be an `ElmoEncoder` ... Received: encoder=<AWDLSTMEncoder",
    ),
    (lambda: BidirectionalLM(elmo()), "needs the words that it predicts ... Received: neither"),
    (
        lambda: BidirectionalLM(elmo(), BertPreprocessor(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])),
        "`text.ElmoPreprocessor`",
    ),
    (lambda: make(vocabulary_size=5), "words of the preprocessor. Leave it out. Received: vocabulary_size=5"),
    (lambda: make(num_sampled=99), "`num_sampled` must be an integer from 1 to 10 ... Received: num_sampled=99"),
    (lambda: make().compile(loss="mse"), "computes its own loss and metrics ... Received: loss='mse'"),
    (
        lambda model: model.fit(stream(((TEXTS, TEXTS),))),
        "accepts single texts, not pairs ... Received: (",
    ),
    (lambda model: model.fit(stream((TEXTS, [0] * 4))), "makes its targets. Leave `y` out"),
    (lambda model: model.fit(IDS), "must have `word_ids` ... Received: inputs ['character_ids', 'padding_mask']"),
    (
        lambda model: model.fit({**IDS, "word_ids": np.full((1, 2), 99)}),
        "`word_ids` must be from 0 to 9 ... Received: 99 at position (0, 0)",
    ),
    (lambda model: model.score([1]), "`texts` must be a list of strings. Received: list"),
    (lambda: ElmoPreprocessor(vocabulary=["a", "<S>"]), "must have the words ... no </S> and no <UNK>"),
    (lambda: word_vocabulary([""]), "needs texts with words ... Received: 0 words"),
)
