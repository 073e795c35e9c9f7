"""Word vectors in a task: raw text, layer groups, freezing, `.keras` and export."""

import itertools

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import layer_groups
from keras_transfer.callbacks import GradualUnfreezing
from keras_transfer.checkpoints import WordVectors
from keras_transfer.encoders import WordVectorEncoder
from keras_transfer.tasks import TextClassifier
from keras_transfer.text import WordPreprocessor
from tests.helpers import EAGER, in_graph, save_and_load
from tests.tasks.tiny import difference, examples

WORDS = [*"abcdefghij", "good", "bad"]
TEXTS = ["a good b", "Bad, c!", "nothing of these", ""]


def classifier(preprocessor=True, pooling=None, **options):
    keras.utils.set_random_seed(0)
    vectors = WordVectors(WORDS, np.random.default_rng(0).normal(size=(12, 8)))
    encoder = WordVectorEncoder.from_vectors(vectors, pooling=pooling, **options)
    preprocessor = WordPreprocessor(vectors.words, sequence_length=24) if preprocessor else None
    return TextClassifier(encoder, preprocessor, num_classes=2, dropout=0.0)


def values(weights):
    return [keras.ops.convert_to_numpy(weight) for weight in weights]


@pytest.mark.parametrize("pooling", [None, "sif"])
def test_a_bag_learns_from_raw_text_and_survives_keras_files(pooling):
    texts, labels = examples()
    model = classifier(pooling=pooling, smoothing=0.1)
    assert model.pooling == {None: "mean", "sif": "pooled"}.get(pooling, pooling)
    model.compile(keras.optimizers.Adam(0.1))
    losses = model.fit(texts, labels, batch_size=8, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < 0.4 * losses[0]
    same = save_and_load(model)
    np.testing.assert_array_equal(same.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))
    assert same.preprocessor.vocabulary == WORDS and same.get_config() == model.get_config()


def test_the_task_pools_as_the_encoder_says():
    ids = classifier().preprocessor(TEXTS[:3])
    ids = {key: value.numpy() for key, value in ids.items()}
    for pooling in ("mean", "max", "sif"):
        model = classifier(pooling=pooling)
        kernel, bias = values(model.get_layer("logits").weights)
        pooled = keras.ops.convert_to_numpy(model.encoder(ids)["pooled_output"])
        np.testing.assert_allclose(model.predict(TEXTS[:3], verbose=0), pooled @ kernel + bias, atol=1e-5)


def test_frozen_vectors_stay_frozen_in_a_task_after_keras_files():
    texts, labels = examples()
    model = save_and_load(classifier(trainable_embeddings=False))
    assert len(model.trainable_weights) == 2
    before = values(model.encoder.weights)
    model.compile(keras.optimizers.Adam(0.05), run_eagerly=True)
    model.fit(texts, labels, verbose=0)
    assert difference(values(model.encoder.weights), before) == 0


@pytest.mark.parametrize("pooling", [None, "sif"])
def test_the_layer_groups_are_embeddings_and_a_head(pooling):
    groups = layer_groups(classifier(pooling=pooling))
    assert [(group.name, group.kind, group.pretrained) for group in groups] == [
        ("embeddings", "embeddings", True),
        ("head", "head", False),
    ]
    assert sum(group.parameters for group in groups) == 14 * 8 + 8 * 2 + 2 + (14 if pooling else 0)


def test_gradual_unfreezing_moves_only_the_thawed_groups():
    texts, labels = examples(32)
    model = classifier(pooling="sif")
    seen = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(values(model.weights))

    model.compile(keras.optimizers.Adam(0.05), run_eagerly=EAGER)
    seen.append(values(model.weights))
    model.fit(texts, labels, batch_size=8, verbose=0, callbacks=[GradualUnfreezing(steps=2), Look()])
    moves = [
        {w.path for w, a, b in zip(model.weights, before, after) if np.abs(a - b).max() > 0}
        for before, after in itertools.pairwise(seen)
    ]
    head = {"logits/kernel", "logits/bias"}
    assert moves == [head, head, head | {"token_embedding/embeddings"}, head | {"token_embedding/embeddings"}]


def test_the_signatures_take_raw_text():
    model = classifier(pooling="sif")
    logits = model.predict_on_batch(TEXTS)
    answer = in_graph(model.signatures()["serving_default"], TEXTS)
    np.testing.assert_allclose(answer["probabilities"], keras.ops.softmax(logits), atol=1e-6)
    embedding = in_graph(model.signatures()["embed"], TEXTS)["embedding"]
    kernel, bias = values(model.get_layer("logits").weights)
    np.testing.assert_allclose(embedding @ kernel + bias, logits, atol=1e-5)
