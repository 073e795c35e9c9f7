"""Pairs of texts that the encoder reads one by one, as in InferSent."""

import keras
import numpy as np
import pytest

from keras_transfer.layers import PairFeatures
from keras_transfer.tasks import TextClassifier, TextRegressor
from keras_transfer.text import batches
from tests.tasks.tiny import encoder, preprocessor

FIRST, SECOND = ["good a", "b", "c d e f"], ["a", "bad b c d", "e"]


def classifier(**options):
    keras.utils.set_random_seed(0)
    return TextClassifier(encoder(), num_classes=2, preprocessor=preprocessor(), dropout=0.0, siamese=True, **options)


def test_the_head_reads_both_vectors_their_distance_and_their_product(eagerly):
    model = classifier()
    single = keras.Model(model.encoder.input, model.get_layer("pair_features").input)

    def vectors(texts):
        return single.predict({name: np.asarray(ids) for name, ids in preprocessor()(texts).items()}, verbose=0)

    u, v = vectors(FIRST), vectors(SECOND)
    kernel, bias = (keras.ops.convert_to_numpy(weight) for weight in model.get_layer("logits").weights)
    expected = np.concatenate([u, v, abs(u - v), u * v], axis=1) @ kernel + bias
    np.testing.assert_allclose(model.predict((FIRST, SECOND), verbose=0), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict((FIRST, SECOND), batch_size=2, verbose=0), expected, atol=1e-5)


def test_a_short_batch_and_one_batch_train():
    model = classifier()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    before = [weight.numpy() for weight in model.trainable_weights]
    model.fit((FIRST, SECOND), [0, 1, 1], batch_size=2, validation_data=((FIRST, SECOND), [0, 1, 1]), verbose=0)
    assert all(
        (weight.numpy() != old).any()
        for weight, old in zip(model.trainable_weights, before)
        if "pos" not in weight.path
    )
    assert np.isfinite(model.train_on_batch((FIRST, SECOND), np.array([0, 1, 1])))[0]


def test_the_export_takes_pairs(eagerly):
    import tensorflow as tf

    model = classifier()
    expected = model.predict_proba((FIRST, SECOND))
    signatures = model.signatures(pairs=True)
    assert list(signatures) == ["serving_default", "embed"]
    function = tf.function(signatures["serving_default"].function)
    answer = function(text=tf.constant(FIRST), text_pair=tf.constant(SECOND))
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)


def test_a_regressor_can_be_siamese_too(eagerly):
    model = TextRegressor(encoder(), num_targets=1, preprocessor=preprocessor(), siamese=True)
    assert model.predict((FIRST, SECOND), verbose=0).shape == (3, 1)


def test_the_features_of_a_pair():
    inputs = np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 0.0], [5.0, 5.0]], "float32")
    expected = [[1, 2, 3, 1, 2, 1, 3, 2], [0, 0, 5, 5, 5, 5, 0, 0]]
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(PairFeatures()(inputs)), expected)


def test_what_needs_pairs_is_one_clear_error():
    import tensorflow as tf

    model = classifier()
    with pytest.raises(ValueError, match="must be a tuple of at least two columns"):
        model.predict(["a"], verbose=0)
    with pytest.raises(ValueError, match="must be \\[batch, 2, length\\].*Received: one sequence for each row"):
        model.predict(batches((FIRST, SECOND), None, preprocessor=model.preprocessor), verbose=0)
    with pytest.raises(ValueError, match="Received: an unknown number of sequences for each row"):
        unknown = {name: keras.ops.convert_to_tensor(ids)[None] for name, ids in preprocessor()(FIRST).items()}
        tf.function(model.call, input_signature=[{name: tf.TensorSpec([None] * 3, "int32") for name in unknown}])(
            unknown
        )
    with pytest.raises(ValueError, match="expects pairs. Use `pairs=True`"):
        model.signatures()
    with pytest.raises(ValueError, match="`windows` cannot be used with `siamese=True`"):
        classifier(windows="mean")
