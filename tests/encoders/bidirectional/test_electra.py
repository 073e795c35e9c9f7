"""`ElectraEncoder`: the protocol, and when its embeddings are projected."""

from keras_transfer.encoders import ElectraEncoder

SMALL = {"vocabulary_size": 12, "num_layers": 2, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
SMALL |= {"max_sequence_length": 10, "initializer_range": 0.3}


def test_embeddings_are_projected_only_if_their_width_differs():
    assert ElectraEncoder(**SMALL, embedding_dim=12).embeddings_projection.kernel.shape == (12, 8)
    for options in ({}, {"embedding_dim": 8}):
        encoder = ElectraEncoder(**SMALL, **options)
        assert encoder.embeddings_projection is None and encoder.embedding_dim == 8
