"""Self-supervised tasks on texts that are read in order: streams of `tf.data` and loaders."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import TransformerEncoder
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import CausalLM, MaskedLM
from tests.tasks.tiny import encoder, preprocessor

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

TEXTS = ["a b c", "d e", "f g h i j a b c d", "a b c d e f g h i j"]


class Loader:
    """What torch's and Grain's loaders are: an iterable of batches, perhaps with a length."""

    def __iter__(self):
        return iter([TEXTS[:2], np.array(TEXTS[2:])])

    def __len__(self):
        return 2


def masked(seed=0):
    return MaskedLM(encoder(), preprocessor(), objective=TokenMasking(seed=seed))


def read(stream):
    """Returns the items of a stream, each as a list of arrays."""
    return [keras.tree.flatten(item) for item in stream.as_numpy_iterator()]


def same(first, second):
    return all(np.array_equal(one, other) for one, other in zip(keras.tree.flatten(first), keras.tree.flatten(second)))


@pytest.mark.parametrize(
    "source",
    [
        Loader(),
        tf.data.Dataset.from_tensor_slices(TEXTS).batch(2),
        tf.data.Dataset.from_tensor_slices((TEXTS,)).batch(2),
    ],
    ids=["loader", "stream", "stream of tuples"],
)
def test_the_epoch_and_the_batch_determine_the_targets_of_a_stream(source):
    streams = [masked().dataset(source) for _ in range(2)]
    assert len(streams[0]) == 2
    epochs = [[read(stream) for _ in range(2)] for stream in streams]
    assert same(epochs[0], epochs[1]) and not same(epochs[0][0], epochs[0][1])
    plain = preprocessor()(TEXTS)
    for inputs, targets in streams[0]:
        places = inputs["mask_positions"].numpy()
        assert (targets.numpy()[places >= 0] >= 5).all() and (places >= 0).any(axis=1).all()
        assert inputs["token_ids"].shape[1] <= plain["token_ids"].shape[1]


def test_a_validation_stream_has_the_same_targets_each_time(eagerly):
    model = masked()
    model.compile("sgd", run_eagerly=True)
    first, again = (
        model.fit(TEXTS, validation_data=stream, epochs=2, verbose=0, batch_size=4).history["val_loss"]
        for stream in (Loader(), tf.data.Dataset.from_tensor_slices(TEXTS).batch(2))
    )
    model.optimizer.learning_rate = 0.0
    losses = model.fit(TEXTS, validation_data=Loader(), epochs=2, verbose=0, batch_size=4).history["val_loss"]
    assert losses[0] == losses[1]
    assert len(first) == len(again) == 2


def test_a_causal_model_predicts_the_next_tokens_of_a_stream(eagerly):
    model = CausalLM(encoder(TransformerEncoder, causal=True), preprocessor())
    (inputs, targets, weights), *_ = model.dataset(Loader())
    np.testing.assert_array_equal(targets[:, :-1], inputs["token_ids"][:, 1:])
    assert weights.shape == targets.shape
    model.compile("adam", run_eagerly=True)
    assert len(model.fit(Loader(), epochs=2, verbose=0).history["perplexity"]) == 2


def test_packed_rows_need_no_masks_but_prediction_does():
    model, rows = masked(), {name: np.asarray(value) for name, value in preprocessor()(TEXTS).items()}
    inputs, targets = model.dataset(rows, batch_size=4)[0]
    assert set(inputs) == {*rows, "mask_positions"} and targets.shape == inputs["mask_positions"].shape
    model.compile("adam", run_eagerly=True)
    assert np.isfinite(model.evaluate(rows, verbose=0)[0])
    with pytest.raises(ValueError, match="A dict must have the encoder's inputs .*mask_positions"):
        model.predict(rows)


def test_a_mistake_is_one_clear_error():
    model = masked()
    model.compile("adam", run_eagerly=True)
    with pytest.raises(ValueError, match="must be batched: `dataset.batch"):
        model.fit(tf.data.Dataset.from_tensor_slices(TEXTS))
    with pytest.raises(ValueError, match="must have at least one batch. Received: a `tf.data.Dataset` without any"):
        model.fit(tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).take(0))
