"""Streams of a corpus in windows, and the state that `CausalLM` carries from one to the next."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.adaptation import layer_groups
from keras_transfer.encoders import AWDLSTMEncoder, TransformerEncoder
from keras_transfer.tasks import CausalLM, MaskedLM
from keras_transfer.tasks.causal_lm import CarriedState
from keras_transfer.training.schedules import WindowRate
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.data.test_corpus import build, documents, flat
from tests.errors import check_errors
from tests.helpers import EAGER, save_and_load
from tests.tasks import tiny

RATES = ("embedding_dropout", "input_dropout", "hidden_dropout", "output_dropout", "weight_dropout")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return build(tmp_path_factory.mktemp("streams") / "corpus", documents(12))


def all_ids(corpus):
    return flat(shard.ids.tolist() for shard in corpus._shards)


def make(rate=0.0, streams=3, **compiled):
    keras.utils.set_random_seed(0)
    encoder = AWDLSTMEncoder(15, embedding_dim=4, units=5, num_layers=2, **dict.fromkeys(RATES, rate))
    model = CausalLM(encoder, streams=streams)
    model.compile(keras.optimizers.SGD(0.5), run_eagerly=EAGER, **compiled)
    return model


def masked():
    model = MaskedLM(tiny.encoder(), tiny.preprocessor())
    model.compile("sgd", run_eagerly=True)
    return model


def states(model, kind=0):
    return [to_numpy(values) for values in model.carried_state.states[kind]]


def test_streams_contain_all_ids_and_their_next_ones_in_order(corpus):
    ids = all_ids(corpus)
    for size, options in ((3, {}), (4, {"lengths": (4, 7, 7)}), (1, {}), (len(ids) // 2, {})):
        data = corpus.streams(size, 5, seed=1, **options)
        rows, targets = ([[] for _ in range(size)] for _ in range(2))
        for number in range(len(data)):
            inputs, following, weights = data[number]
            assert inputs["begins"].tolist() == [[int(number == 0)]] * size
            for row in range(size):
                real = inputs["padding_mask"][row] == 1
                rows[row] += inputs["token_ids"][row][real].tolist()
                targets[row] += following[row][weights[row] == 1].tolist()
        assert flat(rows) == ids
        assert flat(targets) == ids[1:]


def test_reversed_streams_contain_the_same_ids_from_the_last_to_the_first(corpus):
    ids, data = all_ids(corpus)[::-1], corpus.streams(2, 5, reverse=True)
    rows = [
        flat(batch[0]["token_ids"][row][batch[0]["padding_mask"][row] == 1].tolist() for batch in data)
        for row in range(2)
    ]
    assert flat(rows) == ids
    inputs, following, _ = data[0]
    np.testing.assert_array_equal(inputs["token_ids"][:, 1:], following[:, :-1])


def test_lengths_are_drawn_for_each_epoch_and_seek_begins_with_a_later_window(corpus):
    data, again = (corpus.streams(2, 5, lengths=(4, 6, 8), seed=3) for _ in range(2))
    lengths = lambda data: [data[i][0]["token_ids"].shape[1] for i in range(len(data))]  # noqa: E731
    first = lengths(data)
    assert set(first) == {4, 6, 8} and lengths(again) == first
    again.seek(3)
    assert lengths(again) == first[3:] and again[0][0]["begins"].tolist() == [[0], [0]]
    data.on_epoch_end()
    assert lengths(data) != first


def test_window_lengths_are_those_of_the_batches_that_follow(corpus):
    data = corpus.streams(2, 5, lengths=(4, 6, 8), seed=3).take(9)
    expected = data.window_lengths(2)
    for rest in (expected, expected[2:]):
        assert data.window_lengths(2) == rest and data.window_lengths(1) == rest[: len(data)]
        assert [data[i][0]["token_ids"].shape[1] for i in range(len(data))] == rest[: len(data)]
        data.seek(2)
    data.on_epoch_end()
    assert data.window_lengths(1) == expected[9:] and data.epoch == 1


def test_a_window_of_half_the_length_has_half_the_rate(corpus, eagerly):
    data = lambda: corpus.streams(3, 8, lengths=(4, 8), seed=2).take(4)  # noqa: E731
    lengths = data().window_lengths(1)
    assert set(lengths) == {4, 8}
    model, expected = make(), make()
    model.compile(keras.optimizers.SGD(WindowRate(0.5, lengths, window=8)))
    model.fit(data(), verbose=0)
    for length, batch in zip(lengths, data(), strict=True):
        expected.optimizer.learning_rate = {4: 0.25, 8: 0.5}[length]
        expected.train_on_batch(*batch)
    for ours, theirs in zip(model.trainable_variables, expected.trainable_variables):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))


@pytest.mark.core
def test_four_windows_lead_to_the_state_and_logits_of_one_long_window(corpus):
    model = make()
    short, long = corpus.streams(3, 4), corpus.streams(3, 16)
    parts = [to_numpy(model(short[number][0], training=True)) for number in range(4)]
    found = states(model)
    whole = to_numpy(model(long[0][0], training=True))
    for ours, theirs in zip(found, states(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-6)
    # The first window of an epoch forgets the state.
    model(long[0][0], training=True)
    for ours, theirs in zip(found, states(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_validation_has_a_state_of_its_own(corpus):
    model = make()
    data = corpus.streams(3, 6).take(2)
    history = model.fit(data, validation_data=corpus.streams(3, 6).take(3), epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] and "val_perplexity" in history
    training, evaluation = states(model), states(model, 1)
    assert all(values.any() for values in [*training, *evaluation])
    model.evaluate(corpus.streams(3, 6).take(1), verbose=0)
    for ours, theirs in zip(states(model), training, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert all((ours != theirs).any() for ours, theirs in zip(states(model, 1), evaluation, strict=True))


class StopAfter(keras.callbacks.Callback):
    """Ends a run after some batches, as a signal does."""

    def __init__(self, batches):
        super().__init__()
        self.left = batches

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        self.model.stop_training = self.left <= 0


@pytest.mark.core
def test_a_run_resumes_within_an_epoch_with_its_state(corpus, tmp_path, eagerly):
    data = lambda: corpus.streams(3, 4, seed=1).take(3)  # noqa: E731
    options = {"epochs": 2, "verbose": 0}
    # On torch, dropout draws other numbers after a checkpoint within an epoch, as `TrainingCheckpoint` says.
    rate = 0.0 if keras.backend.backend() == "torch" else 0.3
    whole = make(rate)
    whole.fit(data(), **options)
    make(rate).fit(data(), callbacks=[TrainingCheckpoint(tmp_path / "run"), StopAfter(2)], **options)
    resumed = make(rate)
    resumed.fit(data(), callbacks=[TrainingCheckpoint(tmp_path / "run")], **options)
    for ours, theirs in zip(resumed.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs), ours.path)


def test_files_and_other_data_have_no_state(corpus, eagerly):
    model = make()
    model(corpus.streams(3, 8)[0][0], training=True)
    before = states(model)
    model.train_on_batch(
        {"token_ids": np.ones((2, 4), "int32"), "padding_mask": np.ones((2, 4), "int32")}, np.ones((2, 4), "int32")
    )
    model.generate([[5, 6]], max_new_tokens=2)
    for ours, theirs in zip(states(model), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again = save_and_load(model)
    assert [group.name for group in layer_groups(again)] == ["embeddings", "block_0", "block_1"]
    assert [weight.path for weight in model.weights if "carried" in weight.path] == []
    assert again.streams == 3 and not any(values.any() for values in states(again))


STACK = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8, "causal": True}
test_mistakes_of_the_model = check_errors(
    (lambda: make(streams=0), "`streams` must be an integer of at least 1. Received: streams=0"),
    (
        lambda: CausalLM(TransformerEncoder(15, **STACK), streams=2),
        "requires a recurrent encoder ... TransformerEncoder",
    ),
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda corpus: make().fit(corpus.streams(4, 8)), r"streams_of_data=4, streams=3"),
        (lambda corpus: make(streams=None).fit(corpus.streams(4, 8)), r"CausalLM\(encoder, streams=4\)"),
        (lambda corpus: corpus.streams(10_000, 8), "must have two ids for each of 10000 texts. Use a smaller batch"),
        (lambda corpus: corpus.streams(3, 8, lengths=[*range(1, 9)]), "one to six different lengths"),
        (lambda corpus: corpus.streams(3, 8).shard(0, 2), "Use `Corpus.blocks`"),
        (
            lambda corpus: CausalLM(TransformerEncoder(15, **STACK)).dataset(corpus.streams(3, 8)),
            r"`CausalLM` with a `TransformerEncoder` expects independent rows .* Pass `corpus.blocks\(...\)`",
        ),
        (
            lambda corpus: masked().fit(corpus.streams(3, 8)),
            r"Only recurrent language models .* Pass `corpus.blocks\(...\)`. Received: windows of 3 streams",
        ),
    ],
)
def test_mistakes_are_clear_errors(corpus, call, message):
    with pytest.raises(ValueError, match=message):
        call(corpus)


class Memory:
    """An encoder whose state has further axes: a memory of 3 places, which counts the windows of a text."""

    def empty_state(self, batch_size):
        return {"memory": keras.ops.zeros((batch_size, 3, 2))}

    def step(self, token_ids, state, padding_mask):
        return state["memory"], {"memory": state["memory"] + 1}


def test_a_state_of_any_rank_begins_anew_with_the_row_of_its_text():
    carried = CarriedState(Memory(), 3)  # As many rows as places.
    window = {name: np.ones((3, 4), "int32") for name in ("token_ids", "padding_mask")}
    for begins in ([1, 1, 1], [0, 1, 0], [0, 0, 1]):
        carried({**window, "begins": np.array(begins)[:, None]}, training=True)
    np.testing.assert_array_equal(to_numpy(carried.states[0][0])[:, :, 0], np.array([[3] * 3, [2] * 3, [1] * 3]))
