"""Encoder-decoders with an objective read the sources of all self-supervised tasks."""

import keras
import numpy as np
import pytest

from keras_transfer.encoders import Bart
from keras_transfer.objectives import Denoising, SpanCorruption
from keras_transfer.text import Corpus
from tests.errors import check_errors
from tests.tasks.loaders import Loader
from tests.tasks.sequence_to_sequence.test_objectives import model, texts

TEXTS = texts(8)


def spans():
    return model(SpanCorruption(0.3, mean_span_length=2.0, seed=1))


def rows():
    return {name: np.asarray(values) for name, values in spans().preprocessor(TEXTS).items()}


def sources(kind):
    """Returns a source of the same texts in two batches of four."""
    import tensorflow as tf

    found = {
        "stream of tuples": lambda: tf.data.Dataset.from_tensor_slices((TEXTS,)).batch(4),
        "loader of prepared rows": lambda: Loader([{n: v[i : i + 4] for n, v in rows().items()} for i in (0, 4)]),
    }
    return found[kind]()


def written(item):
    """Returns the texts of a batch of `SpanCorruption`, as sets of the ids in sources and targets."""
    inputs, targets, weights = keras.tree.map_structure(np.asarray, item)
    return [
        {*inputs["token_ids"][i][inputs["padding_mask"][i] == 1], *targets[i][weights[i] == 1]}
        for i in range(len(targets))
    ]


def test_packed_rows_become_sources_and_targets():
    found, packed = spans(), rows()
    [item] = found.dataset(packed, batch_size=8)
    sentinels = set(found.preprocessor.tokenizer.sentinel_ids)
    plain = [set(row[mask == 1]) for row, mask in zip(packed["token_ids"], packed["padding_mask"])]
    assert [row - sentinels for row in written(item)] == plain
    inputs, targets, _ = item
    assert set(inputs) == {"token_ids", "padding_mask", "decoder_token_ids", "decoder_padding_mask"}
    np.testing.assert_array_equal(inputs["decoder_token_ids"][:, 1:], targets[:, :-1])
    found.compile("sgd", run_eagerly=True)
    assert np.isfinite(found.fit(packed, batch_size=4, verbose=0).history["loss"]).all()


@pytest.mark.parametrize("kind", ["stream of tuples", "loader of prepared rows"])
def test_the_epoch_and_the_batch_determine_the_noise_of_a_stream(kind):
    pytest.importorskip("tensorflow")
    tasks = [spans() for _ in range(2)]
    streams = [task.dataset(sources(kind)) for task in tasks]
    first, again = ([list(stream.as_numpy_iterator()) for _ in range(2)] for stream in streams)
    same = [np.array_equal(one, other) for one, other in zip(*map(keras.tree.flatten, (first, again)))]
    assert all(same) and len(first[0]) == 2
    sentinels = set(tasks[0].preprocessor.tokenizer.sentinel_ids)
    plain = [set(row[mask == 1]) for row, mask in zip(rows()["token_ids"], rows()["padding_mask"])]
    noise = [[row for item in epoch for row in written(item)] for epoch in first]
    assert [row - sentinels for row in noise[0]] == [row - sentinels for row in noise[1]] == plain
    assert any(not np.array_equal(one[1], other[1]) for one, other in zip(*first))


def test_blocks_of_a_corpus_may_be_longer_than_single_texts(eagerly, tmp_path):
    keras.utils.set_random_seed(0)
    found = model(Denoising(0.0, permutation_rate=0.0, seed=0), Bart)
    found.preprocessor.sequence_length = 8
    corpus = Corpus.build(TEXTS, found.preprocessor, tmp_path / "corpus")
    blocks = corpus.blocks(20, batch_size=4, seed=0)
    inputs, _, weights = found.dataset(blocks)[0]
    assert weights.sum(axis=1).max() > 8
    np.testing.assert_array_equal(inputs["padding_mask"].sum(axis=1), weights.sum(axis=1))
    found.compile("sgd")
    assert np.isfinite(found.fit(blocks, verbose=0).history["loss"]).all()


def fit(data, y=None, **options):
    found = model(SpanCorruption(0.3, mean_span_length=2.0), **options)
    found.compile("sgd", run_eagerly=True)
    found.fit(data() if callable(data) else data, y, verbose=0)


def stream(*parts):
    import tensorflow as tf

    return lambda: tf.data.Dataset.from_tensor_slices(parts if len(parts) > 1 else parts[0]).batch(4)


test_a_mistake_is_one_clear_error = check_errors(
    (stream(TEXTS, [0] * 8), "Targets must be texts, one for each source ... Received: int32 of shape (4,)"),
    (Loader([(TEXTS, TEXTS)]), "The texts and the labels must be different columns"),
    (((TEXTS, TEXTS),), "or made by an objective. Received: a tuple of two as the first argument"),
    (stream(["a b"] * 4 + [""] * 4), "Received: only special tokens at position 0"),
    (
        lambda: {**rows(), "decoder_token_ids": rows()["token_ids"]},
        "Pass all of them, or none. Received: only `decoder_",
    ),
    call=lambda data: fit(data),
)


def test_the_parts_of_prepared_data_that_an_objective_makes_are_given_together():
    with pytest.raises(ValueError, match="Pass all of them, or none. Received: only targets"):
        fit(rows(), rows()["token_ids"])
    with pytest.raises(ValueError, match="requires a `text.TokenPreprocessor`. Received: preprocessor=None"):
        fit(rows(), preprocessor=None)
    with pytest.raises(ValueError, match="`predict` requires prepared inputs. Use `generate"):
        spans().predict(Loader([TEXTS]))
    found = model(None)
    found.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match="A dict must have the encoder's inputs .*decoder_token_ids"):
        found.fit(rows(), verbose=0)
