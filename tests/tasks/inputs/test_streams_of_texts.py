"""Self-supervised tasks on texts that are read in order: streams of `tf.data` and loaders."""

import keras
import numpy as np
import pytest

from keras_transfer.data.batching import Batches
from keras_transfer.encoders import TransformerEncoder
from keras_transfer.objectives import TokenMasking
from keras_transfer.tasks import CausalLM, MaskedLM, TextClassifier
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.errors import check_errors
from tests.tasks.loaders import TEXTS, Loader
from tests.tasks.tiny import difference, encoder, examples, of_vectors, preprocessor

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")


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
        tf.data.Dataset.from_tensor_slices((TEXTS,)).batch(2),
    ],
    ids=["loader", "stream of tuples"],
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


@pytest.mark.parametrize("positions, expected", [(64, {16, 32}), (20, {16, 20})])
def test_where_each_length_is_compiled_batches_have_few_lengths_that_the_encoder_has_positions_for(
    positions, expected, monkeypatch
):
    monkeypatch.setattr("keras_transfer.tasks.source.compiles_each_length", lambda: True)
    model = TextClassifier(encoder(max_sequence_length=positions), preprocessor(sequence_length=20), num_classes=2)
    batches = [([" ".join(["great"] * count)], [0]) for count in (1, 5, 15, 18)]
    lengths = [inputs["token_ids"].shape[1] for inputs, _ in model.dataset(Loader(batches)).as_numpy_iterator()]
    assert lengths == sorted(lengths) and {*lengths} == expected


@pytest.mark.parametrize("make", [of_vectors, masked], ids=["labels", "drawn targets"])
def test_a_stream_trains_to_the_same_bits_as_its_rows_in_memory(make):
    texts, labels = examples(12)
    columns = (texts, labels) if make is of_vectors else (texts,)
    names = (texts, np.array(["0", "1"])[labels]) if make is of_vectors else (texts,)
    weights = []
    # To an objective, a generator that does not end is one epoch.
    for form in ("memory", "stream", "loader", *(["generator"] if make is of_vectors else [])):
        keras.utils.set_random_seed(0)
        model, data = make(), columns
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        if form == "stream":  # Labels may be names.
            data = (tf.data.Dataset.from_tensor_slices(names).batch(4),)
        elif form != "memory":
            rows = [tuple(column[i : i + 4] for column in columns) for i in (0, 4, 8)]
            batches = [row if len(row) > 1 else row[0] for row in rows]
            data = (Loader(batches) if form == "loader" else (batch for batch in batches * 2),)
        options = {"batch_size": 4, "shuffle": False} if form == "memory" else {}
        model.fit(*data, epochs=2, verbose=0, **options, **({"steps_per_epoch": 3} if form == "generator" else {}))
        weights.append(model.get_weights())
    for other in weights[1:]:
        assert difference(other, weights[0]) == 0.0


class StopAfterOne(keras.callbacks.Callback):
    """Ends a run after its first epoch."""

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = True


def test_a_run_that_resumes_in_a_later_epoch_draws_what_belongs_to_it(eagerly, tmp_path):
    def train(*callbacks):
        keras.utils.set_random_seed(0)
        model = masked()
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        return model.fit(Loader(), epochs=3, verbose=0, callbacks=list(callbacks)).history["loss"]

    whole = train()
    train(TrainingCheckpoint(tmp_path / "run"), StopAfterOne())
    np.testing.assert_allclose(train(TrainingCheckpoint(tmp_path / "run")), whole[1:], rtol=1e-6)


def test_a_second_fit_of_a_stream_draws_other_targets():
    stream, model = masked().dataset(Loader()), masked()
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    losses = [model.fit(stream, epochs=2, verbose=0).history["loss"] for _ in range(2)]
    assert len({*losses[0], *losses[1]}) == 4


def test_a_validation_stream_has_the_same_targets_each_time(eagerly):
    source, model = Loader(), masked()
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    losses = model.fit(TEXTS, validation_data=source, epochs=2, verbose=0, batch_size=4).history["val_loss"]
    stream = masked().dataset(source)
    first, second = (model.evaluate((item for item in stream), verbose=0)[0] for _ in range(2))
    assert losses == pytest.approx([first] * 2, abs=1e-6) and abs(first - second) > 1e-4


PAIRS = [(TEXTS[:2], TEXTS[2:])]
ROWS = {name: np.asarray(values) for name, values in preprocessor()(TEXTS[:2]).items()}


