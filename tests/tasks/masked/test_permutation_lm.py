"""A permutation language model equals XLNet's, trains on raw text, fills masks, and hands on its encoder."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from safetensors.numpy import load_file

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.encoders import BertEncoder, XLNetEncoder
from keras_transfer.objectives import PermutationLanguageModel
from keras_transfer.tasks import PermutationLM, TextClassifier
from keras_transfer.text import Corpus
from tests.architecture import FIXTURES
from tests.errors import check_errors
from tests.helpers import EAGER, logged, outputs_of
from tests.tasks.tiny import VOCABULARY, encoder, preprocessor

TEXTS = ["a b c", "d e", "f g h i j a b c d", "a b c d e f g h i j"]
FOLDER = FIXTURES / "xlnet"
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "dropout": 0.0}


def permutation_lm(**options):
    keras.utils.set_random_seed(0)
    return PermutationLM(XLNetEncoder(len(VOCABULARY), **SIZES, two_streams=True), preprocessor(), **options)


def rows():
    return {name: np.asarray(value) for name, value in preprocessor()(TEXTS).items()}


# === The original ===


@pytest.mark.core
def test_logits_and_loss_are_those_of_the_original_whose_head_is_written_back(tmp_path):
    model = PermutationLM.from_pretrained(FOLDER, preprocessor=None)
    arrays = {**np.load(FOLDER / "outputs.npz"), **np.load(FOLDER / "two_streams.npz")}
    inputs, used = {tensor.name: arrays[tensor.name] for tensor in model.inputs}, arrays["targets"] >= 0
    np.testing.assert_allclose(outputs_of(model, inputs)[used], arrays["logits"][used], rtol=0, atol=1e-5)
    model.compile(run_eagerly=EAGER)
    loss = model.test_on_batch(inputs, arrays["targets"], return_dict=True)["loss"]
    assert float(loss) == pytest.approx(float(arrays["loss"]), abs=1e-5)

    model.save_pretrained(tmp_path / "saved")
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (tmp_path / "saved", FOLDER))
    assert ours.keys() == theirs.keys() - {"lm_loss.weight"}  # the token embeddings
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


# === Targets ===


class Loader:
    """An iterable of batches that is no iterator."""

    def __iter__(self):
        return iter([TEXTS, TEXTS])


def test_packed_rows_and_streams_get_targets_too():
    tf, model = pytest.importorskip("tensorflow"), permutation_lm()
    for source in (rows(), tf.data.Dataset.from_tensor_slices(TEXTS).batch(4), Loader()):
        inputs, targets = next(iter(model.dataset(source)))
        assert {*rows(), "factorization_order", "mask_positions"} == set(inputs)
        targets, positions, ids = (np.asarray(x) for x in (targets, inputs["mask_positions"], inputs["token_ids"]))
        assert (np.take_along_axis(ids, np.maximum(positions, 0), 1) == targets)[targets >= 0].all()


# === Training ===


def test_it_learns_from_a_corpus_and_a_classifier_uses_its_encoder(tmp_path, caplog):
    texts = ["a a a a", "b b b b", "c c c c"] * 60
    corpus = Corpus.build(texts, preprocessor(), tmp_path / "corpus")
    model = permutation_lm(objective=PermutationLanguageModel(1 / 4, seed=0))
    model.compile(keras.optimizers.Adam(0.01))
    losses = model.fit(corpus.blocks(6, batch_size=6, seed=0), epochs=3, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert [answer[0][0][0] for answer in model.fill_mask(["a a [MASK] a", "c [MASK] c c"])] == ["a", "c"]

    classifier = TextClassifier(model.encoder, preprocessor(), num_classes=2, pooling="last")
    assert classifier.encoder is model.encoder and "streams" not in [layer.name for layer in classifier.layers]
    vector = to_numpy(model.encoder.streams.mask_embedding)
    classifier.compile(keras.optimizers.Adam(0.1), run_eagerly=True)
    with caplog.at_level("WARNING"):
        classifier.fit(texts[:4], [0, 1, 0, 1], verbose=0)
    assert not logged(caplog)
    np.testing.assert_array_equal(to_numpy(model.encoder.streams.mask_embedding), vector)


def test_prepared_data_train_all_weights_on_every_backend():
    model = permutation_lm()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=EAGER)
    inputs, targets = model.dataset(TEXTS, batch_size=4)[0]
    before = [to_numpy(weight).copy() for weight in model.trainable_weights]
    assert np.isfinite(float(model.train_on_batch(inputs, targets, return_dict=True)["loss"]))
    still = [weight.path for weight, old in zip(model.trainable_weights, before) if (to_numpy(weight) == old).all()]
    assert not [path for path in still if "segment" not in path]  # All tokens are in one segment.
    assert any("mask_embedding" in weight.path for weight in model.trainable_weights)


# === Filling masks ===


def test_a_masked_token_is_predicted_from_all_others_and_none_that_is_masked():
    model = permutation_lm()
    inputs = {name: np.asarray(value) for name, value in model.reader.inputs(["a [MASK] c [MASK] d", "[MASK]"]).items()}
    assert inputs["factorization_order"].tolist() == [[0, 0, 1, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0, 0]]
    others = inputs["token_ids"].copy()
    others[0, [2, 4]], others[1, 1] = 7, 9
    shown, hidden = (outputs_of(model, {**inputs, "token_ids": ids}) for ids in (inputs["token_ids"], others))
    used = inputs["mask_positions"] >= 0
    np.testing.assert_array_equal(shown[used], hidden[used])
    others[0, 1] = 8
    assert (outputs_of(model, {**inputs, "token_ids": others})[0] != shown[0]).any(axis=-1).all()


# === Mistakes ===


def fit(x, y=None):
    model = permutation_lm()
    model.compile("adam", run_eagerly=True)
    model.fit(x, y, verbose=0)


test_a_mistake_is_one_clear_error = check_errors(
    (lambda: PermutationLM(XLNetEncoder(17, **SIZES)), "two_streams=True)`. ... Received: XLNetEncoder"),
    (lambda: PermutationLM(encoder(BertEncoder)), "Use a `MaskedLM` for encoders ... Received: BertEncoder"),
    (
        lambda: PermutationLM.from_pretrained(FIXTURES / "bert", preprocessor=None),
        CheckpointError,
        "is a checkpoint of BertEncoder",
    ),
    (lambda: PermutationLM.from_pretrained(FOLDER, preprocessor=None, encoder={"two_streams": False}), "query stream"),
    (
        lambda: permutation_lm().predict(TEXTS),
        "requires prepared inputs. Use `fill_mask(texts)`",
    ),
    (
        lambda: fit({**rows(), "mask_positions": np.ones((4, 1), int)}),
        "Pass all of them, or none. ... `mask_positions`",
    ),
)
