"""`word_streams`, and the states of both directions that `BidirectionalLM` carries from window to window."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_transfer.encoders import ElmoEncoder
from keras_transfer.tasks import BidirectionalLM
from keras_transfer.text import ElmoPreprocessor, word_streams, word_vocabulary
from keras_transfer.training.training_checkpoint import TrainingCheckpoint
from tests.errors import check_errors
from tests.helpers import EAGER
from tests.tasks.language.test_streams import StopAfter

SIZES = {"embedding_dim": 3, "filters": [(1, 4), (2, 6)], "projection_dim": 4, "units": 6, "max_characters": 8}
TEXTS = [" ".join("abcdefgh"[k % 5 : k % 5 + 1 + k % 4]) for k in range(20)]
WORDS = word_vocabulary(TEXTS)
PREPROCESSOR = ElmoPreprocessor(16, max_characters=8, vocabulary=WORDS)


def streams(size=2, window=4, **options):
    return word_streams(TEXTS, PREPROCESSOR, size, **{"window": window, "seed": 1, "shuffle": False, **options})


def make(dropout=0.0, size=2, num_layers=1):
    keras.utils.set_random_seed(0)
    encoder = ElmoEncoder(**SIZES, num_layers=num_layers, dropout=dropout)
    model = BidirectionalLM(encoder, PREPROCESSOR, num_sampled=6, streams=size)
    model.compile(keras.optimizers.SGD(0.5), run_eagerly=EAGER)
    return model


def states(model, kind=0):
    return [to_numpy(values) for values in model.carried_state.states[kind]]


def rows_of(texts):
    """The ids of the words of all sentences without `</S>`, and without `<S>`."""
    sentences = [[0, *(WORDS.index(word) for word in text.split()), 1] for text in texts]
    return [word for row in sentences for word in row[:-1]], [word for row in sentences for word in row[1:]]


def word_ids(characters):
    """The words of characters `[..., characters]`, and -1 for padding."""
    rows = PREPROCESSOR(WORDS, sequence_length=1)["character_ids"].numpy()[:, 0]
    table = {tuple(row): k for k, row in enumerate(rows.tolist())}
    flat = characters.reshape(-1, characters.shape[-1])
    return np.array([table.get(tuple(row), -1) for row in flat.tolist()]).reshape(characters.shape[:-1])


@pytest.mark.parametrize(("size", "window"), [(2, 4), (3, 20), (1, 7), (4, 1)])
def test_both_directions_read_all_words_and_predict_the_next_in_their_order(size, window):
    data, (begins, ends) = streams(size, window), rows_of(TEXTS)
    width, read = len(begins) // size, [[[], []] for _ in range(size)]
    for number in range(len(data)):
        inputs, targets = data[number]
        assert inputs["begins"].tolist() == [[int(number == 0)]] * size
        np.testing.assert_array_equal(inputs["targets"], targets)
        forward, backward = word_ids(inputs["character_ids"]), word_ids(inputs["backward_ids"])
        for row in range(size):
            pairs = [list(zip(words[row], targets[row, :, k])) for k, words in enumerate((forward, backward))]
            read[row][0] += [pair for pair in pairs[0] if pair[0] >= 0]
            read[row][1] += [pair for pair in pairs[1][::-1] if pair[0] >= 0]
        assert ((targets[..., 0] < 0) == (forward < 0)).all() and ((targets[..., 1] < 0) == (backward < 0)).all()
    for row, (forward, backward) in enumerate(read):
        part = slice(row * width, (row + 1) * width)
        assert forward == list(zip(begins[part], ends[part]))
        assert backward == list(zip(ends[part], begins[part]))[::-1]


def test_sentences_are_in_another_order_in_each_epoch_and_whole():
    data, again = (streams(1, 500, shuffle=True) for _ in range(2))
    first, other = data[0][1], again[0][1]
    np.testing.assert_array_equal(first, other)
    data.on_epoch_end()
    second = data[0][1]
    assert (first != second).any()
    for targets in (first, second):
        text = targets[0, targets[0, :, 0] >= 0, 0].tolist()
        ends = np.flatnonzero(np.array(text) == 1) + 1
        found = [tuple(WORDS[k] for k in part[:-1]) for part in np.split(text, ends)[:-1]]
        assert sorted(found) == sorted(tuple(text.split()) for text in TEXTS)


def test_four_windows_lead_to_the_states_and_losses_of_one_long_window():
    model = make(num_layers=2)
    short, long = streams(window=2), streams(window=8)
    parts = [to_numpy(model(short[number][0], training=False)) for number in range(4)]
    found = states(model, 1)
    whole = to_numpy(model(long[0][0], training=False))
    for ours, theirs in zip(found, states(model, 1), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
        assert ours.any()
    np.testing.assert_allclose(np.concatenate([part[..., 0] for part in parts], 1), whole[..., 0], atol=1e-5)
    np.testing.assert_allclose(np.concatenate([part[..., 1] for part in parts[::-1]], 1), whole[..., 1], atol=1e-5)
    assert not any(values.any() for values in states(model))


def test_it_trains_on_streams_and_validation_has_a_state_of_its_own():
    model = make()
    data = streams(window=2).take(2)
    history = model.fit(data, validation_data=data, epochs=3, verbose=0).history
    assert history["val_loss"][-1] < history["val_loss"][0]
    training = states(model)
    model.evaluate(streams(window=2).take(1), verbose=0)
    model.score(TEXTS[:2])
    assert all(values.any() for values in training)
    for ours, theirs in zip(states(model), training, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert all((ours != theirs).any() for ours, theirs in zip(states(model, 1), training, strict=True))


def test_a_run_resumes_within_an_epoch_with_its_states(tmp_path, eagerly):
    data = lambda: streams(window=2, shuffle=True).take(2)  # noqa: E731
    options = {"epochs": 2, "verbose": 0}
    whole = make(0.3)
    whole.fit(data(), **options)
    make(0.3).fit(data(), callbacks=[TrainingCheckpoint(tmp_path / "run"), StopAfter(1)], **options)
    resumed = make(0.3)
    resumed.fit(data(), callbacks=[TrainingCheckpoint(tmp_path / "run")], **options)
    for ours, theirs in zip(resumed.variables, whole.variables, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs), ours.path)


OTHER = ElmoPreprocessor(16, max_characters=8, vocabulary=[*WORDS, "other"])
test_mistakes_are_clear_errors = check_errors(
    (lambda: make(size=3).fit(streams(2)), "streams_of_data=2, streams=3"),
    (lambda: make(size=None).evaluate(streams(2)), "BidirectionalLM(encoder, streams=2)"),
    (lambda: make().fit(word_streams(TEXTS, OTHER, 2)), "must have the vocabulary and the `max_characters`"),
    (lambda: word_streams(TEXTS, ElmoPreprocessor(), 2), "with a vocabulary ... preprocessor=<ElmoPreprocessor"),
    (lambda: streams(1000), "at least one word for each of 1000 texts ... Received: words=70"),
    (lambda: streams().shard(0, 2), "processes cannot share them. Received: index=0, count=2"),
)
