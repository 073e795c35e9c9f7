"""ELMo against the outputs of the original, and in tasks, files, exports and adaptation."""

import json
import shutil

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import L2SP, layer_groups
from keras_transfer.callbacks import GradualUnfreezing
from keras_transfer.checkpoints import CheckpointError, load_preprocessor
from keras_transfer.encoders import ElmoEncoder, encode
from keras_transfer.optimizers import LayerwiseOptimizer
from keras_transfer.tasks import BidirectionalLM, TextClassifier
from keras_transfer.text import ElmoPreprocessor, word_vocabulary
from tests.errors import check_errors
from tests.helpers import eager, save_and_load
from tests.training.runs.staging_models import Watch, assert_follows, changed, values

h5py = pytest.importorskip("h5py")
SIZES = {"embedding_dim": 3, "filters": [(1, 4), (2, 6)], "projection_dim": 5, "units": 8, "dropout": 0.0}
TEXTS, LABELS = ["a good film", "bad", "good good plot .", "a bad plot"] * 4, np.array([1, 0, 1, 0] * 4)


def sentences(folder):
    """The three streams of sentences, and the original's top layer of each: [words, both directions]."""
    streams = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    expected = []
    for i in range(3):
        with h5py.File(folder / f"lm_embeddings_{i}.hdf5") as file:
            expected.append([np.concatenate(list(file[str(k)][...]), axis=-1) for k in range(10)])
    return streams, expected


def largest_differences(folder, batches, how):
    """Returns the largest difference in each batch, which holds the next sentence of each stream.

    `how` is `"keep state"`, `"forget state"`, or `"call"`, which runs the encoder as tasks do.
    """
    encoder = ElmoEncoder.from_pretrained(folder, dropout=0.0)
    state = encoder.empty_state(batch_size=3)
    preprocessor, (streams, expected) = load_preprocessor(folder), sentences(folder)
    longest, worst = max(len(vectors) for stream in expected for vectors in stream), np.zeros(batches)
    for k in range(batches):
        inputs = preprocessor([stream[k] for stream in streams], sequence_length=longest)
        inputs = arrays(inputs)
        if how == "call":
            outputs = encoder(inputs)["sequence_output"]
        else:
            outputs, after = encoder.step(inputs["character_ids"], state, inputs["padding_mask"])
            state = after if how == "keep state" else state
        for row, stream in enumerate(expected):
            ours = keras.ops.convert_to_numpy(outputs)[row]
            worst[k] = max(worst[k], np.abs(ours[: len(stream[k])] - stream[k]).max())
            assert not ours[len(stream[k]) :].any()
    return worst


@pytest.mark.core
@pytest.mark.parametrize("batches", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_with_its_state_kept_between_batches_it_equals_the_original(batches, data_dir):
    assert largest_differences(data_dir("elmo_bilm_tf"), batches, "keep state").max() < 1e-5


@pytest.mark.parametrize("how", ["forget state", "call"])
def test_without_state_only_the_first_batch_equals_the_original(how, data_dir):
    first, second = largest_differences(data_dir("elmo_bilm_tf"), 2, how)
    assert first < 1e-5 and second > 1e-2


def test_a_saved_checkpoint_equals_the_original(data_dir, tmp_path):
    folder = data_dir("elmo_bilm_tf")
    encoder = ElmoEncoder.from_pretrained(folder)
    assert encoder.checkpoint_report.loaded == 33 and not encoder.checkpoint_report.unused
    encoder.save_pretrained(tmp_path / "elmo")
    assert json.loads((tmp_path / "elmo" / "options.json").read_text()) == json.loads(
        (folder / "options.json").read_text()
    )
    with h5py.File(folder / "lm_weights.hdf5") as theirs, h5py.File(tmp_path / "elmo" / "weights.hdf5") as ours:
        names = []
        theirs.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        assert len(names) == 33
        for name in names:
            np.testing.assert_array_equal(ours[name][...], theirs[name][...])
    again = ElmoEncoder.from_pretrained(tmp_path / "elmo")
    assert all((a.numpy() == b.numpy()).all() for a, b in zip(again.weights, encoder.weights, strict=True))


WORDS = word_vocabulary(TEXTS)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """A language model, and the folder in which it is saved."""
    model = BidirectionalLM(ElmoEncoder(**SIZES, num_layers=1), ElmoPreprocessor(6, vocabulary=WORDS))
    folder = tmp_path_factory.mktemp("language_model") / "elmo"
    model.save_pretrained(folder)
    return model, folder


def test_a_language_model_is_saved_with_its_softmax_and_its_words(language_model, tmp_path, eagerly):
    model, folder = language_model
    assert (folder / "vocabulary.txt").read_text().split() == WORDS
    assert json.loads((folder / "options.json").read_text())["n_tokens_vocab"] == len(WORDS)
    with h5py.File(folder / "weights.hdf5") as file:
        np.testing.assert_array_equal(file["softmax/W"][...], model.get_layer("softmax").kernel)
        np.testing.assert_array_equal(file["softmax/b"][...], model.get_layer("softmax").bias)
    again = BidirectionalLM.from_pretrained(folder, num_sampled=3)
    assert again.preprocessor.vocabulary == WORDS and again.preprocessor.sequence_length == 6
    found, expected = again.score(TEXTS[:4]), model.score(TEXTS[:4])
    np.testing.assert_array_equal(found.log_likelihoods, expected.log_likelihoods)
    again.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "vocabulary.txt").read_bytes() == (folder / "vocabulary.txt").read_bytes()
    options = json.loads((tmp_path / "again" / "options.json").read_text())
    assert options.pop("keras_transfer_task")["num_sampled"] == 3
    assert options.items() <= json.loads((folder / "options.json").read_text()).items()
    with h5py.File(folder / "weights.hdf5") as ours, h5py.File(tmp_path / "again" / "weights.hdf5") as theirs:
        names = []
        ours.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        for name in names:
            np.testing.assert_array_equal(theirs[name][...], ours[name][...])
    # Other tasks leave the softmax out. Without it, the head of a language model is new.
    encoder = ElmoEncoder.from_pretrained(folder)
    assert encoder.checkpoint_report.unused == ["softmax/W", "softmax/b"]
    encoder.save_pretrained(tmp_path / "encoder", again.preprocessor)
    with pytest.raises(CheckpointError, match=r'Pass `head="new"` for a new one'):
        BidirectionalLM.from_pretrained(tmp_path / "encoder")
    assert BidirectionalLM.from_pretrained(tmp_path / "encoder", head="new").vocabulary_size == len(WORDS)


