"""Run by test_embedders.py in the process with two CPU devices: an embedder on one device and on two replicas."""

import keras
import numpy as np

from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.losses import CosineSimilarityLoss, MultipleNegativesRankingLoss
from keras_transfer.tasks import TextEmbedder
from keras_transfer.text import WordPreprocessor
from tests.strategies import two_replicas
from tests.tasks.tiny import difference

WORDS = ["good", "bad", *"abcdef"]
FIRST = ["a b", "good", "c d e", "a bad", "good good a", "f"]
SECOND = ["b", "good b a f e", "c", "bad bad", "a", "f e d c"]
COSINES = [1.0, 0.5, -1.0, 0.0, 1.0, 0.3]


def embedder(loss):
    vectors = WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 4)))
    encoder = WordVectorEncoder.from_vectors(vectors, trainable_embeddings=True)
    model = TextEmbedder(encoder, WordPreprocessor(WORDS, sequence_length=8))
    model.compile(keras.optimizers.SGD(0.5), loss)
    return model


def main():
    """Differences of weights, losses and vectors between one device and two replicas."""
    strategy, found = two_replicas(), {}
    for name, loss, labels in (
        ("cosine", CosineSimilarityLoss, COSINES),
        ("ranking", MultipleNegativesRankingLoss, None),
    ):
        one = embedder(loss())
        one.run_eagerly = True
        with strategy.scope():
            two = embedder(loss())
        start = one.get_weights()
        # Of ranking, each replica uses its own rows, as batches of three rows on one device, whose gradients are added.
        half = [slice(0, 3), slice(3, 6)] if labels is None else [slice(0, 6)]
        moves = []
        for part in half:
            one.set_weights(start)
            y = None if labels is None else labels[part]
            one.fit((FIRST[part], SECOND[part]), y, batch_size=6, shuffle=False, verbose=0)
            moves.append([now - then for now, then in zip(one.get_weights(), start)])
        expected = [then + sum(move) / len(half) for then, *move in zip(start, *moves)]
        two.fit((FIRST, SECOND), labels, batch_size=6, shuffle=False, verbose=0)
        found[name] = {"weights": difference(two.get_weights(), expected), "moved": difference(expected, start)}
        if labels is not None:
            one.set_weights(two.get_weights())
            losses = [model.evaluate((FIRST, SECOND), labels, batch_size=4, verbose=0) for model in (one, two)]
            vectors = [model.predict((FIRST[:5], SECOND[:5]), batch_size=2, verbose=0) for model in (one, two)]
            found[name] |= {"evaluate": losses, "vectors": difference([vectors[0]], [vectors[1]])}
    return found
