"""`TextGenRNNEncoder` and textgenrnn's files against their definition in NumPy, and as a language model."""

import json

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as numpy_of

from keras_transfer.adaptation import layer_groups
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import Encoder, GPT2Encoder, TextGenRNNEncoder
from keras_transfer.tasks import CausalLM, TextClassifier
from keras_transfer.text import CharacterTokenizer, Packing, TokenPreprocessor
from tests.errors import check_errors
from tests.helpers import EAGER, encoder_inputs, outputs_of, run_encoder_test, save_and_load

h5py = pytest.importorskip("h5py")

SIZES = {"embedding_dim": 3, "units": 4, "num_layers": 2, "window": 5}
VOCABULARY = {**{letter: k for k, letter in enumerate("abcdefgh ", 1)}, "<s>": 10}
IDS = np.random.default_rng(0).integers(1, 11, (2, 9))


def make(**options):
    keras.utils.set_random_seed(0)
    encoder = TextGenRNNEncoder(11, **{**SIZES, **options})
    for k, weight in enumerate(encoder.trainable_weights):
        weight.assign(np.random.default_rng(k).normal(size=weight.shape))
    return encoder


def outputs(encoder, ids, **options):
    return outputs_of(encoder, encoder_inputs(encoder, ids, **options))["sequence_output"]


def write_original(folder, cudnn=True, **config):
    """Writes the files of a small random model as the original does, and returns its arrays."""
    random, units, dim, arrays = np.random.default_rng(1), SIZES["units"], SIZES["embedding_dim"], {}
    arrays["embedding/embeddings"] = random.normal(size=(11, dim))
    for layer, width in (("rnn_1", dim), ("rnn_2", units)):
        arrays[f"{layer}/kernel"] = random.normal(size=(width, 4 * units))
        arrays[f"{layer}/recurrent_kernel"] = random.normal(size=(units, 4 * units))
        arrays[f"{layer}/bias"] = random.normal(size=(8 if cudnn else 4) * units)
    arrays["attention/attention_W"] = random.normal(size=(dim + 2 * units, 1))
    arrays["output/kernel"] = random.normal(size=(dim + 2 * units, 11))
    arrays["output/bias"] = random.normal(size=11)
    arrays = {name: values.astype("float32") for name, values in arrays.items()}
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / "my_weights.hdf5", "w") as file:
        layers = list(dict.fromkeys(name.split("/")[0] for name in arrays))
        file.attrs.update({"layer_names": layers, "backend": "tensorflow", "keras_version": "2.1.5"})
        for layer in layers:
            own = [name for name in arrays if name.startswith(f"{layer}/")]
            file.create_group(layer).attrs["weight_names"] = [f"{name}:0" for name in own]
            file[layer].update({f"{name}:0": arrays[name] for name in own})
    (folder / "my_vocab.json").write_text(json.dumps(VOCABULARY))
    settings = {"rnn_layers": 2, "rnn_size": units, "rnn_bidirectional": False, "max_length": SIZES["window"]}
    settings |= {"dim_embeddings": dim, "word_level": False, "single_text": False, "max_words": 10000, **config}
    (folder / "my_config.json").write_text(json.dumps(settings))
    return arrays


