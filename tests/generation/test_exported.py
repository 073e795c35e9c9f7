"""The loop of an exported model pads requests to few shapes when XLA compiles it, and answers without the padding."""

import numpy as np
import pytest

from keras_transfer.generation.exported import ExportedLoop

tf = pytest.importorskip("tensorflow")


class Shapes:
    """Stands in for a generator: new tokens that are the number of prompts, their length and that of the sources."""

    def call(self, inputs):
        ids = inputs["token_ids"]
        sizes = tf.concat([tf.shape(ids), tf.shape(inputs.get("context", {"token_ids": ids})["token_ids"])[1:]], axis=0)
        new = tf.tile(sizes[None], [tf.shape(ids)[0], 1])
        place = tf.range(tf.shape(ids)[1])[None]
        ids = tf.where(place >= inputs["first"][:, None], ids, -1)
        return {"tokens": tf.concat([ids, new], axis=1), "end": tf.minimum(inputs["limit"], inputs["until"])}


def answer(rows, length, sources=None, **options):
    """What the loop returns for prompts 1, 2, 3, ... of which the first begins at place 1 and may use 2 more places."""
    ids = tf.range(1, 1 + rows * length)
    first = tf.one_hot(0, rows, dtype="int32")
    inputs = {"token_ids": tf.reshape(ids, (rows, length)), "first": first, "limit": first + length + 1}
    if sources is not None:
        inputs["context"] = {name: tf.ones((rows, sources), "int32") for name in ("token_ids", "padding_mask")}
    run = tf.function(ExportedLoop(Shapes(), True, **options), autograph=False)
    found = run({**inputs, "until": tf.constant(length + 8)})
    np.testing.assert_array_equal(found["end"], inputs["limit"])
    tokens = found["tokens"].numpy()
    expected = np.where(np.arange(length) < first.numpy()[:, None], -1, inputs["token_ids"])
    np.testing.assert_array_equal(tokens[:, :length], expected)
    assert (tokens[:, length:] == tokens[0, length:]).all()
    return tokens[0, length:].tolist()


def test_the_number_of_prompts_becomes_a_power_of_two_and_their_length_a_multiple_of_16():
    assert answer(rows=3, length=5) == [4, 16, 16]
    assert answer(rows=8, length=17) == [8, 32, 32]


def test_sources_become_as_long_as_a_multiple_of_16_or_as_the_positions_of_the_encoder():
    assert answer(rows=5, length=1, sources=16) == [8, 1, 16]
    assert answer(rows=1, length=1, sources=18) == [1, 1, 32]
    assert answer(rows=1, length=1, sources=18, context_length=20) == [1, 1, 20]