@pytest.mark.parametrize(
    ("batches", "inputs"),
    [([list(PAIRS[0])], tuple(PAIRS[0])), ([ROWS, ROWS], TEXTS[:2])],
    ids=["lists of columns", "prepared rows"],
)
def test_a_loader_may_give_pairs_and_prepared_rows(batches, inputs):
    data = list(masked().dataset(Loader(batches)))
    assert len(data) == len(batches)
    plain = preprocessor()(inputs)["token_ids"].numpy()
    for found, targets in data:
        rows, places = np.nonzero(targets.numpy() >= 0)
        ids, positions = found["token_ids"].numpy(), found["mask_positions"].numpy()[rows, places]
        ids[rows, positions] = targets.numpy()[rows, places]
        np.testing.assert_array_equal(ids, plain[:, : ids.shape[1]])


def test_a_loader_may_not_know_how_many_batches_it_has(eagerly):
    data = pytest.importorskip("torch.utils.data")

    class Lines(data.IterableDataset):
        def __iter__(self):
            return iter(TEXTS)

    model = masked()
    model.compile("sgd", run_eagerly=True)
    losses = model.fit(data.DataLoader(Lines(), batch_size=2), epochs=2, verbose=0).history["loss"]
    assert len(losses) == 2 and np.isfinite(losses).all()


def test_a_causal_model_predicts_the_next_tokens_of_a_stream(eagerly):
    model = CausalLM(encoder(TransformerEncoder, causal=True), preprocessor())
    (inputs, targets, weights), *_ = model.dataset(Loader())
    np.testing.assert_array_equal(targets[:, :-1], inputs["token_ids"][:, 1:])
    assert weights.shape == targets.shape
    model.compile("sgd", run_eagerly=True)
    assert len(model.fit(Loader(), epochs=2, verbose=0).history["perplexity"]) == 2


def test_packed_rows_need_no_masks_but_prediction_does():
    model, rows = masked(), {name: np.asarray(value) for name, value in preprocessor()(TEXTS).items()}
    inputs, targets = model.dataset(rows, batch_size=4)[0]
    assert len(model.dataset(tf.data.Dataset.from_tensors((rows,)))) == 1
    assert set(inputs) == {*rows, "mask_positions"} and targets.shape == inputs["mask_positions"].shape
    model.compile("sgd", run_eagerly=True)
    assert np.isfinite(model.evaluate(rows, verbose=0)[0])
    with pytest.raises(ValueError, match="A dict must have the encoder's inputs .*mask_positions"):
        model.predict(rows)


def fit(data):
    model = masked()
    model.compile("sgd", run_eagerly=True)
    model.fit(data, verbose=0)


HIDDEN = {**ROWS, "mask_positions": np.array([[1], [1]])}

test_rows_with_made_targets_have_no_weights = check_errors(
    (
        lambda: Batches(ROWS, sample_weight=np.ones(2)).with_targets(None),
        "no weights ... Leave `sample_weight` out. Received: sample_weight=array",
    ),
)
test_a_mistake_is_one_clear_error = check_errors(
    (tf.data.Dataset.from_tensor_slices(TEXTS), "must be batched: `dataset.batch"),
    (
        tf.data.Dataset.from_tensor_slices(TEXTS).batch(2).take(0),
        "must have at least one batch. Received: a `tf.data.Dataset` without any",
    ),
    (tf.data.Dataset.from_tensor_slices((TEXTS, [0, 1, 0, 1])).batch(2), "Raw text has no labels ... of shape (2,)"),
    (HIDDEN, "Pass all of them, or none. Received: only `mask_positions`"),
    (Loader(TEXTS), "A loader must yield batches of what `fit` accepts in memory ... Received: 'a b c'"),
    (Loader([ROWS, {**ROWS, "padding_mask": ROWS["padding_mask"][:1]}]), "'padding_mask': 1, 'segment_ids': 2"),
    (tf.data.Dataset.from_tensors((HIDDEN, [[3]])), "'token_ids': 2, 'y': 1}"),
    (tf.data.Dataset.from_tensors(((TEXTS, TEXTS[:3]),)), "Received: 4 and 3 texts"),
    (Loader(length=1), "A loader must have as many batches as its `len()` returns, 1. Received: batches='more'"),
    (
        Loader([TEXTS[:2]] * 3, length=2),
        "as many batches as its `len()` returns, 2. Received: batches='more'",
    ),
    (Loader(length=3), "A loader must have as many batches as its `len()` returns, 3. Received: batches=2"),
    call=fit,
)