def test_another_preprocessor_must_have_the_words_of_the_softmax(language_model, tmp_path):
    _, folder = language_model
    others = ElmoPreprocessor(6, vocabulary=[*WORDS[:3], *WORDS[:2:-1]])
    fresh = BidirectionalLM.from_pretrained(folder, head="new", preprocessor=others)
    assert fresh.preprocessor is others
    same = ElmoPreprocessor(4, vocabulary=WORDS)
    assert BidirectionalLM.from_pretrained(folder, preprocessor=same).preprocessor is same
    # Checkpoints in training have no words.
    shutil.copytree(folder, tmp_path / "nameless", ignore=shutil.ignore_patterns("vocabulary.txt"))
    assert BidirectionalLM.from_pretrained(tmp_path / "nameless", preprocessor=others).preprocessor is others


def with_words(words):
    return lambda language_model: BidirectionalLM.from_pretrained(
        language_model[1], preprocessor=ElmoPreprocessor(6, vocabulary=words)
    )


test_other_words_than_those_of_the_softmax_are_an_error = check_errors(
    (
        with_words([*WORDS[:3], *WORDS[:2:-1]]),
        'words of the softmax of ... in the order of its vocabulary.txt ... `head="new"` for a new softmax ... '
        f"Received: {len(WORDS)} words, the folder has {len(WORDS)}; word 3 is {WORDS[-1]!r}, and 'good' there",
    ),
    (with_words([*WORDS, "new"]), f"Received: {len(WORDS) + 1} words ... word {len(WORDS)} is 'new', and none there"),
    error=CheckpointError,
)


@pytest.mark.report(
    "ELMo's vectors of one sentence differ from call to call.",
    "bilm-tf#176",
    "bilm-tf#107",
    "allennlp#1169",
    "allennlp#2643",
    "allennlp#2398",
    "jiant#345",
)
def test_vectors_of_a_text_do_not_depend_on_the_other_texts():
    encoder, preprocessor = ElmoEncoder(**SIZES), ElmoPreprocessor(sequence_length=6)
    together = encode(encoder, arrays(preprocessor(["a good film", "bad", ""])), hidden_states=True)
    alone = encode(encoder, arrays(preprocessor(["bad"], sequence_length=1)), hidden_states=True)
    assert len(together.hidden_states) == 3
    for states, single in zip(together.hidden_states, alone.hidden_states, strict=True):
        assert states.shape == (3, 6, 10)
        np.testing.assert_allclose(states[1, :1], single[0], atol=1e-6)
        assert not np.asarray(states[2]).any() and not np.asarray(states[1, 1:]).any()
    words = np.asarray(together.hidden_states[0])
    np.testing.assert_array_equal(words[..., :5], words[..., 5:])  # the vectors of words, twice


def arrays(inputs):
    return {name: np.array(value) for name, value in inputs.items()}


