"""Encoders with relative positions in a TensorFlow graph in which the batch and the length are unknown."""

import numpy as np
import pytest

from keras_transfer.encoders import DebertaV2Encoder, MPNetEncoder, XLNetEncoder

tf = pytest.importorskip("tensorflow")

SMALL = {"vocabulary_size": 12, "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}


@pytest.mark.parametrize(
    ("cls", "options"),
    [(DebertaV2Encoder, {}), (MPNetEncoder, {}), (XLNetEncoder, {})],
    ids=str,
)
def test_one_graph_serves_texts_of_all_lengths(cls, options):
    encoder = cls(**SMALL, **options, initializer_range=0.3)
    names = list(encoder.input)
    specs = [tf.TensorSpec((None,) * len(encoder.input[name].shape), tf.int32) for name in names]
    function = tf.function(lambda *arrays: encoder(dict(zip(names, arrays))), input_signature=specs)
    for batch, length in ((2, 3), (1, 5)):
        arrays = [np.ones((batch, *[length] * (len(spec.shape) - 1)), "int32") for spec in specs]
        outputs, expected = function(*arrays), encoder(dict(zip(names, arrays)))
        assert set(outputs) == set(expected) and "sequence_output" in outputs
        for name, output in outputs.items():
            assert output.shape == expected[name].shape
            np.testing.assert_allclose(output, expected[name], atol=1e-5)


def test_one_graph_of_a_query_stream_serves_texts_of_all_lengths():
    encoder = XLNetEncoder(**SMALL, two_streams=True, initializer_range=0.3)
    names = [*encoder.input, "factorization_order", "mask_positions"]
    specs = [tf.TensorSpec((None, None), tf.int32) for _ in names]
    function = tf.function(lambda *arrays: encoder.query_stream(dict(zip(names, arrays))), input_signature=specs)
    for batch, length, places in ((2, 3, 2), (1, 5, 6)):
        arrays = [np.tile(np.arange(length, dtype="int32"), (batch, 1)) for _ in names[:-1]]
        arrays.append(np.resize(np.arange(1, length, dtype="int32"), (batch, places)))
        expected = encoder.query_stream(dict(zip(names, arrays)))
        assert expected.shape == (batch, places, 8)
        np.testing.assert_allclose(function(*arrays), expected, atol=1e-5)
