"""`LayerwiseOptimizer(sparse_embeddings=True)`: only the rows of a batch are updated, those as by dense Adam."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import L2SP, LayerwiseOptimizer

optimizers = keras.optimizers
on_tensorflow = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="other backends have no such option")
X = np.array([[1, 3], [3, 3], [1, 5]])  # Rows 1, 3 and 5, two of them several times.
Y = np.array([[1.0], [2.0], [-3.0]], "float32")
PRESENT, ABSENT = [1, 3, 5], [0, 2, 4, 6, 7]


def model_of(optimizer=None, sparse=True, **options):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((2,), dtype="int32")
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(8, 3, name="words")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1, name="top")(pooled))
    optimizer = optimizer or optimizers.Adam(0.1)
    model.compile(LayerwiseOptimizer(optimizer, model, sparse_embeddings=sparse, **options), "mse")
    return model


def slots(model):
    """The table of words and its two moments."""
    found = [variable for variable in model.optimizer.variables if "words" in variable.path and variable.ndim == 2]
    return [np.array(table) for table in (model.layers[1].embeddings, *found)]


def train(model, x=X, y=Y, dense=False):
    """Takes a step, possibly with the sum of the gradients of each row, and returns `slots`."""
    import tensorflow as tf

    weights = model.trainable_weights
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    table, *others = tape.gradient(loss, [weight.value for weight in weights])
    model.optimizer.apply([tf.convert_to_tensor(table) if dense else table, *others], weights)
    return slots(model)


@on_tensorflow
@pytest.mark.parametrize(
    "options", [{}, {"global_clipnorm": 0.1}, {"clipnorm": 0.1}, {"clipvalue": 0.05}, {"weight_decay": 0.1}], ids=str
)
def test_the_first_step_updates_the_rows_of_the_batch_as_dense_adam_and_no_others(options):
    options = {"weight_decay": 0.0, "learning_rate": 0.1, **options}
    start = np.array(model_of().layers[1].embeddings)
    dense = train(model_of(optimizers.AdamW(**options), sparse=False), dense=True)
    sparse = train(model_of(optimizers.AdamW(**options)))
    for ours, theirs in zip(sparse, dense, strict=True):
        np.testing.assert_allclose(ours[PRESENT], theirs[PRESENT], atol=1e-6)
    assert np.abs(sparse[0][PRESENT] - start[PRESENT]).min() > 0.01
    np.testing.assert_array_equal(sparse[0][ABSENT], start[ABSENT])


@on_tensorflow
@pytest.mark.parametrize(
    "optimizer",
    [optimizers.Adam(0.1, amsgrad=True), optimizers.RMSprop(0.1), optimizers.AdamW(0.1, clipnorm=0.1)],
    ids=["AMSGrad", "RMSprop", "clipnorm"],
)
def test_without_the_option_rows_that_occur_several_times_are_added_up_for_every_optimizer(optimizer):
    ours = train(model_of(optimizer, sparse=False))
    dense = train(model_of(optimizer, sparse=False), dense=True)
    for found, expected in zip(ours, dense, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@on_tensorflow
def test_a_row_that_is_absent_keeps_its_moments_and_its_value_bit_for_bit():
    model = model_of(optimizers.AdamW(0.1, weight_decay=0.1))
    before = train(model)
    after = train(model, np.array([[3, 7]]), Y[:1])
    absent = [0, 1, 2, 4, 5, 6]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new[absent], old[absent])
        assert np.abs(new[[3, 7]] - old[[3, 7]]).min() > 0
    assert int(model.optimizer.iterations) == 2


@on_tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_fit_in_a_graph_trains_the_rows_as_eager_steps_do(jit_compile):
    eager, graph = model_of(), model_of()
    graph.jit_compile = jit_compile
    graph.fit(X, Y, batch_size=3, epochs=2, shuffle=False, verbose=0)
    train(eager)
    for ours, theirs in zip(slots(graph), train(eager), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@on_tensorflow
def test_a_config_keeps_the_option():
    optimizer = model_of().optimizer
    assert optimizer.sparse_embeddings
    assert LayerwiseOptimizer.from_config(optimizer.get_config()).sparse_embeddings
    assert not model_of(sparse=False).optimizer.sparse_embeddings


@on_tensorflow
@pytest.mark.parametrize(
    ("optimizer", "options", "received"),
    [
        (optimizers.SGD, {}, "optimizer=SGD"),
        (lambda: optimizers.Adam(amsgrad=True), {}, "amsgrad=True"),
        (lambda: optimizers.Adam(gradient_accumulation_steps=2), {}, "gradient_accumulation_steps=2"),
        (optimizers.Adam, {"penalty": L2SP()}, "penalty=L2SP"),
    ],
)
def test_what_cannot_be_combined_with_it_is_an_error(optimizer, options, received):
    with pytest.raises(
        ValueError, match=f"`sparse_embeddings=True` requires TensorFlow, and Adam.*Received: {received}"
    ):
        model_of(optimizer(), **options)


@on_tensorflow
def test_an_embedding_whose_gradient_is_dense_is_an_error():
    model = model_of()
    weights = model.trainable_weights
    with pytest.raises(ValueError, match="requires an embedding that is only used to look up rows.*words/embeddings"):
        model.optimizer.apply([keras.ops.ones(weight.shape) for weight in weights], weights)


@pytest.mark.core
@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow has the option")
def test_other_backends_say_that_they_do_not_support_it():
    with pytest.raises(ValueError, match="requires TensorFlow.*Received: backend="):
        model_of()
