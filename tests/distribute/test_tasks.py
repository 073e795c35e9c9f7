"""Replicas train, measure and predict like one device: fields of tags, dialogues, and rows of several texts."""

import keras
import numpy as np
import pytest

from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.losses import CosineSimilarityLoss, MultipleNegativesRankingLoss
from keras_transfer.tasks import TextEmbedder
from keras_transfer.text import WordPreprocessor
from tests.distribute.examples import two_devices
from tests.strategies import two_replicas
from tests.tasks.dialogue import test_dialogue_model as conversations
from tests.tasks.tagging.taggers import examples, tagger
from tests.tasks.tiny import difference


def fields():
    """The metrics of a step of one device and of two replicas, whose field forbids what the logits alone predict."""
    strategy, logs = two_replicas(), []
    words, tags = examples(8)
    one = field()
    with strategy.scope():
        two = field()
    one.run_eagerly = True
    two.set_weights(one.get_weights())
    for model in (one, two):
        history = model.fit(words, tags, batch_size=8, shuffle=False, verbose=0).history
        logs.append({name: found for name, [found] in history.items()})
    return logs


def field():
    model = tagger("vectors", crf=True)
    transitions = model.random_field.transitions
    transitions.assign(10.0 * keras.ops.eye(transitions.shape[0]))  # All words of a sentence have the same tag.
    model.compile(keras.optimizers.SGD(0.0))
    return model


def test_two_replicas_measure_what_the_field_decodes(tensorflow_process):
    one, two = tensorflow_process("tests.distribute.test_tasks:fields")
    assert two == pytest.approx(one, abs=1e-6)


def dialogues():
    """The losses of a step of one device and of two replicas, and how far the weights are apart and moved."""
    strategy, losses = two_replicas(), []
    one = dialogue_model()
    with strategy.scope():
        two = dialogue_model()
    one.run_eagerly = True
    start = one.get_weights()
    two.set_weights(start)
    examples = [conversations.EXAMPLES[0]] * 4  # Each replica's loss is the mean over its own tokens.
    for task in (one, two):
        losses += task.fit(examples, batch_size=4, shuffle=False, verbose=0).history["loss"]
    return {
        "losses": losses,
        "weights": difference(two.get_weights(), one.get_weights()),
        "moved": difference(one.get_weights(), start),
    }


def dialogue_model():
    task = conversations.model()
    task.next_utterance.kernel.regularizer = keras.regularizers.L2(10.0)
    task.compile(keras.optimizers.SGD(0.1))
    return task


def test_two_replicas_take_the_step_of_one_device_in_dialogues(tensorflow_process):
    found = tensorflow_process("tests.distribute.test_tasks:dialogues")
    assert found["losses"][0] == pytest.approx(found["losses"][1], rel=1e-5)
    assert found["weights"] < 1e-5 < 1e-2 < found["moved"]


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


def embedders():
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


@pytest.fixture(scope="module")
def report(tensorflow_process):
    return tensorflow_process("tests.distribute.test_tasks:embedders")


def test_two_replicas_take_the_step_of_one_device_for_a_loss_of_single_rows(report):
    found = report["cosine"]
    assert found["weights"] < 1e-5 < 1e-2 < found["moved"]
    assert found["evaluate"][0] == pytest.approx(found["evaluate"][1], abs=1e-6)
    assert found["vectors"] < 1e-6


def test_each_replica_ranks_its_own_rows(report):
    found = report["ranking"]
    assert found["weights"] < 1e-5 < 1e-2 < found["moved"]


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="keras.distribution.DataParallel is JAX's")
def test_devices_of_jax_rank_all_rows_of_a_batch_also_if_they_cannot_split_them_evenly():
    one = embedder(MultipleNegativesRankingLoss())
    with two_devices():
        two = embedder(MultipleNegativesRankingLoss())
        start = two.get_weights()
        two.fit((FIRST[:5], SECOND[:5]), batch_size=6, shuffle=False, verbose=0)
        found = two.evaluate((FIRST[:5], SECOND[:5]), batch_size=6, verbose=0)
    one.fit((FIRST[:5], SECOND[:5]), batch_size=6, shuffle=False, verbose=0)
    assert found == pytest.approx(one.evaluate((FIRST[:5], SECOND[:5]), batch_size=6, verbose=0), abs=1e-6)
    assert difference(two.get_weights(), one.get_weights()) < 1e-5
    assert difference(one.get_weights(), start) > 1e-2