def classifier(**options):
    keras.utils.set_random_seed(0)
    encoder = ElmoEncoder(**SIZES, **options)
    return TextClassifier(encoder, num_classes=2, preprocessor=ElmoPreprocessor(sequence_length=6), dropout=0.0)


@pytest.fixture(scope="module")
def trained():
    """A classifier over one layer, and the losses of its training on raw text."""
    model = classifier(num_layers=1)
    model.compile(keras.optimizers.Adam(0.03))
    return model, model.fit(TEXTS * 4, np.tile(LABELS, 4), batch_size=4, epochs=4, verbose=0).history["loss"]


def test_a_classifier_with_it_learns_from_raw_text_and_survives_keras_files(trained):
    model, losses = trained
    assert losses[-1] < 0.5 * losses[0]
    with eager():
        np.testing.assert_array_equal(save_and_load(model).predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))


@pytest.mark.slow
@pytest.mark.report("ELMo cannot be exported for serving.", "allennlp#2516", "allennlp#2722", "allennlp#3995")
def test_an_export_takes_raw_text(trained, tmp_path):
    tf = pytest.importorskip("tensorflow")
    from keras_transfer.serving import export

    model, _ = trained
    export(model, tmp_path / "served", label_names=["bad", "good"])
    served = tf.saved_model.load(tmp_path / "served").signatures["serving_default"]
    expected = keras.ops.softmax(model.predict(TEXTS[:4], verbose=0))
    np.testing.assert_allclose(served(text=tf.constant(TEXTS[:4]))["probabilities"], expected, atol=1e-6)


@pytest.mark.slow
def test_gradual_unfreezing_thaws_its_layers_from_the_top():
    model, callback, watch = classifier(), GradualUnfreezing(steps=1), Watch()
    inputs = arrays(model.preprocessor(TEXTS))
    model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    model.fit(inputs, LABELS, batch_size=4, verbose=0, callbacks=[callback, watch])
    assert [names for _, names in callback.schedule] == [
        ["head"],
        ["block_1", "head"],
        ["block_0", "block_1", "head"],
        ["embeddings", "block_0", "block_1", "head"],
    ]
    assert_follows(model, callback, watch)


@pytest.mark.slow
def test_rates_by_group_and_l2_sp_have_their_effect():
    moved = []
    for penalty in (None, L2SP(10.0, new_strength=0.0)):
        model = classifier()
        start = values(model)
        optimizer = LayerwiseOptimizer(keras.optimizers.SGD(0.05), model, rates={"embeddings": 0.0}, penalty=penalty)
        model.compile(optimizer, run_eagerly=True)
        model.fit(arrays(model.preprocessor(TEXTS[:12])), LABELS[:12], batch_size=4, shuffle=False, verbose=0)
        now, groups = values(model), layer_groups(model)
        still = {weight.path for weight in groups[0].variables}
        assert changed(start, now) == set(start) - still
        blocks = [weight.path for group in groups[1:3] for weight in group.variables]
        moved.append(sum(np.square(now[path] - start[path]).sum() for path in blocks))
    assert moved[1] < 0.5 * moved[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lstm": {"dim": 32}}, r"W_0 must be \(32, 128\), but is \(32, 256\)"),
        ({"lstm": {"n_layers": 3}}, r"missing: .*Cell2/LSTMCell/W_0"),
        ({"char_cnn": {"n_characters": 261}}, "`char_cnn.n_characters` must be 262. Received: 261"),
        ({"char_cnn": {"filters": [[1, 4], [2, 8]]}}, r"shape: CNN_high_0/W_carry must be"),
        ({"lstm": None}, "`lstm.projection_dim` is missing"),
    ],
)
def test_options_that_do_not_match_the_weights_are_one_error(change, message, data_dir, tmp_path):
    source = data_dir("elmo_bilm_tf")
    options = json.loads((source / "options.json").read_text())
    for part, new in change.items():
        options[part] = None if new is None else options[part] | new
    (tmp_path / "options.json").write_text(json.dumps(options))
    (tmp_path / "weights.hdf5").symlink_to(source / "lm_weights.hdf5")
    with pytest.raises(CheckpointError, match=message):
        ElmoEncoder.from_pretrained(tmp_path)


def test_missing_weights_and_weights_that_are_not_hdf5_are_one_error(data_dir, tmp_path):
    (tmp_path / "options.json").write_text((data_dir("elmo_bilm_tf") / "options.json").read_text())
    with pytest.raises(CheckpointError, match=r"must have one weights.hdf5. Received: options.json"):
        ElmoEncoder.from_pretrained(tmp_path)
    (tmp_path / "weights.hdf5").write_bytes(b"no HDF5")
    with pytest.raises(CheckpointError, match="must be an HDF5 file"):
        ElmoEncoder.from_pretrained(tmp_path)