def reference(arrays, ids, window):
    """The logits of the next token at each position of a text, as the original computes them, in double precision."""
    arrays = {name: values.astype("float64") for name, values in arrays.items()}
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    rows = np.array([[*[0] * window, *ids[: place + 1]][-window:] for place in range(len(ids))])
    layers = [arrays["embedding/embeddings"][rows]]
    for name in ("rnn_1", "rnn_2"):
        kernel, recurrent, bias = (arrays[f"{name}/{part}"] for part in ("kernel", "recurrent_kernel", "bias"))
        units = len(recurrent)
        if len(bias) == 8 * units:  # A CuDNNLSTM has the matrix [units, inputs] of each gate in the kernel's memory.
            bias = bias[: 4 * units] + bias[4 * units :]
            kernel, recurrent = (
                np.hstack([np.reshape(part, (units, -1)).T for part in np.hsplit(whole, 4)])
                for whole in (kernel, recurrent)
            )
        h = c = np.zeros((len(rows), units))
        steps = []
        for step in range(window):
            i, f, g, o = np.split(layers[-1][:, step] @ kernel + h @ recurrent + bias, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            steps.append(h)
        layers.append(np.stack(steps, axis=1))
    x = np.concatenate(layers, axis=-1)
    scores = np.exp(x @ arrays["attention/attention_W"])
    return (x * scores / scores.sum(axis=1, keepdims=True)).sum(axis=1) @ arrays["output/kernel"] + arrays[
        "output/bias"
    ]


def logits_of(model, ids):
    return outputs_of(model, encoder_inputs(model.encoder, ids))


def test_it_is_a_well_behaved_encoder():
    run_encoder_test(TextGenRNNEncoder, {"vocabulary_size": 12, **SIZES}, width=11)
    bias = numpy_of(TextGenRNNEncoder(5, **SIZES).blocks[1].bias)
    np.testing.assert_array_equal(bias, np.repeat([0, 1, 0, 0], 4))


@pytest.mark.core
def test_texts_in_steps_have_the_vectors_of_whole_texts_wherever_padding_is():
    encoder = make()
    whole = outputs(encoder, IDS)
    found, state = [], encoder.empty_state(batch_size=2)
    for part in np.split(IDS, 3, axis=1):
        vectors, state = encoder.step(part, state)
        found.append(numpy_of(vectors))
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, atol=1e-6)
    np.testing.assert_array_equal(numpy_of(state[0]), IDS[:, -4:])
    # The first text begins two places later, and a token of the second is padding: 7 may stand there.
    ids, mask = np.array([[7, 7, 1, 2], [3, 4, 7, 5]]), np.array([[0, 0, 1, 1], [1, 1, 0, 1]])
    vectors, state = encoder.step(ids, encoder.empty_state(2), padding_mask=mask)
    np.testing.assert_array_equal(numpy_of(state[0]), [[0, 0, 1, 2], [0, 3, 4, 5]])
    expected = outputs(encoder, [[1, 2, *[0] * 7], [3, 4, 5, *[0] * 6]])
    np.testing.assert_allclose(numpy_of(vectors)[0, 2:], expected[0, :2], atol=1e-6)
    np.testing.assert_allclose(numpy_of(vectors)[1, [0, 1, 3]], expected[1, :3], atol=1e-6)
    assert not numpy_of(vectors)[mask == 0].any()


def test_a_position_sees_the_tokens_of_its_window_only():
    encoder, changed = make(), IDS.copy()
    changed[:, 2] = 1 + changed[:, 2] % 10
    differs = (outputs(encoder, IDS) != outputs(encoder, changed)).any(axis=-1)
    np.testing.assert_array_equal(differs, [[False, False, *[True] * 5, False, False]] * 2)


@pytest.mark.core
@pytest.mark.parametrize("cudnn", [True, False])
def test_files_of_the_original_have_its_logits(cudnn, tmp_path):
    arrays = write_original(tmp_path, cudnn)
    model = CausalLM.from_pretrained(tmp_path, preprocessor=None)
    expected = [reference(arrays, ids, SIZES["window"]) for ids in IDS]
    np.testing.assert_allclose(logits_of(model, IDS), expected, atol=1e-5)
    assert model.encoder.checkpoint_report.unused == []


@pytest.mark.core
@pytest.mark.usefixtures("traced")
def test_it_writes_what_the_original_writes(tmp_path):
    arrays = write_original(tmp_path)
    model, ids = CausalLM.from_pretrained(tmp_path, preprocessor=None), [10, 3]
    [written] = model.generate([ids], max_new_tokens=7)
    while len(ids) < 9 and ids[1:].count(10) == 0:
        scores = reference(arrays, ids, SIZES["window"])[-1]
        ids.append(int(scores[1:].argmax()) + 1)  # The original never chooses the id 0.
    assert written == ids[2:]


@pytest.mark.usefixtures("eagerly")
def test_texts_begin_and_end_with_the_meta_token(tmp_path):
    arrays = write_original(tmp_path)
    model = CausalLM.from_pretrained(tmp_path)
    assert model.preprocessor(["a!<s>"], sequence_length="longest")["token_ids"].numpy().tolist() == [
        [10, 1, 0, 0, 0, 0, 10]  # No "!", no "<", no ">" and no "s" in the vocabulary.
    ]
    ids = [10, 1, 2, 10]
    expected = reference(arrays, ids[:-1], SIZES["window"])
    expected = [row[k] - np.log(np.exp(row).sum()) for row, k in zip(expected, ids[1:])]
    np.testing.assert_allclose(model.score(["ab"]).token_log_likelihoods[0], expected, atol=1e-5)
    assert set(model.generate("", end_token=None, max_length=5)) <= set("abcdefgh ")
    # The texts of a model of one long text have no boundaries.
    write_original(tmp_path, single_text=True)
    single = CausalLM.from_pretrained(tmp_path)
    assert single.preprocessor(["a b"], sequence_length="longest")["token_ids"].numpy().tolist() == [[1, 9, 2]]


