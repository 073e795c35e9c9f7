"""`TruncatedNormal`, and when it draws nothing."""

import keras
import numpy as np

from keras_transfer.layers.basic.initializers import TruncatedNormal, replaced_weights


def test_it_equals_the_initializer_of_keras():
    expected = keras.initializers.TruncatedNormal(stddev=0.5, seed=3)((4, 5))
    np.testing.assert_array_equal(TruncatedNormal(stddev=0.5, seed=3)((4, 5)), expected)


def test_it_draws_nothing_where_a_checkpoint_replaces_the_weights():
    initializer = TruncatedNormal(seed=3)
    with replaced_weights():
        assert not keras.ops.any(initializer((4, 5)))
    assert keras.ops.all(initializer((4, 5)))
    copy = keras.initializers.deserialize(keras.initializers.serialize(initializer))
    np.testing.assert_array_equal(copy((4, 5)), initializer((4, 5)))
