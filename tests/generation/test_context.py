"""The loop with an encoder-decoder: the context is encoded once, and the sequences of a source share it."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transfer import generation
from keras_transfer.generation.constraints import Constraints
from keras_transfer.generation.continuations import Continuations, TokenStream
from keras_transfer.generation.generator import Generator

VOCABULARY, DIM, END, START, ROOM = 12, 8, 1, 0, 6
SOURCES = [[3, 4, 5], [6], [7, 8, 2, 9, 10], [4, 4]]


class SumOfAll(keras.layers.Layer):
    """A decoder whose vectors are random functions of the source and of all tokens so far."""

    def __init__(self):
        super().__init__()
        self.table = keras.layers.Embedding(VOCABULARY, DIM, keras.initializers.RandomNormal(stddev=1.0, seed=1))
        self.mixed = np.random.default_rng(2).normal(size=(DIM, DIM)).astype("float32")
        self.encoded = 0

    def encode_context(self, inputs):
        self.encoded += 1
        mask = ops.cast(inputs["padding_mask"], "float32")[..., None]
        return {"sum": ops.sum(self.table(inputs["token_ids"]) * mask, axis=1)}

    def empty_cache(self, batch_size, length):
        return [{"attention": (ops.zeros((batch_size, length, DIM)),)}]

    def step(self, token_ids, cache, start, first=None, context=None):
        [values] = cache[0]["attention"]
        values = ops.slice_update(values, (0, start, 0), self.table(token_ids))
        place = ops.arange(ops.shape(values)[1])[None]
        real = ops.cast(ops.logical_and(place >= first[:, None], place < start + 1), "float32")
        total = ops.sum(values * real[..., None], axis=1)
        rows = ops.shape(context["sum"])[0]  # All sequences of a source are queries of its one row.
        total = ops.reshape(total, (rows, -1, DIM)) + context["sum"][:, None]
        vectors = ops.sin(ops.matmul(ops.reshape(total, (-1, 1, DIM)), self.mixed))
        return vectors, [{"attention": (values,)}]

    def scores(self, source, ids):
        """Returns the log-probabilities of the next token, in NumPy."""
        table = ops.convert_to_numpy(self.table.embeddings)
        vector = np.sin((table[source].sum(axis=0) + table[ids].sum(axis=0)) @ self.mixed)
        logits = vector @ table.T
        return logits - np.log(np.exp(logits).sum())


@pytest.fixture
def decoder():
    layer = SumOfAll()
    layer.table.build()
    return layer


def run(decoder, sampler, num_sequences=1, stream=None, batch_size=3, seed=None):
    """Returns the sequences of `SOURCES`, which are in two batches."""
    kept = {}

    def generator(*settings, returns_state=False):
        sampler, steps, num_sequences, end_ids, constraints, shapes = settings
        key = (steps, shapes, returns_state)
        if key not in kept:
            table = decoder.table
            model = Generator(
                *(decoder, lambda x: ops.matmul(x, ops.transpose(table.embeddings)), sampler),
                steps=steps,
                num_sequences=num_sequences,
                end_ids=end_ids,
                constraints=constraints,
                returns_state=returns_state,
            )
            model.compile(run_eagerly=keras.backend.backend() != "jax")
            kept[key] = model
        return kept[key]

    continuations = Continuations(
        generator,
        sampler,
        num_sequences=num_sequences,
        end_ids=(END,),
        constraints=Constraints(),
        lengths=[ROOM] * len(SOURCES),
        seed=seed,
        batch_size=batch_size,
        context_rows=SOURCES,
    )
    return continuations([[START]] * len(SOURCES), stream)


def greedy(decoder, source):
    ids = [START]
    while len(ids) < ROOM and ids[-1] != END:
        ids.append(int(decoder.scores(source, ids).argmax()))
    return ids[1:]


@pytest.mark.core
def test_a_source_continues_from_one_start_token_and_is_encoded_once(decoder):
    found = run(decoder, generation.Greedy())
    assert found == [greedy(decoder, source) for source in SOURCES]
    assert len({tuple(ids) for ids in found}) == len(SOURCES)
    assert keras.backend.backend() == "jax" or decoder.encoded == 2  # once for each batch


def test_the_beams_of_a_source_share_its_context(decoder):
    found = run(decoder, generation.BeamSearch(3, length_penalty=0.0), num_sequences=2)

    def likelihood(source, ids):
        ids = [START, *ids]
        return sum(decoder.scores(source, ids[:end])[ids[end]] for end in range(1, len(ids)))

    for source, first, second in zip(SOURCES, found[::2], found[1::2], strict=True):
        assert likelihood(source, greedy(decoder, source)) <= likelihood(source, first) + 1e-5
        assert likelihood(source, second) <= likelihood(source, first) + 1e-5
    # With as many beams as there are sequences of two tokens, the search is exhaustive.
    [best] = run_one(decoder, SOURCES[0])
    every = [[a, b] for a, b in itertools.product(range(VOCABULARY), repeat=2) if a != END] + [[END]]
    assert best == max(every, key=lambda ids: likelihood(SOURCES[0], ids))


def run_one(decoder, source):
    inputs = {
        "token_ids": np.array([[START]], "int32"),
        "first": np.array([0], "int32"),
        "limit": np.array([3], "int32"),
        "until": np.int32(3),
        "context": {"token_ids": np.array([source], "int32"), "padding_mask": np.ones((1, len(source)), "int32")},
    }
    sampler = generation.BeamSearch(VOCABULARY, length_penalty=0.0, early_stopping=False)
    table = decoder.table.embeddings
    settings = {"steps": 2, "num_sequences": 1, "end_ids": (END,), "constraints": Constraints()}
    model = Generator(decoder, lambda x: ops.matmul(x, ops.transpose(table)), sampler, **settings)
    outputs = model.predict_on_batch(inputs)
    with pytest.raises(TypeError, match="positional argument"):
        Generator(decoder, None, sampler, 2)
    return [row[1:end].tolist() for row, end in zip(outputs["tokens"], outputs["end"])]


def test_random_sequences_of_a_source_do_not_depend_on_the_batch(decoder):
    found = run(decoder, generation.Random(2.0), num_sequences=3, seed=1)
    assert len(found) == 3 * len(SOURCES) and len({tuple(ids) for ids in found}) > len(SOURCES)
    assert run(decoder, generation.Random(2.0), num_sequences=3, seed=1, batch_size=1) == found


def test_a_contrastive_search_reads_the_context(decoder):
    assert run(decoder, generation.ContrastiveSearch(3, alpha=0)) == [greedy(decoder, source) for source in SOURCES]


def test_a_stream_encodes_the_source_once(decoder):
    seen = [[] for _ in SOURCES]
    streams = [TokenStream(lambda i, token: seen[i].append(token), i, None, ()) for i in range(len(SOURCES))]
    assert run(decoder, generation.Greedy(), stream=streams) == seen == [greedy(decoder, s) for s in SOURCES]
    assert keras.backend.backend() == "jax" or decoder.encoded == 2