@pytest.mark.usefixtures("eagerly")
def test_files_are_kept_by_folders_and_keras_files(tmp_path):
    write_original(tmp_path / "original")
    model = CausalLM.from_pretrained(tmp_path / "original", sequence_length=32)
    expected = logits_of(model, IDS)
    model.save_pretrained(tmp_path / "mine")
    again = CausalLM.from_pretrained(tmp_path / "mine")
    assert (again.tied, again.encoder.window, again.preprocessor.sequence_length) == (False, 5, 32)
    assert again.preprocessor.vocabulary == model.preprocessor.vocabulary
    for loaded in (again, save_and_load(model)):
        np.testing.assert_array_equal(logits_of(loaded, IDS), expected)
    assert save_and_load(model).generate("ab", max_new_tokens=5) == model.generate("ab", max_new_tokens=5)
    again.save_pretrained(tmp_path / "again")
    for name in ("textgenrnn_config.json", "textgenrnn_vocab.json"):
        assert (tmp_path / "mine" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    model.encoder.save_pretrained(tmp_path / "encoder")  # without a vocabulary
    np.testing.assert_array_equal(
        outputs(Encoder.from_pretrained(tmp_path / "encoder"), IDS), outputs(model.encoder, IDS)
    )


@pytest.mark.slow  # the import of Keras 2
def test_the_original_reads_our_folder(tmp_path):
    """Keras 2 loads the weights by the names of its layers, as the original does."""
    old = pytest.importorskip("tf_keras", reason="needs Keras 2: pip install tf_keras").layers
    write_original(tmp_path / "original")
    model = CausalLM.from_pretrained(tmp_path / "original")
    model.save_pretrained(tmp_path / "mine")
    ids = old.Input((5,))
    layers = [old.Embedding(11, 3, name="embedding")(ids)]
    for name in ("rnn_1", "rnn_2"):
        layers.append(old.LSTM(4, return_sequences=True, recurrent_activation="sigmoid", name=name)(layers[-1]))
    theirs = pytest.importorskip("tf_keras").Model(ids, layers)
    for folder, file in (("original", "my_weights.hdf5"), ("mine", "textgenrnn_weights.hdf5")):
        theirs.load_weights(tmp_path / folder / file, by_name=True)
        states = theirs(IDS[:, :5])
        ours = keras.Model(model.encoder.input, model.encoder.hidden_states)(encoder_inputs(model.encoder, IDS[:, :5]))
        for mine, their in zip(ours, states):
            np.testing.assert_allclose(numpy_of(mine)[:, -1], their.numpy()[:, -1], atol=1e-6)


def test_it_learns_window_by_window_and_in_a_classifier():
    encoder = make(dropout=0.2)
    model = CausalLM(encoder, streams=2, tied=False)
    assert [group.name for group in layer_groups(model)] == ["embeddings", "block_0", "block_1", "attention", "head"]
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    for begins in (1, 0):
        inputs = {**encoder_inputs(encoder, IDS), "begins": np.full((2, 1), begins, "int32")}
        model.train_on_batch(inputs, np.roll(IDS, -1, axis=1), np.ones(IDS.shape, "float32"))
    np.testing.assert_array_equal(numpy_of(model.carried_state.states[0][0].value), IDS[:, -4:])
    classifier = TextClassifier(encoder, num_classes=2, pooling="last")
    before = [numpy_of(weight) for weight in classifier.trainable_weights]
    classifier.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    classifier.train_on_batch(encoder_inputs(encoder, IDS), np.array([0, 1]))
    assert all((numpy_of(weight) != old).any() for weight, old in zip(classifier.trainable_weights, before))


def test_the_published_weights_have_the_logits_of_their_definition(data_dir):
    folder = data_dir("textgenrnn")  # textgenrnn_weights.hdf5 and textgenrnn_vocab.json of the package
    with h5py.File(folder / "textgenrnn_weights.hdf5") as file:
        arrays = {
            f"{layer}/{name.removesuffix(':0')}": values[...]
            for layer in file
            for name, values in file[layer].get(layer, {}).items()
        }
    model = CausalLM.from_pretrained(folder)
    [ids] = model.preprocessor(
        ["The quick brown fox jumps over the lazy dog, twice a day."], sequence_length="longest"
    )["token_ids"].numpy()
    # Some logits are below -60.
    np.testing.assert_allclose(logits_of(model, [ids])[0], reference(arrays, ids, 40), rtol=1e-5, atol=1e-5)
    assert model.score(["How to find a job", "Why is the sky so blue?"]).perplexity_per_token < 10
    assert len(model.generate("How to ", max_new_tokens=10)) == 10


def without(folder, name):
    write_original(folder)
    (folder / name).unlink()
    return folder


def with_head(tmp_path, **options):
    write_original(tmp_path)
    return CausalLM.from_pretrained(tmp_path, **options)


def save_with(tmp_path, tokenizer, packing):
    make().save_pretrained(tmp_path / "new", TokenPreprocessor(tokenizer, packing))


def load_configured(tmp_path, **config):
    write_original(tmp_path, **config)
    return CausalLM.from_pretrained(tmp_path)


test_mistakes_are_clear_errors = check_errors(
    (lambda: make(window=1), "`window` must be an integer of at least 2. Received: window=1"),
    (lambda: make(units=0), "`units` must be an integer of at least 1. Received: units=0"),
    (lambda: make().step(IDS, None), "`state` must be what `empty_state(batch_size)` ... Received: state=None"),
    (lambda: make().step(IDS, make().empty_state(3)), "of shape (2, 4). Received: shape (3, 4)"),
    (lambda: CausalLM(make()), "Pass `tied=False` for a head with separate weights. Received: widths 3 and 11"),
    (
        lambda tmp_path: load_configured(tmp_path, word_level=True),
        CheckpointError,
        "consists of characters ... Pass `preprocessor=None` for prepared ids. Received: word_level=True",
    ),
    (
        lambda tmp_path: load_configured(tmp_path, rnn_bidirectional=True),
        CheckpointError,
        "`rnn_bidirectional` must be False. Received: True",
    ),
    (
        lambda tmp_path: load_configured(tmp_path, rnn_size=6),
        CheckpointError,
        "shape: rnn.0.kernel must be (3, 24), but is (3, 16)",
    ),
    (lambda tmp_path: with_head(tmp_path, tied=True), CheckpointError, "has tied=False ... Received: tied=True"),
    (
        lambda tmp_path: CausalLM.from_pretrained(without(tmp_path, "my_vocab.json")),
        CheckpointError,
        "must have a *_vocab.json. Pass `preprocessor=None` for prepared ids. Received: my_config.json, my_weights",
    ),
    (
        lambda tmp_path: Encoder.from_pretrained(without(tmp_path, "my_vocab.json")),
        CheckpointError,
        "`num_classes` is missing",
    ),
    (
        lambda tmp_path: CausalLM.from_pretrained(without(tmp_path, "my_weights.hdf5")),
        CheckpointError,
        "*_vocab.json beside weights in HDF5 (textgenrnn), or *.pth (fastai). Received: my_config.json, my_vocab.json",
    ),
    (
        lambda tmp_path: save_with(tmp_path, CharacterTokenizer(["<pad>", *"abcdefghi"], unk_token="<pad>"), Packing()),
        ValueError,
        "must contain the special tokens [PAD]",
    ),
    (
        lambda tmp_path: save_with(tmp_path, CharacterTokenizer(["[PAD]", "[UNK]"]), Packing()),
        CheckpointError,
        "Files of textgenrnn can contain a `TokenPreprocessor` of a `CharacterTokenizer` with the first token '<pad>'",
    ),
    (
        lambda tmp_path: CausalLM(
            GPT2Encoder(5, num_layers=1, num_heads=1, hidden_dim=2, intermediate_dim=2, max_sequence_length=4),
            tied=False,
        ).save_pretrained(tmp_path / "x"),
        CheckpointError,
        "only if it has tied=True ... Received: tied=False",
    ),
)
